"""What is told of a run, and with what it ends: tables, without a cluster."""

from datetime import UTC, datetime
from typing import Any

import builders
import msgspec
import pytest

from windlass.client.pods import Pod
from windlass.client.submit.plan import CompanionRef
from windlass.model.companions import Companion
from windlass.model.completion import (
    CompletionTrigger,
    CompletionType,
    CompletionTypeName,
    FrameworkAttemptCompletionStatus,
)
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkAttemptStatus, FrameworkStatus
from windlass.render.manifest import Manifest
from windlass.runner import report
from windlass.runner.report import Event, Line, Report, Topic, Verdict

NOW = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)


def job(name: str = "job", prefix: str = "") -> Manifest:
    return Manifest({"metadata": {"name": name, "namespace": "default"}}, prefix)


# Exit codes and the last line


def completion(code: int, *, is_failed: bool = True) -> FrameworkAttemptCompletionStatus:
    name = CompletionTypeName.FAILED if is_failed else CompletionTypeName.SUCCEEDED
    kind = CompletionType(name, ("Permanent",) if is_failed else ())
    return FrameworkAttemptCompletionStatus(code, "Phrase", kind, "diagnostics")


def seen(ended: FrameworkAttemptCompletionStatus | None, state: State = State.COMPLETED) -> Framework:
    attempt = FrameworkAttemptStatus(start_time=NOW, config_map_name="job-attempt", completion_status=ended)
    status = FrameworkStatus(start_time=NOW, transition_time=NOW, state=state, attempt_status=attempt)
    return builders.framework("job").with_status(status)


TRIGGER = CompletionTrigger("FailedTaskCount 1 has reached MinFailedTaskCount 1", "worker", 1)


@pytest.mark.parametrize(
    ("framework", "was_interrupted", "expected"),
    [
        (
            seen(completion(0, is_failed=False)),
            False,
            Verdict(
                Topic.COMPLETED,
                NOW,
                "job",
                "has completed with Phrase (0): diagnostics",
                exit=0,
                code=0,
                phrase="Phrase",
                type="Succeeded",
                state="Completed",
            ),
        ),
        (
            seen(msgspec.structs.replace(completion(-210), trigger=TRIGGER)),
            True,
            Verdict(
                Topic.COMPLETED,
                NOW,
                "job",
                f"has completed with Phrase (-210): {TRIGGER.message}",
                exit=130,
                code=-210,
                phrase="Phrase",
                type="Failed Permanent",
                state="Completed",
            ),
        ),
        (None, False, Verdict(Topic.ERROR, NOW, "job", "was deleted before it had completed", exit=125)),
        (
            seen(completion(3), State.ATTEMPT_DELETING),
            True,
            Verdict(Topic.ERROR, NOW, "job", "was deleted before it had completed", exit=130),
        ),
    ],
)
def test_the_last_line(framework: Framework | None, was_interrupted: bool, expected: Verdict) -> None:
    assert report.verdict(framework, "job", NOW, was_interrupted=was_interrupted) == expected


# What is told of pods and events


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
            ["is scheduled to n", "runs", "has succeeded"],
        ),
        ([pod("Running", "n", podIP="10.0.0.1")], ["runs at 10.0.0.1"]),
        ([pod("Failed", "n", ended(3))], ["has failed: container main ended with 3"]),
        (
            [pod("Failed", "n", ended(137, "OOMKilled"))],
            ["has failed: container main ended with 137 (OOMKilled)"],
        ),
        (
            [pod("Failed", "n", reason="Evicted", message="The node was low")],
            ["has failed: Evicted: The node was low"],
        ),
        ([pod("Failed", "n", ended(143), is_deleting=True)], ["was stopped: container main ended with 143"]),
        (
            [
                pod("Pending", "n", container(waiting=WAITING)),
                pod("Pending", "n", container(waiting=WAITING)),
            ],
            ["container main waits: CreateContainerError: no such command", "is scheduled to n"],
        ),
        ([pod("Pending", "n", container(waiting={"reason": "ContainerCreating"}))], ["is scheduled to n"]),
        (
            [pod("Running", "n", container(1)), pod("Running", "n", container(2))],
            ["container main is restarted", "runs", "container main is restarted, 2 times by now"],
        ),
        ([pod("Running", uid="a"), pod("Running", uid="b")], ["runs", "runs"]),
        ([pod("Unknown")], ["is Unknown"]),
    ],
)
def test_what_is_told_of_a_pod(pods: list[Pod], expected: list[str]) -> None:
    report = Report([job()])
    told = [line for one in pods for line in report.pod(one, NOW)]
    assert [line.message for line in told] == expected
    assert {(line.object, line.event) for line in told} <= {("worker-0", Topic.POD)}


@pytest.mark.parametrize(
    ("before", "expected"), [("Running", ["is gone"]), ("Succeeded", []), ("Failed", [])]
)
def test_what_is_told_of_a_pod_that_goes(before: str, expected: list[str]) -> None:
    report = Report([job()])
    list(report.pod(pod(before), NOW))
    assert [line.message for line in report.deleted_pod(pod(before), NOW)] == expected


