"""Logs of jobs on an embedded API server with a controller. The tests write the logs of the containers."""

import asyncio
import contextlib
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest
from operated import jobs
from scripted_cluster import Place, ScriptedCluster
from scripted_logs import LOST

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.client import lookup, tasks
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError
from windlass.client.logs import reader
from windlass.client.logs.container_log import LogOptions
from windlass.client.logs.lines import Line
from windlass.client.tasks import TaskSelector


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


def read(place: Place, name: str, task: str = "", **wanted: Any) -> list[Line]:
    async def work(connection: Connection) -> list[Line]:
        lines = reader.read_by_name(connection, name, task, LogOptions(**wanted))
        return [line async for line in lines]

    return place.use(work)


def texts(lines: list[Line]) -> list[str]:
    return [f"{line.label} {line.text}" for line in lines]


def submit_kept(place: Place, name: str, *roles: Json, **spec: Any) -> None:
    """Submit a job that completes and keeps its pods."""
    made = roles or (jobs.role("ps", 1, jobs.SUCCEEDS), jobs.role("worker", 2, jobs.SUCCEEDS))
    place.submit(jobs.framework(name, *made, completedPods="Keep", **spec))
    place.wait_for_completed(name)


@pytest.fixture(scope="module")
def kept(world: ScriptedCluster) -> Place:
    place = world.new_scripted_place()
    submit_kept(place, "digits")
    for pod, text, at in (
        ("ps-0", "one\n", 1),
        ("worker-1", "two\n", 2),
        ("worker-0", "three\n", 3),
        ("ps-0", "four\n", 4),
        ("worker-0", "five, and no end", 5),
    ):
        place.write(f"digits-{pod}", text, at=at)
    return place


ALL = ["ps-0 one", "worker-1 two", "worker-0 three", "ps-0 four", "worker-0 five, and no end"]
CASES: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "all-by-time": ("digits", "", {}, ALL),
    "followed-when-over": ("digits", "", {"follow": True}, ALL),
    "a-role": ("digits", "worker", {}, ["worker-1 two", "worker-0 three", "worker-0 five, and no end"]),
    "one": ("digits", "worker-0", {}, ["worker-0 three", "worker-0 five, and no end"]),
    "one-after-a-slash": ("digits/worker-1", "", {}, ["worker-1 two"]),
    "a-container": ("digits", "ps-0", {"container": "main"}, ["ps-0 one", "ps-0 four"]),
    "tail": ("digits", "", {"tail": 1}, ["worker-1 two", "ps-0 four", "worker-0 five, and no end"]),
    "since": ("digits", "", {"since_seconds": 5.0}, []),
    "no-lines": ("digits", "", {"tail": 0}, []),
}


@pytest.mark.parametrize(("name", "task", "wanted", "expected"), CASES.values(), ids=CASES.keys())
def test_selected_lines(
    kept: Place, name: str, task: str, wanted: dict[str, Any], expected: list[str]
) -> None:
    assert texts(read(kept, name, task, **wanted)) == expected


def test_fields_of_a_line(kept: Place) -> None:
    first, last = read(kept, "digits", "worker-0", has_timestamps=True)
    assert (first.task, first.container, first.attempt) == ("worker-0", "main", 0)
    assert (first.time, first.is_ended) == ("2026-01-01T00:00:03.000000000Z", True)
    assert (last.data, last.is_ended) == (b"five, and no end", False)


def test_bytes_are_unchanged(place: Place) -> None:
    """This includes invalid UTF-8 and control sequences."""
    submit_kept(place, "odd")
    written = b"\xff\x1b[31mred\x1b[0m \x00 \r done"
    place.write("odd-ps-0", written + b"\n")
    (line,) = read(place, "odd", "ps-0")
    assert line.data == written


def test_selected_container(place: Place) -> None:
    template = jobs.template(jobs.SUCCEEDS)
    template["spec"]["containers"].append({"name": "side", "image": "windlass/test:1"})
    submit_kept(place, "pair", jobs.role(pod=template))
    place.write("pair-worker-0", "from main\n", at=1)
    place.write("pair-worker-0", "from side\n", at=2, container="side")
    assert texts(read(place, "pair")) == ["worker-0/main from main", "worker-0/side from side"]
    assert texts(read(place, "pair", container="side")) == ["worker-0 from side"]


