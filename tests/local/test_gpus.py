"""GPUs of running pods: simulated ones (`--fake-gpus`), and those of a simulated nvidia-smi."""

import os
from collections.abc import Iterator

import pytest
from pods import commands
from pods.commands import Home, Local, framework, role
from pods.place import Pod
from pods.specs import FOREVER, container
from simulated_gpus import NAME, SIMULATED_GPUS, write_nvidia_smi

from conformance.client import Json
from conformance.waiting import wait_for

FIRST, SECOND = SIMULATED_GPUS
SHOW = "echo sees $CUDA_VISIBLE_DEVICES, $NVIDIA_VISIBLE_DEVICES"
ANNOTATION = "windlass.dev/gpus"


def requesting(home: Home, run: str, count: int, resource: str = "nvidia.com/gpu") -> Json:
    resources = {"limits": {resource: str(count)}} if count else {}
    return home.container(run, resources=resources)


def messages(lines: list[Json], name: str) -> list[str]:
    return [line["message"] for line in lines if line["object"] == name and "message" in line]


def output(lines: list[Json]) -> dict[str, str]:
    """Return the last log line of each task."""
    return {line["object"]: line["line"] for line in lines if line["event"] == "log"}


def test_second_job_waits_for_the_gpu_and_a_third_sees_none(home: Home) -> None:
    jobs = (
        framework(role(requesting(home, f"{SHOW}; sleep 2", 1), tasks=2), name="gpu"),
        framework(role(requesting(home, SHOW, 0)), name="cpu"),
    )
    lines = home.run(*jobs, options=("--fake-gpus", "1", "--output", "json")).expect(0).json_lines
    tasks = ("gpu/worker-0", "gpu/worker-1")
    (waiting,) = (line for line in lines if line.get("reason") == "FailedScheduling")
    assert waiting["object"] in tasks
    assert waiting["message"] == "no suitable node: the only node has too few free nvidia.com/gpu"
    both = "sees GPU-fake-0, GPU-fake-0"
    assert output(lines) == {**dict.fromkeys(tasks, both), "cpu/worker-0": "sees , void"}


def test_run_mentions_idle_gpus_that_no_task_requests(home: Home) -> None:
    without = home.windlass("run", "--fake-gpus", "2", "--", "true").expect(0)
    assert "this machine has 2 idle GPUs (simulated GPU), but the tasks request none" in without.stdout
    given = home.windlass("run", "--fake-gpus", "2", "--gpus", "all", "--", "sh", "-c", SHOW).expect(0)
    assert "idle" not in given.stdout
    assert "sees GPU-fake-0,GPU-fake-1" in given.stdout


@pytest.fixture
def local(home: Home) -> Iterator[Local]:
    with commands.local(home, "--fake-gpus", "3") as made:
        yield made


def assigned(pod: Pod) -> str | None:
    body = pod.place.client.get(pod.path).expect(200).body
    found: str | None = (body["metadata"].get("annotations") or {}).get(ANNOTATION)
    return found


def test_assignment_survives_a_restart_of_the_daemon(local: Local) -> None:
    place = local.new_place()

    def start() -> Pod:
        return place.start(container(FOREVER, resources={"limits": {"nvidia.com/gpu": "1"}}))

    first, second = start(), start()
    first.running(), second.running()
    before = assigned(first), assigned(second)
    assert {*before} == {"GPU-fake-0", "GPU-fake-1"}
    local.kill()
    local.up()
    place.client = local.client
    assert (assigned(first), assigned(second)) == before
    third, waits = start(), start()
    wait_for(
        "the free GPU to be assigned", lambda: {assigned(third), assigned(waits)} == {None, "GPU-fake-2"}
    )
    # A killed pod frees its GPU.
    first.delete(grace=0)
    wait_for("its GPU to be assigned", lambda: before[0] in (assigned(third), assigned(waits)))


def test_process_that_uses_a_gpu_is_reported_and_its_gpu_avoided(home: Home) -> None:
    processes = write_nvidia_smi(home.folder / "bin")
    processes.write_text(f"{FIRST} {os.getpid()} 528\n")
    path = ("env", f"PATH={home.folder / 'bin'}:{os.environ['PATH']}")

    def run(count: int) -> list[Json]:
        job = framework(role(requesting(home, SHOW, count)))
        return home.begin_run(job, options=("--output", "json"), before=path).done().expect(0).json_lines

    assert output(run(1)) == {"worker-0": f"sees {SECOND}, {SECOND}"}
    lines = run(2)
    assert output(lines) == {"worker-0": f"sees {SECOND},{FIRST}, {SECOND},{FIRST}"}
    reported = [text for text in messages(lines, "worker-0") if text.startswith("GPUInUse: ")]
    assert len(reported) == 1
    assert f"{FIRST} ({NAME}) is also used by process {os.getpid()} (" in reported[0]
    assert "which holds 528Mi of it" in reported[0]
