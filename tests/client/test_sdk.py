"""The SDK: its examples, threads, event loops and errors."""

import asyncio
import doctest
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import in_process_cluster
import msgspec
import pytest
from fake_kubelet.lifecycle import Life
from in_process_cluster import ClusterNamespace, InProcessCluster
from operated import jobs

import windlass
from windlass import AsyncClient, Client, ClientError, Job, JobState, Role, Runtime
from windlass.client import errors

STORY = (
    "upload",
    "submit",
    "wait",
    "get",
    "list",
    "watch",
    "logs",
    "result",
    "why",
    "events",
    "history",
    "env",
    "start_companions",
    "companions",
    "scale",
    "suspend",
    "resume",
    "report",
    "stop",
    "delete",
)
"""The examples of the methods, in an order in which they can run."""
FOREVER = {"metadata": {"annotations": jobs.FOREVER}}
JOB = Job(name="digits", image="python:3.12", command="python train.py", roles={"worker": Role(tasks=2)})


@pytest.fixture
def client(place: ClusterNamespace) -> Iterator[Client]:
    with Client(place.kubeconfig, namespace=place.name) as client:
        yield client


def test_examples_of_the_methods_run() -> None:
    with (
        in_process_cluster.opened(life=Life(runs_for=None)) as endless,
        Client(endless.kubeconfig, namespace=endless.new_place().name) as client,
    ):
        runner = doctest.DocTestRunner()
        parser = doctest.DocTestParser()
        known = {"client": client, "Job": Job, "Role": Role}
        for name in STORY:
            text = inspect.getdoc(getattr(Client, name))
            assert text is not None
            example = parser.get_doctest(text, known, name, None, None)
            assert example.examples, f"{name} has no example"
            failures: list[str] = []
            runner.run(example, out=failures.append, clear_globs=False)
            assert not failures, "".join(failures)


def test_examples_use_every_method() -> None:
    methods = {
        name
        for name in vars(AsyncClient)
        if not name.startswith("_") and inspect.isfunction(getattr(AsyncClient, name))
    }
    described = {name for name, found in vars(Client).items() if hasattr(found, "__wrapped__")}
    assert methods - {"close"} == described == set(STORY)


def test_client_can_be_used_by_several_threads(client: Client) -> None:
    def run(number: int) -> windlass.JobView:
        name = f"job-{number}"
        client.submit(Job(name=name, image="python:3.12", command="true", roles={"worker": Role(tasks=1)}))
        return client.wait(name)

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(run, range(8)))
    assert [(job.name, job.has_succeeded, job.code) for job in done] == [
        (f"job-{number}", True, 0) for number in range(8)
    ]
    assert [job.name for job in client.list()] == [job.name for job in done]


def test_blocking_client_works_beside_a_running_loop(client: Client) -> None:
    async def cell_of_a_notebook() -> windlass.JobView:
        client.submit(JOB)
        return client.wait("digits")

    assert asyncio.run(cell_of_a_notebook()).state is JobState.SUCCEEDED


def test_asynchronous_client(place: ClusterNamespace) -> None:
    async def story() -> list[str]:
        async with AsyncClient(place.kubeconfig, namespace=place.name) as client:
            submitted = client.submit({"name": "digits", "image": "x", "command": "true", "roles": {"a": {}}})
            other = client.submit(msgspec.structs.replace(JOB, name="other"))
            await asyncio.gather(submitted, other)
            await asyncio.gather(client.wait("digits"), client.wait("other"))
            return [job.state async for job in client.watch("digits")]

    assert asyncio.run(story()) == [JobState.SUCCEEDED]


