"""Faults of `--inject`: their pods, their times, and the lines about them."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from windlass.client.pods import Pod
from windlass.kubeapi import access
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.transport import Transport
from windlass.model.base import Json
from windlass.runner.fault_injector import FaultTargets, Injector
from windlass.runner.report import Line, Topic
from windlass.wire import fault_injection

PREFIXES = {("default", "job"): "", ("default", "other"): "other/"}


def pod(task: str = "worker-0", uid: str = "1", phase: str = "Running", framework: str = "job") -> Json:
    role, _, index = task.rpartition("-")
    labels = {"FC_FRAMEWORK_NAME": framework, "FC_TASKROLE_NAME": role, "FC_TASK_INDEX": index}
    metadata = {"name": f"{framework}-{task}", "namespace": "default", "uid": uid, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": phase}}


# Targets


Seen = list[tuple[Json, list[str]]]
"""Pods in the order of observation, with their faults."""

FAULTS: dict[str, tuple[list[str], Seen]] = {
    "one-task": (
        ["kill worker-1 after 5s"],
        [(pod("worker-0", "1"), []), (pod("worker-1", "2"), ["kill worker-1"]), (pod("ps-0", "3"), [])],
    ),
    "a-role": (
        ["exit 3 worker"],
        [
            (pod("worker-0", "1"), ["exit 3 worker-0"]),
            (pod("worker-1", "2"), ["exit 3 worker-1"]),
            (pod("ps-0", "3"), []),
        ],
    ),
    "seen-again": (["kill worker"], [(pod(), ["kill worker-0"]), (pod(), []), (pod(phase="Failed"), [])]),
    "before-it-runs": (
        ["delete worker-0"],
        [(pod(phase="Pending"), []), (pod(phase="Pending"), []), (pod(), ["delete worker-0"])],
    ),
    "never-ran": (["kill worker-0"], [(pod(phase="Pending"), []), (pod(phase="Succeeded"), [])]),
    "first-attempt-only": (
        ["kill worker-0"],
        [(pod(uid="1"), ["kill worker-0"]), (pod(uid="2"), []), (pod(uid="3"), [])],
    ),
    "the-first-attempt-never-ran": (
        ["kill worker-0"],
        [(pod(uid="1", phase="Failed"), []), (pod(uid="2"), [])],
    ),
    "every-time": (
        ["kill worker-0 every time"],
        [(pod(uid="1"), ["kill worker-0"]), (pod(uid="2"), ["kill worker-0"])],
    ),
    "several": (
        ["kill worker-0 after 1s", "delete worker-0 after 2s", "delay worker-0 by 3s"],
        [(pod(), ["kill worker-0", "delete worker-0"])],
    ),
    "several-jobs": (
        ["kill worker-0"],
        [(pod(uid="1"), ["kill worker-0"]), (pod(uid="2", framework="other"), ["kill worker-0"])],
    ),
    "no-task": (["kill worker"], [({"metadata": {"name": "x"}, "status": {"phase": "Running"}}, [])]),
}


@pytest.mark.parametrize(("written", "seen"), FAULTS.values(), ids=FAULTS)
def test_faults_of_observed_pods(written: list[str], seen: Seen) -> None:
    aims = FaultTargets(map(fault_injection.parse, written))
    for body, expected in seen:
        faults = aims.faults(msgspec.convert(body, Pod))
        assert [fault.description for fault in faults] == expected
        assert {(fault.pod, fault.uid) for fault in faults} <= {
            (body["metadata"]["name"], body["metadata"].get("uid"))
        }


def test_delay_applies_to_starting_pods() -> None:
    aims = FaultTargets(map(fault_injection.parse, ["delay worker by 30s", "kill worker-0"]))
    first = msgspec.convert(pod(uid="1", phase="Pending"), Pod)
    second = msgspec.convert(pod(uid="2", phase="Pending"), Pod)
    assert [(fault.description, fault.injection.seconds) for fault in aims.delays(first)] == [
        ("delay worker-0 by 30s", 30.0)
    ]
    assert aims.delays(second) == ()


# Injection


class Cluster:
    """A fake cluster. Containers of the pods in `running` can be ended."""

    def __init__(self, *running: str) -> None:
        self.running = running
        self.asked: list[str] = []
        self.ended: list[tuple[str, int]] = []
        self.delay_of: Callable[[Json], float] | None = None

    def end_container(
        self, namespace: str, pod: str, *, uid: str = "", container: str = "", code: int = 137
    ) -> bool:
        self.asked.append(pod)
        is_there = f"{namespace}/{pod}/{uid}{container}" in self.running
        if is_there:
            self.ended.append((pod, code))
        return is_there

    def delay_pods(self, seconds_of: Callable[[Json], float]) -> None:
        self.delay_of = seconds_of


def run_injector(
    cluster: Cluster, *written: str, then: Callable[[Injector], Any], asks_for: int = 1
) -> list[Line]:
    """Run an injector until `asks_for` containers were ended, and return its lines. No API server handles deletions."""
    lines: list[Line] = []

    async def main() -> None:
        async with Transport(access.unix("/nonexistent/socket")) as transport:
            injector = Injector(
                map(fault_injection.parse, written), cluster, transport, lines.append, PREFIXES
            )
            then(injector)
            async with asyncio.timeout(60):
                while len(cluster.asked) < asks_for:
                    await asyncio.sleep(0.001)
            await injector.finish()

    asyncio.run(main())
    return lines


def summaries(lines: list[Line]) -> list[tuple[str, str, str]]:
    assert {line.event for line in lines} <= {Topic.NOTE}
    return [(line.object, line.reason, line.message) for line in lines]


def see(*bodies: Json) -> Callable[[Injector], None]:
    def then(injector: Injector) -> None:
        for body in bodies:
            injector.on_pod(msgspec.convert(body, Pod))

    return then


def test_exit_fault_ends_container() -> None:
    cluster = Cluster("default/job-worker-0/1")
    lines = run_injector(cluster, "exit 3 worker-0 after 10ms", then=see(pod()))
    assert cluster.ended == [("job-worker-0", 3)]
    assert summaries(lines) == [("worker-0", "Injected", "injected: exit 3 worker-0")]


def test_line_names_job_if_there_are_several() -> None:
    cluster = Cluster("default/other-worker-0/1")
    lines = run_injector(cluster, "kill worker-0", then=see(pod(framework="other")))
    assert summaries(lines) == [("other/worker-0", "Injected", "injected: kill worker-0")]


def test_kill_ends_container_with_code_137() -> None:
    cluster = Cluster("default/job-worker-0/1")
    run_injector(cluster, "kill worker-0", then=see(pod()))
    assert cluster.ended == [("job-worker-0", 137)]


NEVER = {
    "over-before": ("kill worker-0", see(pod()), 1),
    "not-yet": ("kill worker-0 after 1h", see(pod()), 0),
    "not-seen": ("delete ps-0", see(pod()), 0),
    "a-delay-of-nothing": ("delay ps-0 by 1s", see(), 0),
}


@pytest.mark.parametrize(("written", "then", "asks_for"), NEVER.values(), ids=NEVER)
def test_faults_that_were_not_injected_are_reported(
    written: str, then: Callable[[Injector], None], asks_for: int
) -> None:
    (line,) = run_injector(Cluster(), written, then=then, asks_for=asks_for)
    task = str(fault_injection.parse(written).task)
    assert summaries([line]) == [
        (
            task,
            "NotInjected",
            f"not injected: {fault_injection.parse(written)}: the task ended before, or never ran",
        )
    ]


def test_failed_deletion_is_reported_once_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()

    async def fail(*_: object) -> None:
        cluster.asked.append("job-worker-0")
        raise ApiError("the API server is unreachable")

    monkeypatch.setattr(Transport, "send", fail)
    lines = run_injector(cluster, "delete worker-0", then=see(pod()))
    expected = "not injected: delete worker-0: the API server is unreachable"
    assert summaries(lines) == [("worker-0", "NotInjected", expected)]


def test_delay_is_reported_when_pod_is_created() -> None:
    cluster = Cluster()

    def come(_: Injector) -> None:
        assert cluster.delay_of is not None
        assert cluster.delay_of(pod(phase="Pending")) == 30.0
        assert cluster.delay_of(pod("worker-1", uid="2", phase="Pending")) == 0.0
        assert cluster.delay_of(pod(uid="3", phase="Pending")) == 0.0

    lines = run_injector(cluster, "delay worker-0 by 30s", then=come, asks_for=0)
    assert summaries(lines) == [("worker-0", "Injected", "injected: delay worker-0 by 30s")]


def test_without_delays_no_delay_function_is_set() -> None:
    cluster = Cluster("default/job-worker-0/1")
    run_injector(cluster, "kill worker-0", then=see(pod()))
    assert cluster.delay_of is None


def test_stopped_injector_injects_nothing() -> None:
    """A pod may be observed, and a timer may be due, after the run has ended."""
    cluster = Cluster("default/job-worker-0/1", "default/job-worker-1/2")

    async def main() -> None:
        async with Transport(access.unix("/nonexistent/socket")) as transport:
            wanted = map(fault_injection.parse, ["kill worker", "delete worker"])
            injector = Injector(wanted, cluster, transport, lambda _: None, {})
            see(pod())(injector)
            await injector.stop()
            see(pod("worker-1", "2"))(injector)
            due = asyncio.Event()
            asyncio.get_running_loop().call_later(0, due.set)
            await due.wait()

    asyncio.run(main())
    assert cluster.asked == []