@pytest.mark.parametrize(
    ("task", "wanted", "words"),
    [
        ("worker-2", {}, "digits has no task worker-2; its tasks are ps-0, worker-0..1"),
        ("chief", {}, "digits has no task chief; its tasks are ps-0, worker-0..1"),
        ("ps-0", {"container": "side"}, "ps-0 has no container side; its containers are main"),
        ("ps-0", {"previous": True}, "ps-0 has no previous run: none of its containers was restarted"),
    ],
)
def test_unknown_job_task_and_container_are_reported(
    kept: Place, task: str, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(ObjectNotFoundError) as error:
        read(kept, "digits", task, **wanted)
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [("", "", "the name of a job"), ("a/b-0", "c-0", "expected one task"), ("a", "B 1", "a task, e.g.")],
)
def test_invalid_selection_is_rejected(name: str, task: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tasks.parse_selector(name, task)


def test_deleted_pods_are_reported(place: Place) -> None:
    place.submit(jobs.framework("brief", jobs.role(life=jobs.SUCCEEDS)))
    place.wait_for_completed("brief")
    for task, words in {
        "": "the pods of brief and their logs are deleted. See `windlass why brief`",
        "worker-0": "the pod of worker-0 and its log are deleted. See `windlass why brief`",
    }.items():
        with pytest.raises(ObjectNotFoundError, match="deleted") as error:
            read(place, "brief", task)
        assert str(error.value).startswith(words)


def test_pods_that_have_not_started_are_reported(place: Place) -> None:
    place.submit(jobs.framework("early", jobs.role(life=jobs.PENDING)))
    place.wait_for_state("early", "AttemptPreparing")
    with pytest.raises(ObjectNotFoundError, match="worker-0 has not started yet"):
        read(place, "early", "worker-0")
    assert read(place, "early") == []


def test_removed_log_is_reported(place: Place) -> None:
    submit_kept(place, "digits")
    place.write("digits-worker-0", "one\n")
    place.lose_log("digits-worker-1")
    notes: list[str] = []

    async def work(connection: Connection) -> list[Line]:
        lines = reader.read_by_name(connection, "digits", "worker", note=notes.append)
        return [line async for line in lines]

    assert texts(place.use(work)) == ["worker-0 one"]
    assert notes == [f"cannot read the log of worker-1: {LOST.decode()}"]


def test_previous_run_of_a_container(place: Place) -> None:
    place.submit(jobs.framework("again", jobs.role(tasks=2, life=jobs.FOREVER)))
    place.wait_for_running("again", 2)
    place.write("again-worker-1", "before\n", at=1)
    place.restart_container("again-worker-1")
    place.write("again-worker-1", "after\n", at=2)
    assert texts(read(place, "again", "worker-1")) == ["worker-1 after"]
    assert texts(read(place, "again", "worker-1", previous=True)) == ["worker-1 before"]
    assert texts(read(place, "again", previous=True)) == ["worker-1 before"], "only pods with a log"


def test_previous_attempt_has_no_log(place: Place) -> None:
    """Its pod is deleted together with its log, and one message says so."""
    retry = {"maxRetryCount": 1}
    place.submit(jobs.framework("retried", jobs.role(life=jobs.fails(1), retry=retry), completedPods="Keep"))
    place.wait_for_completed("retried")
    with pytest.raises(ObjectNotFoundError, match="the pods and logs of earlier attempts are deleted"):
        read(place, "retried", "worker-0", previous=True)


# Following


class Following:
    """Follows logs in the background."""

    def __init__(self, place: Place, name: str, task: str = "", **wanted: Any) -> None:
        self.lines: list[Line] = []
        self.notes: list[str] = []
        self.place = place
        job, choice = tasks.parse_selector(name, task)
        self.work: Future[None] = asyncio.run_coroutine_threadsafe(
            self._follow(job, choice, LogOptions(follow=True, **wanted)), place.stage._loop
        )

    async def _follow(self, job: str, choice: TaskSelector, wanted: LogOptions) -> None:
        async with self.place.connected() as connection:
            framework = await lookup.find(connection, job)
            lines = reader.read(connection, framework, choice, wanted, self.notes.append)
            async with contextlib.aclosing(lines):
                async for line in lines:
                    self.lines.append(line)

    @property
    def texts(self) -> list[str]:
        return texts(self.lines)

    def wait_for(self, *expected: str) -> None:
        """Wait until exactly these lines have arrived, in this order."""

        def look() -> bool:
            if self.work.done():
                self.work.result()
            return len(self.lines) >= len(expected) or self.work.done()

        try:
            wait_for(f"{expected}", look)
        finally:
            assert self.texts == list(expected)

    def end(self) -> None:
        """Wait until following ends by itself."""
        self.work.result(timeout=120)

    def stop(self) -> None:
        self.work.cancel()
        with contextlib.suppress(BaseException):
            self.work.result(timeout=60)


@pytest.fixture
def started(place: Place) -> Place:
    """Submit two workers that run until the test ends them."""
    place.submit(jobs.framework("live", jobs.role(tasks=2, life=jobs.FOREVER, min_succeeded=2)))
    place.wait_for_running("live", 2)
    return place


def test_follow_until_completion(started: Place) -> None:
    started.write("live-worker-0", "one\n", at=1)
    following = Following(started, "live")
    following.wait_for("worker-0 one")
    started.write("live-worker-1", "two\n", at=2)
    following.wait_for("worker-0 one", "worker-1 two")
    started.write("live-worker-0", "three", at=3)
    started.finish("live-worker-0", "live-worker-1")
    following.end()
    assert following.texts == ["worker-0 one", "worker-1 two", "worker-0 three"]


@pytest.mark.parametrize("break_off", ["cut", "close"])
def test_lost_connection_is_resumed(started: Place, break_off: str) -> None:
    """No line is repeated or lost, even with equal timestamps."""
    following = Following(started, "live", "worker-0")
    for text in ("one\n", "two\n"):
        started.write("live-worker-0", text, at=1)
    following.wait_for("worker-0 one", "worker-0 two")
    for round_ in range(3):
        asked = started.on_scribe(lambda scribe: len(scribe.asked))
        started.on_scribe(lambda scribe: getattr(scribe, break_off)())
        started.write("live-worker-0", f"round {round_}\n", at=1)
        wait_for("another request", lambda asked=asked: len(started.scribe.asked) > asked)  # type: ignore[misc]
    following.wait_for("worker-0 one", "worker-0 two", *(f"worker-0 round {at}" for at in range(3)))
    following.stop()


def test_lines_deleted_before_they_were_read_are_reported(started: Place) -> None:
    """A node deletes old parts of a log while the connection is lost."""
    following = Following(started, "live", "worker-0")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    started.on_scribe(lambda scribe: scribe.rotate(f"{started.name}/live-worker-0"))
    started.write("live-worker-0", "three\n", at=3)
    following.wait_for("worker-0 one", "worker-0 three")
    assert "lines of worker-0 may be missing: the log was rotated" in following.notes
    following.stop()


def test_follow_continues_when_a_restarted_node_does_not_know_its_pods(started: Place) -> None:
    following = Following(started, "live", "worker-0")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    started.on_scribe(lambda scribe: setattr(scribe, "unknown_for", 2))
    started.on_scribe(lambda scribe: scribe.cut())
    wait_for("two answers with 404", lambda: started.scribe.unknown_for == 0)
    started.write("live-worker-0", "two\n", at=2)
    following.wait_for("worker-0 one", "worker-0 two")
    following.stop()
    assert not any("gone" in note for note in following.notes)


def test_container_removed_while_it_is_followed(started: Place) -> None:
    """The message of the node is not a log line, and no line is repeated."""
    following = Following(started, "live")
    started.write("live-worker-0", "one\n", at=1)
    following.wait_for("worker-0 one")
    asked = started.on_scribe(lambda scribe: len(scribe.asked))
    started.lose_log("live-worker-0")
    wait_for("another request", lambda: len(started.scribe.asked) > asked)
    started.lose_log("live-worker-1")
    started.finish("live-worker-0", "live-worker-1")
    following.end()
    assert following.texts == ["worker-0 one"]
    assert set(following.notes) == {f"cannot read the log of worker-1: {LOST.decode()}"}


def test_tail_limits_the_first_lines(started: Place) -> None:
    for at in range(5):
        started.write("live-worker-0", f"{at}\n", at=at)
    following = Following(started, "live", tail=2)
    following.wait_for("worker-0 3", "worker-0 4")
    started.on_scribe(lambda scribe: scribe.cut())
    started.write("live-worker-0", "5\n", at=5)
    following.wait_for("worker-0 3", "worker-0 4", "worker-0 5")
    following.stop()


def test_restarted_container_is_followed(started: Place) -> None:
    """The last lines of the previous run are included."""
    started.write("live-worker-0", "before\n", at=1)
    following = Following(started, "live")
    following.wait_for("worker-0 before")
    started.write("live-worker-0", "last words\n", at=2)
    started.restart_container("live-worker-0")
    started.write("live-worker-0", "after\n", at=3)
    following.wait_for("worker-0 before", "worker-0 last words", "worker-0 after")
    following.stop()


def test_later_pods_are_followed(place: Place) -> None:
    """They are created by a retry and by scaling."""
    retry = {"maxRetryCount": 1}
    place.submit(jobs.framework("grown", jobs.role(life=jobs.FOREVER, retry=retry, min_succeeded=2)))
    place.wait_for_running("grown", 1)
    place.write("grown-worker-0", "first try\n", at=1)
    following = Following(place, "grown")
    following.wait_for("worker-0 first try")
    first = place.pods("grown")["grown-worker-0"]["metadata"]["uid"]
    # The response arrives when a new pod has the same name.
    place.on_scribe(lambda scribe: scribe.hold())
    place.finish("grown-worker-0", code=1)
    wait_for("another pod", lambda: _is_another(place, "grown-worker-0", first))
    place.forget_log("grown-worker-0")
    place.write("grown-worker-0", "second try\n", at=2)
    place.on_scribe(lambda scribe: scribe.release())
    following.wait_for("worker-0 first try", "worker-0 second try")
    assert [line.attempt for line in following.lines] == [0, 1]
    place.write("grown-worker-1", "one more\n", at=3)
    place.scale("grown", 0, 2)
    following.wait_for("worker-0 first try", "worker-0 second try", "worker-1 one more")
    place.wait_for_running("grown", 2)
    place.finish("grown-worker-0", "grown-worker-1")
    following.end()
    assert len(following.lines) == 3


def _is_another(place: Place, pod: str, uid: str) -> bool:
    found = place.pods().get(pod)
    return found is not None and found["metadata"]["uid"] != uid


def test_follow_starts_before_the_first_pod(place: Place) -> None:
    place.submit(
        jobs.framework("held", jobs.role(life=jobs.FOREVER, min_succeeded=1), executionType="Create")
    )
    place.wait_for_state("held", "AttemptCreationPending")
    following = Following(place, "held", "worker-0")
    place.write("held-worker-0", "at last\n")
    place.change("held", {"executionType": "Start"})
    following.wait_for("worker-0 at last")
    place.wait_for_running("held", 1)
    place.finish("held-worker-0")
    following.end()


def test_follow_ends_when_the_job_is_deleted(started: Place) -> None:
    started.write("live-worker-0", "one\n")
    following = Following(started, "live")
    following.wait_for("worker-0 one")
    for pod in ("live-worker-0", "live-worker-1"):
        started.end_log(pod)
    started.delete("live")
    following.end()
    assert following.texts == ["worker-0 one"]


def test_too_many_tasks_cannot_be_followed(place: Place) -> None:
    role = jobs.role(tasks=reader.MAX_FOLLOWED + 1)
    place.submit(jobs.framework("huge", role, executionType="Create"))
    with pytest.raises(
        ClientError, match=r"cannot follow 501 tasks: the maximum is 500\. Select a role or a task"
    ):
        read(place, "huge", follow=True)


def test_line_is_a_value() -> None:
    line = Line(task="worker-0", container="main", attempt=0, data=b"\xff a")
    assert line.text == "\ufffd a"
    assert msgspec.structs.replace(line, data=b"x").text == "x"
