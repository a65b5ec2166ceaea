"""Lines that a run reports, by pod changes and events."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from windlass.client.pods import Pod
from windlass.client.submit.plan import CompanionRef
from windlass.model.companions import Companion
from windlass.render.manifest import Manifest
from windlass.runner.report import DetailLine, Event, Line, LineGenerator, Topic

NOW = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)


def job(name: str = "job", prefix: str = "") -> Manifest:
    return Manifest({"metadata": {"name": name, "namespace": "default"}}, prefix)


# Pods and events


def pod(phase: str = "Pending", node: str = "n", *containers: dict[str, Any], **more: Any) -> Pod:
    metadata = {
        "name": "job-worker-0",
        "namespace": "default",
        "uid": more.pop("uid", "u"),
        "labels": {"FC_FRAMEWORK_NAME": "job", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0"},
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if more.pop("is_deleting", False) else {}),
    }
    status = {"phase": phase, "containerStatuses": list(containers), **more}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod)


def container(restarts: int = 0, **state: dict[str, Any]) -> dict[str, Any]:
    return {"name": "main", "restartCount": restarts, "state": state}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return container(terminated={"exitCode": code, "reason": reason})


WAITING = {"reason": "CreateContainerError", "message": "no such command"}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod(node="")], []),
        (
            [pod(), pod(), pod("Running"), pod("Running"), pod("Succeeded")],
            ["scheduled to n", "running", "succeeded"],
        ),
        ([pod("Running", "n", podIP="10.0.0.1")], ["running at 10.0.0.1"]),
        ([pod("Failed", "n", ended(3))], ["failed: container main exited with code 3"]),
        (
            [pod("Failed", "n", ended(137, "OOMKilled"))],
            ["failed: container main exited with code 137 (OOMKilled)"],
        ),
        (
            [pod("Failed", "n", ended(128, "StartError"))],
            ["could not start: StartError"],
        ),
        (
            [pod("Failed", "n", reason="Evicted", message="The node was low")],
            ["failed: Evicted: The node was low"],
        ),
        (
            [pod("Failed", "n", ended(143), is_deleting=True)],
            ["stopped: container main exited with code 143"],
        ),
        (
            [
                pod("Pending", "n", container(waiting=WAITING)),
                pod("Pending", "n", container(waiting=WAITING)),
            ],
            ["container main is waiting: cannot start: no such command", "scheduled to n"],
        ),
        ([pod("Pending", "n", container(waiting={"reason": "ContainerCreating"}))], ["scheduled to n"]),
        (
            [pod("Running", "n", container(1)), pod("Running", "n", container(2))],
            ["container main restarted", "running", "container main restarted (2 times)"],
        ),
        ([pod("Running", uid="a"), pod("Running", uid="b")], ["running", "running"]),
        ([pod("Unknown")], ["Unknown"]),
    ],
)
def test_lines_about_a_pod(pods: list[Pod], expected: list[str]) -> None:
    report = LineGenerator([job()])
    list(report.submitted_lines(("default", "job"), NOW))
    told = [line for one in pods for line in report.pod_lines(one, NOW)]
    assert [line.message for line in told] == expected
    assert {(line.object, line.event) for line in told} <= {("worker-0", Topic.POD)}


@pytest.mark.parametrize(
    ("before", "expected"), [("Running", ["deleted"]), ("Succeeded", []), ("Failed", [])]
)
def test_lines_about_a_deleted_pod(before: str, expected: list[str]) -> None:
    report = LineGenerator([job()])
    list(report.pod_lines(pod(before), NOW))
    assert [line.message for line in report.deleted_pod_lines(pod(before), NOW)] == expected


SHORTAGE = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available."


def event(kind: str, name: str, sort: str, reason: str, message: str) -> Event:
    involved = {"kind": kind, "namespace": "default", "name": name, "uid": f"uid-of-{name}"}
    return msgspec.convert(
        {"involvedObject": involved, "type": sort, "reason": reason, "message": message}, Event
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            event("Framework", "job", "Normal", "AttemptStarted", "attempt started"),
            Line(Topic.FRAMEWORK, NOW, "job", "AttemptStarted", "attempt started"),
        ),
        (
            event("Pod", "job-worker-0", "Warning", "FailedScheduling", SHORTAGE),
            Line(
                Topic.POD,
                NOW,
                "worker-0",
                "FailedScheduling",
                "no suitable node: the only node has too few free CPUs",
            ),
        ),
        (
            event("Node", "n", "Warning", "Full", "the disk"),
            Line(Topic.NOTE, NOW, "n", "Full", "Full: the disk"),
        ),
        (event("Pod", "job-worker-0", "Normal", "Scheduled", "assigned"), None),
        (event("Framework", "another", "Normal", "AttemptStarted", "of another job"), None),
        (event("Framework", "job", "Normal", "FrameworkCompleted", "is the last line anyway"), None),
    ],
)
def test_lines_about_events(given: Event, expected: Line | None) -> None:
    report = LineGenerator([job()])
    list(report.pod_lines(pod(node=""), NOW))
    told = [*report.event_lines(given, NOW), *report.event_lines(given, NOW)]
    assert told == ([expected] if expected is not None else [])


@pytest.mark.parametrize(
    ("name", "reason", "expected"),
    [
        ("job-tensorboard-abc-x", "Unhealthy", []),
        ("job-tensorboard-abc-x", "BackOff", []),
        ("job-tensorboard-abc-x", "FailedMount", ["tensorboard"]),
        ("job-worker-0", "Unhealthy", ["job-worker-0"]),
    ],
)
def test_lines_about_pod_of_a_companion(name: str, reason: str, expected: list[str]) -> None:
    """If a companion cannot start, an error with its last lines is reported instead."""
    beside = CompanionRef(Companion.TENSORBOARD, "job", "default", "job-tensorboard")
    told = LineGenerator([job()], [beside]).event_lines(event("Pod", name, "Warning", reason, "said"), NOW)
    assert [line.object for line in told] == expected


def test_submission_is_reported_before_changes_of_the_job() -> None:
    """The watch may report that an attempt has started before the request of the submission returns."""
    report = LineGenerator([job()])
    start = event("Framework", "job", "Normal", "AttemptStarted", "attempt started")
    told = [*report.event_lines(start, NOW), *report.submitted_lines(("default", "job"), NOW)]
    assert [line.message for line in told] == ["submitted", "attempt started"]


RETRY = (
    ("TaskFailed", "worker-0 exited with code 1", DetailLine),
    ("AttemptEnding", "attempt failed: worker-0 exited with code 1", DetailLine),
    ("RetryScheduled", "retrying in 4 s (retry 1 of 3): worker-0 exited with code 1", Line),
    ("FrameworkRetried", "retrying now (retry 1 of 3)", DetailLine),
    ("AttemptStarted", "attempt 2 of 4 started", DetailLine),
    ("FrameworkRetried", "retrying (retry 2 of 3): worker-0 exited with code 1", Line),
    ("TaskRetried", "retrying worker-0 (retry 1 of 3): it exited with code 1", Line),
    ("TaskRetried", "retrying worker-0 now (retry 2 of 3)", DetailLine),
    ("TaskFailed", "worker-0 could not start: the API server rejected its pod: no", Line),
)


@pytest.mark.parametrize(("reason", "message", "kind"), RETRY)
def test_retry_is_one_line(reason: str, message: str, kind: type[Line]) -> None:
    report = LineGenerator([job()])
    list(report.submitted_lines(("default", "job"), NOW))
    (line,) = report.event_lines(event("Framework", "job", "Warning", reason, message), NOW)
    assert (type(line), line.message) == (kind, message)


# Several jobs


def test_tasks_of_several_jobs_are_prefixed_with_job() -> None:
    report = LineGenerator([job("another", "another/"), job("job", "job/")])
    _, line = report.pod_lines(pod("Running"), NOW)
    assert line.object == "job/worker-0"
    (warning,) = report.event_lines(event("Pod", "job-worker-0", "Warning", "Slow", "is it"), NOW)
    assert warning.object == "job/worker-0"


def test_completion_of_one_of_several_jobs_is_reported() -> None:
    report = LineGenerator([job("another", "another/"), job("job", "job/")])
    told = report.event_lines(event("Framework", "job", "Normal", "FrameworkCompleted", "completed"), NOW)
    assert [(line.object, line.message) for line in told] == [("job", "submitted"), ("job", "completed")]
