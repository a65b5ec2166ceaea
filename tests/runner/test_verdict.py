"""Results of jobs: the message and the exit code."""

from datetime import UTC, datetime

import builders
import msgspec
import pytest

from windlass.model.completion import (
    CompletionTrigger,
    CompletionType,
    CompletionTypeName,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)
from windlass.runner import verdict
from windlass.runner.report import Topic, Verdict

NOW = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)


def completion(code: int, *, is_failed: bool = True) -> FrameworkAttemptCompletionStatus:
    name = CompletionTypeName.FAILED if is_failed else CompletionTypeName.SUCCEEDED
    kind = CompletionType(name, ("Permanent",) if is_failed else ())
    return FrameworkAttemptCompletionStatus(code, "Phrase", kind, "diagnostics")


def observed(ended: FrameworkAttemptCompletionStatus | None, state: State = State.COMPLETED) -> Framework:
    attempt = FrameworkAttemptStatus(start_time=NOW, config_map_name="job-attempt", completion_status=ended)
    status = FrameworkStatus(start_time=NOW, transition_time=NOW, state=state, attempt_status=attempt)
    return builders.framework("job").with_status(status)


def test_advice_about_a_command_that_is_not_found() -> None:
    container = ContainerCompletionStatus(
        name="main",
        code=128,
        reason="StartError",
        message='exec: "trian": executable file not found in $PATH',
    )
    pod = PodCompletionStatus(containers=(container,))
    ended = TaskAttemptCompletionStatus(-1201, "Phrase", CompletionType(), "", pod)
    by_task = FrameworkAttemptCompletionStatus(
        ended.code, ended.phrase, ended.type, "", CompletionTrigger("", "worker", 0)
    )
    framework = observed(by_task)
    assert framework.status is not None
    task = TaskStatus(
        index=0,
        instance_uid="",
        start_time=NOW,
        transition_time=NOW,
        attempt_status=TaskAttemptStatus(start_time=NOW, pod_name="p", completion_status=ended),
    )
    attempt = msgspec.structs.replace(
        framework.status.attempt_status,
        task_role_statuses=(TaskRoleStatus(name="worker", task_statuses=(task,)),),
    )
    failed = framework.with_status(msgspec.structs.replace(framework.status, attempt_status=attempt))
    assert "Check the spelling of the command" in verdict.advice(failed)
    assert verdict.advice(framework) == verdict.advice(None) == ""


TRIGGER = CompletionTrigger("FailedTaskCount 1 has reached MinFailedTaskCount 1", "worker", 1)


@pytest.mark.parametrize(
    ("framework", "was_interrupted", "expected"),
    [
        (
            observed(completion(0, is_failed=False)),
            False,
            Verdict(
                Topic.COMPLETED,
                NOW,
                "job",
                "job succeeded (1 worker)",
                exit=0,
                code=0,
                phrase="Phrase",
                type="Succeeded",
                state="Completed",
                verdict="succeeded",
            ),
        ),
        (
            observed(msgspec.structs.replace(completion(-210), trigger=TRIGGER)),
            True,
            Verdict(
                Topic.COMPLETED,
                NOW,
                "job",
                "job stopped",
                exit=130,
                code=-210,
                phrase="Phrase",
                type="Failed Permanent",
                state="Completed",
                verdict="stopped",
            ),
        ),
        (
            None,
            False,
            Verdict(
                Topic.ERROR,
                NOW,
                "job",
                "job failed: it was deleted before it completed",
                exit=125,
                verdict="failed",
            ),
        ),
        (
            observed(completion(3), State.ATTEMPT_DELETING),
            True,
            Verdict(Topic.ERROR, NOW, "job", "job stopped", exit=130, verdict="stopped"),
        ),
    ],
)
def test_verdict_of_a_job(framework: Framework | None, was_interrupted: bool, expected: Verdict) -> None:
    assert verdict.of_job(framework, "job", NOW, was_interrupted=was_interrupted) == expected


GOOD = Verdict(Topic.COMPLETED, NOW, "job", "", exit=0)
BAD = Verdict(Topic.COMPLETED, NOW, "job", "", exit=3)


@pytest.mark.parametrize(
    ("verdicts", "companions", "expected"),
    [
        ([GOOD], {"jupyter": "URL"}, "succeeded; jupyter keeps running at URL (Ctrl-C stops it)"),
        ([BAD], {"jupyter": ""}, "failed; jupyter keeps running (Ctrl-C stops it)"),
        (
            [GOOD, BAD],
            {"a/hub": "URL", "b/hub": ""},
            "jobs ended; a/hub at URL and b/hub keep running (Ctrl-C stops them)",
        ),
    ],
)
def test_message_about_companions_that_outlive_the_jobs(
    verdicts: list[Verdict], companions: dict[str, str], expected: str
) -> None:
    assert verdict.companions_running_message(verdicts, companions) == expected


def ended_with(name: str, code: int) -> Verdict:
    return Verdict(Topic.COMPLETED, NOW, name, "ended", exit=code)


@pytest.mark.parametrize(
    ("verdicts", "code", "message"),
    [
        ([ended_with("a", 0), ended_with("b", 0)], 0, "2 of 2 jobs succeeded"),
        (
            [ended_with("a", 0), ended_with("b", 3), ended_with("c", 1)],
            3,
            "1 of 3 jobs succeeded; the first job in the file that did not succeed is b",
        ),
    ],
    ids=["all", "some"],
)
def test_verdict_of_several_jobs(verdicts: list[Verdict], code: int, message: str) -> None:
    word = "failed" if code else "succeeded"
    expected = Verdict(Topic.SUMMARY, NOW, "jobs", message, exit=code, verdict=word)
    assert verdict.of_all("jobs", verdicts, NOW) == expected


NOTES = ("pods share the host network (install `passt` to isolate them)",)
IN_USE = ["OSError: [Errno 98] Address already in use"]
UNREACHABLE = ["curl: (6) Could not resolve host: example.com"]


@pytest.mark.parametrize(
    ("log", "notes", "is_shared", "expected"),
    [
        (IN_USE, NOTES, True, f"{NOTES[0]}. A port can therefore be used by only one task"),
        (IN_USE, (), True, "pods share the host network. A port can"),
        (IN_USE, NOTES, False, ""),
        (UNREACHABLE, ("pods cannot reach other networks",), False, "pods cannot reach other networks"),
        (UNREACHABLE, (), False, ""),
        (["KeyError: 'lr'"], NOTES, True, ""),
    ],
)
def test_network_is_mentioned_only_if_a_task_failed_because_of_it(
    log: list[str], notes: tuple[str, ...], is_shared: bool, expected: str
) -> None:
    found = verdict.network_hint(log, notes, is_network_shared=is_shared)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