def event(kind: str, name: str, sort: str, reason: str, message: str) -> Event:
    involved = {"kind": kind, "namespace": "default", "name": name, "uid": f"uid-of-{name}"}
    return msgspec.convert(
        {"involvedObject": involved, "type": sort, "reason": reason, "message": message}, Event
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            event("Framework", "job", "Normal", "AttemptStarted", "Started attempt 0"),
            Line(Topic.FRAMEWORK, NOW, "job", "AttemptStarted", "Started attempt 0"),
        ),
        (
            event("Pod", "job-worker-0", "Warning", "FailedScheduling", "0/1 nodes are available"),
            Line(Topic.POD, NOW, "worker-0", "FailedScheduling", "FailedScheduling: 0/1 nodes are available"),
        ),
        (
            event("Node", "n", "Warning", "Full", "the disk"),
            Line(Topic.NOTE, NOW, "n", "Full", "Full: the disk"),
        ),
        (event("Pod", "job-worker-0", "Normal", "Scheduled", "assigned"), None),
        (event("Framework", "another", "Normal", "AttemptStarted", "of somebody else"), None),
        (event("Framework", "job", "Normal", "FrameworkCompleted", "is the last line anyway"), None),
    ],
)
def test_what_is_told_of_events(given: Event, expected: Line | None) -> None:
    report = Report([job()])
    list(report.pod(pod(node=""), NOW))
    told = [*report.event(given, NOW), *report.event(given, NOW)]
    assert told == ([expected] if expected is not None else [])


@pytest.mark.parametrize(
    ("name", "reason", "expected"),
    [
        ("job-tensorboard-abc-x", "Unhealthy", []),
        ("job-tensorboard-abc-x", "BackOff", ["tensorboard"]),
        ("job-worker-0", "Unhealthy", ["job-worker-0"]),
    ],
)
def test_what_is_told_of_the_pod_of_a_companion(name: str, reason: str, expected: list[str]) -> None:
    """Until it answers, it is not called unhealthy: that is the case with each of them."""
    beside = CompanionRef(Companion.TENSORBOARD, "job", "default", "job-tensorboard")
    told = Report([job()], [beside]).event(event("Pod", name, "Warning", reason, "said"), NOW)
    assert [line.object for line in told] == expected


GOOD = Verdict(Topic.COMPLETED, NOW, "job", "", exit=0)
BAD = Verdict(Topic.COMPLETED, NOW, "job", "", exit=3)


@pytest.mark.parametrize(
    ("verdicts", "companions", "expected"),
    [
        ([GOOD], {"jupyter": "URL"}, "has succeeded; jupyter at URL goes on: Ctrl-C ends it"),
        ([BAD], {"jupyter": ""}, "has not succeeded; jupyter goes on: Ctrl-C ends it"),
        (
            [GOOD, BAD],
            {"a/hub": "URL", "b/hub": ""},
            "the jobs have ended; a/hub at URL and b/hub go on: Ctrl-C ends them",
        ),
    ],
)
def test_message_about_companions_that_outlive_the_jobs(
    verdicts: list[Verdict], companions: dict[str, str], expected: str
) -> None:
    assert report.open_companions(verdicts, companions) == expected


# Several jobs


def test_tasks_of_several_jobs_have_the_name_of_their_job() -> None:
    report = Report([job("another", "another/"), job("job", "job/")])
    (line,) = report.pod(pod("Running"), NOW)
    assert line.object == "job/worker-0"
    (warning,) = report.event(event("Pod", "job-worker-0", "Warning", "Slow", "is it"), NOW)
    assert warning.object == "job/worker-0"


def test_that_one_of_several_has_completed_is_told_when_it_happens() -> None:
    report = Report([job("another", "another/"), job("job", "job/")])
    told = report.event(event("Framework", "job", "Normal", "FrameworkCompleted", "completed"), NOW)
    assert [(line.object, line.message) for line in told] == [("job", "completed")]


def ended_with(name: str, code: int) -> Verdict:
    return Verdict(Topic.COMPLETED, NOW, name, "has completed", exit=code)


@pytest.mark.parametrize(
    ("verdicts", "code", "message"),
    [
        ([ended_with("a", 0), ended_with("b", 0)], 0, "2 of 2 have succeeded"),
        (
            [ended_with("a", 0), ended_with("b", 3), ended_with("c", 1)],
            3,
            "1 of 3 have succeeded; the first in the file that has not is b",
        ),
    ],
    ids=["all", "some"],
)
def test_the_last_line_of_several(verdicts: list[Verdict], code: int, message: str) -> None:
    expected = Verdict(Topic.SUMMARY, NOW, "jobs", message, exit=code)
    assert report.summary("jobs", verdicts, NOW) == expected
