"""Results of jobs: the message and the exit code."""

from datetime import UTC, datetime, timedelta

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
    RetryPolicyStatus,
    Summary,
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
                "succeeded",
                exit=0,
                code=0,
                phrase="Phrase",
                type="Succeeded",
                state="Completed",
            ),
        ),
        (
            observed(msgspec.structs.replace(completion(-210), trigger=TRIGGER)),
            True,
            Verdict(
                Topic.COMPLETED,
                NOW,
                "job",
                "stopped",
                exit=130,
                code=-210,
                phrase="Phrase",
                type="Failed Permanent",
                state="Completed",
            ),
        ),
        (None, False, Verdict(Topic.ERROR, NOW, "job", "deleted before it completed", exit=125)),
        (
            observed(completion(3), State.ATTEMPT_DELETING),
            True,
            Verdict(Topic.ERROR, NOW, "job", "deleted before it completed", exit=130),
        ),
    ],
)
def test_verdict_of_a_job(framework: Framework | None, was_interrupted: bool, expected: Verdict) -> None:
    assert verdict.of_job(framework, "job", NOW, was_interrupted=was_interrupted) == expected


RESULTS = {
    "all": (Summary(tasks=2, succeeded=2), "succeeded in 25 s (2 of 2 tasks)"),
    "stopped": (Summary(tasks=4, succeeded=2), "succeeded in 25 s (2 tasks succeeded, 2 stopped)"),
    "failed": (
        Summary(tasks=4, succeeded=1, failed=2),
        "succeeded in 25 s (1 task succeeded, 2 failed, 1 stopped)",
    ),
    "none": (Summary(), "succeeded in 25 s"),
}


@pytest.mark.parametrize(("summary", "expected"), RESULTS.values(), ids=RESULTS)
def test_success_names_duration_and_tasks(summary: Summary, expected: str) -> None:
    framework = observed(completion(0, is_failed=False))
    assert framework.status is not None
    status = msgspec.structs.replace(
        framework.status,
        completion_time=NOW + timedelta(seconds=25),
        summary=summary,
    )
    found = verdict.of_job(framework.with_status(status), "job", NOW, was_interrupted=False)
    assert found.message == expected


CAUSES = {
    "exit code": (
        (ContainerCompletionStatus(name="main", code=3),),
        0,
        0,
        "failed: worker-1 exited with code 3",
    ),
    "no container": ((), 0, 0, "failed: worker-1: Phrase (-100)"),
    "last of several attempts": (
        (ContainerCompletionStatus(name="main", code=3),),
        3,
        1,
        "failed: worker-1 exited with code 3 (attempt 2 of 4)",
    ),
}


@pytest.mark.parametrize(("containers", "limit", "retries", "expected"), CAUSES.values(), ids=CAUSES)
def test_failure_names_the_failed_task(
    containers: tuple[ContainerCompletionStatus, ...], limit: int, retries: int, expected: str
) -> None:
    ended = completion(-100)
    task = TaskStatus(
        index=1,
        start_time=NOW,
        transition_time=NOW,
        attempt_status=TaskAttemptStatus(
            start_time=NOW,
            pod_name="job-worker-1",
            completion_status=TaskAttemptCompletionStatus(
                -100, "Phrase", ended.type, "", PodCompletionStatus(containers=containers)
            ),
        ),
    )
    framework = observed(msgspec.structs.replace(ended, trigger=TRIGGER))
    assert framework.status is not None
    attempt = msgspec.structs.replace(
        framework.status.attempt_status,
        task_role_statuses=(TaskRoleStatus(name="worker", task_statuses=(task,)),),
    )
    status = msgspec.structs.replace(
        framework.status,
        attempt_status=attempt,
        retry_policy_status=RetryPolicyStatus(retries, retries),
    )
    policy = msgspec.structs.replace(framework.spec.retry_policy, max_retry_count=limit)
    spec = msgspec.structs.replace(framework.spec, retry_policy=policy)
    failed = msgspec.structs.replace(framework, spec=spec).with_status(status)
    assert verdict.of_job(failed, "job", NOW, was_interrupted=False).message == expected


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
    expected = Verdict(Topic.SUMMARY, NOW, "jobs", message, exit=code)
    assert verdict.of_all("jobs", verdicts, NOW) == expected