def test_watch_ends_with_the_job(client: Client, place: ClusterNamespace) -> None:
    client.submit(Job(name="digits", image="x", command="true", roles={"worker": Role(tasks=1, pod=FOREVER)}))
    seen = []
    for job in client.watch("digits"):
        seen.append(job.state)
        if job.state is JobState.RUNNING:
            place.end_pod("digits-worker-0", exit_code=3)
    assert seen[-1] is JobState.FAILED
    assert JobState.RUNNING in seen
    done = client.get("digits")
    (task,) = done.tasks
    assert (done.code, done.has_succeeded, task.code, task.state) == (3, False, 3, "Failed")
    assert "exit" in done.reason or "3" in done.reason


def test_loaded_job_can_be_changed_before_submission(client: Client, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("print()")
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: digits\nruntime: pytorch\ncode: src\ncommand: python train.py\nroles: {worker: {tasks: 3}}"
    )
    job = windlass.load(file)
    assert (job.runtime, job.code, job.roles["worker"].tasks) == (Runtime.PYTORCH, str(tmp_path / "src"), 3)
    assert client.submit(job).roles == {"worker": 3}


WRONG: dict[str, tuple[Callable[[Client], object], str]] = {
    "an invalid job": (lambda client: client.submit(Job(name="Not A Label")), "found"),
    "two jobs at once": (
        lambda client: client.submit(Path(__file__).parent / "two_jobs.yaml"),
        "the file has several jobs: submit each of them separately",
    ),
    "no such job": (lambda client: client.get("nothing"), 'there is no job "nothing"'),
    "no such job, to be waited for": (lambda client: client.wait("nothing"), 'there is no job "nothing"'),
    "no such job, to be watched": (lambda client: list(client.watch("nothing")), "there is no job"),
    "no such file": (lambda client: client.submit("missing.yaml"), "missing.yaml: cannot be read"),
    "an invalid condition": (
        lambda client: client.wait("digits", until="done"),
        "until: found 'done', expected completed, running or deleted",
    ),
    "an invalid task": (lambda client: list(client.logs("digits", "B 1")), "expected a task, e.g. worker-1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_have_one_message(case: str, client: Client) -> None:
    act, message = WRONG[case]
    with pytest.raises(ClientError) as refusal:
        act(client)
    assert message in str(refusal.value)


def test_wait_times_out(client: Client) -> None:
    client.submit(Job(name="digits", image="x", command="true", roles={"worker": Role(pod=FOREVER)}))
    client.wait("digits", until="running")
    with pytest.raises(
        errors.TimedOutError, match=r"digits is not completed after 0\.01 s: digits is running: 1 of 1 task"
    ):
        client.wait("digits", timeout=0.01)
    client.delete("digits", wait=False)
    assert client.wait("digits", until="deleted").name == "digits"


def test_wait_raises_after_a_deletion(client: Client) -> None:
    client.submit(Job(name="digits", image="x", command="true", roles={"worker": Role(pod=FOREVER)}))
    client.wait("digits", until="running")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "digits")
        client.delete("digits")
        with pytest.raises(errors.ClientError, match=r"was deleted|no job"):
            waiting.result(timeout=120)


def test_close_leaves_no_threads(world: InProcessCluster) -> None:
    before = threading.active_count()
    client = Client(world.kubeconfig)
    client.list()
    client.close()
    client.close()
    assert threading.active_count() == before
    with pytest.raises(ClientError, match="the client is closed"):
        client.list()


def test_close_cancels_pending_calls(world: InProcessCluster, place: ClusterNamespace) -> None:
    client = Client(world.kubeconfig, namespace=place.name)
    client.submit(Job(name="digits", image="x", command="true", roles={"worker": Role(pod=FOREVER)}))
    client.wait("digits", until="running")
    changes = client.watch("digits")
    next(changes)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "digits")
        client.close()
        with pytest.raises((CancelledError, ClientError)):
            waiting.result(timeout=120)
    changes.close()  # type: ignore[attr-defined]


def test_missing_cluster_is_reported(tmp_path: Path) -> None:
    with (
        Client(tmp_path / "missing") as client,
        pytest.raises(errors.NoClusterError, match="windlass local up"),
    ):
        client.list()
