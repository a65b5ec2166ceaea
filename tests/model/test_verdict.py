"""Results of jobs and tasks in the words of users."""

from datetime import timedelta

import builders
import msgspec
import pytest

from windlass.decide import initial_status
from windlass.decide.default_failures import DEFAULT_FAILURE_CLASSES
from windlass.model import completion, verdict
from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.framework import FrameworkSpec
from windlass.model.status import FrameworkStatus, RetryPolicyStatus, Summary

NOW = builders.NOW
SUCCEEDED = completion.framework_completion(CompletionCode.SUCCEEDED, "")
TRACEBACK = (
    "Traceback (most recent call last):\n  File \"/work/train.py\", line 41, in f\n    x\nKeyError: 'lr'\n"
)
LIMIT = "limit: 2 attempts have failed (minFailedAttemptCount 2)"
PATTERN = 'PodPattern unmatched: {"containers":[]}'


def container(code: int, message: str = "", reason: str = "Error") -> ContainerCompletionStatus:
    return ContainerCompletionStatus(name="main", code=code, reason=reason, message=message)


def task(code: int, *containers: ContainerCompletionStatus, **pod: str) -> TaskAttemptCompletionStatus:
    diagnostics = pod.pop("diagnostics", PATTERN)
    by_code = code in CompletionCode.__members__.values()
    phrase = pod.pop("phrase", completion.phrase_of(CompletionCode(code)) if by_code else "Phrase")
    status = PodCompletionStatus(containers=containers, **pod)
    return TaskAttemptCompletionStatus(code, phrase, completion.FAILED, diagnostics, status)


def job(
    ended: FrameworkAttemptCompletionStatus | TaskAttemptCompletionStatus,
    *,
    limit: int = 0,
    retries: int = 0,
    summary: Summary = Summary(),  # noqa: B008 — Summary is frozen
) -> tuple[FrameworkSpec, FrameworkStatus]:
    """Return a job with 2 ps and 2 workers that completed after 25 s. A completion of a task is that of worker-1, which
    ran for 12 s."""
    made = builders.framework("digits", builders.role("ps", 2), builders.role("worker", 2))
    policy = msgspec.structs.replace(made.spec.retry_policy, max_retry_count=limit)
    status = initial_status.framework_status(made, NOW)
    attempt = status.attempt_status
    if isinstance(ended, TaskAttemptCompletionStatus):
        ps, workers = attempt.roles
        first, second = workers.task_statuses
        done = msgspec.structs.replace(
            second.attempt_status,
            run_time=NOW,
            completion_time=NOW + timedelta(seconds=12),
            completion_status=ended,
        )
        second = msgspec.structs.replace(second, attempt_status=done)
        roles = (ps, msgspec.structs.replace(workers, task_statuses=(first, second)))
        attempt = msgspec.structs.replace(attempt, task_role_statuses=roles)
        ended = FrameworkAttemptCompletionStatus(
            ended.code, ended.phrase, ended.type, ended.diagnostics, CompletionTrigger("", "worker", 1)
        )
    status = msgspec.structs.replace(
        status,
        attempt_status=msgspec.structs.replace(attempt, completion_status=ended),
        completion_time=NOW + timedelta(seconds=25),
        retry_policy_status=RetryPolicyStatus(retries, retries),
        summary=summary,
    )
    return msgspec.structs.replace(made.spec, retry_policy=policy), status


def ended_by_rule(
    ended: TaskAttemptCompletionStatus | None = None, **more: int
) -> tuple[FrameworkSpec, FrameworkStatus]:
    """Return a job that a rule has ended, with worker-1 as trigger."""
    spec, status = job(ended or task(0), **more)  # type: ignore[arg-type]
    trigger = CompletionTrigger(LIMIT, "worker", 1)
    by_rule = completion.framework_completion(CompletionCode.COMPLETION_RULE_FAILED, trigger.message, trigger)
    attempt = msgspec.structs.replace(status.attempt_status, completion_status=by_rule)
    if ended is None:
        ps, workers = attempt.roles
        running = tuple(
            msgspec.structs.replace(
                each, attempt_status=msgspec.structs.replace(each.attempt_status, completion_status=None)
            )
            for each in workers.task_statuses
        )
        workers = msgspec.structs.replace(workers, task_statuses=running)
        attempt = msgspec.structs.replace(attempt, task_role_statuses=(ps, workers))
    return spec, msgspec.structs.replace(status, attempt_status=attempt)


STOPPED = completion.framework_completion(
    CompletionCode.STOP_FRAMEWORK_REQUESTED, "spec.executionType is Stop"
)
DEADLINE = completion.framework_completion(CompletionCode.ACTIVE_DEADLINE_EXCEEDED, "it took 9 s")
VERDICTS = {
    "success": (job(SUCCEEDED), "succeeded in 25 s (2 ps, 2 workers)"),
    "success after a retry": (job(SUCCEEDED, retries=1), "succeeded in 25 s after 1 retry (2 ps, 2 workers)"),
    "success with a failed task": (
        job(SUCCEEDED, summary=Summary(tasks=4, failed=1)),
        "succeeded in 25 s (2 ps, 2 workers, 1 failed)",
    ),
    "stop": (job(STOPPED), "stopped after 25 s"),
    "deadline": (job(DEADLINE), "failed: it took 9 s"),
    "exit code": (job(task(3, container(3))), "failed: worker-1 exited with code 3 after 12 s"),
    "traceback": (
        job(task(3, container(3, message=TRACEBACK))),
        "failed: worker-1 exited with code 3 after 12 s: KeyError: 'lr' (train.py:41)",
    ),
    "last of several attempts": (
        job(task(3, container(3, message=TRACEBACK)), limit=3, retries=3),
        "failed: worker-1 exited with code 3 after 12 s (attempt 4 of 4): KeyError: 'lr' (train.py:41)",
    ),
    "out of memory": (
        job(task(137, container(137, reason="OOMKilled"))),
        "failed: worker-1 exited with code 137 after 12 s: out of memory (OOMKilled)",
    ),
    "signal": (job(task(139, container(139))), "failed: worker-1 exited with code 139 after 12 s: SIGSEGV"),
    "low exit code": (job(task(9, container(9))), "failed: worker-1 exited with code 9 after 12 s"),
    "container that did not start": (
        job(task(128, container(128, reason="CreateContainerError", message="no such program\nmore"))),
        "failed: worker-1 could not start: no such program",
    ),
    "eviction": (
        job(task(-1000, container(137), reason="Evicted", message="The node was low on memory")),
        "failed: worker-1 failed after 12 s: Phrase: Evicted: The node was low on memory",
    ),
    "deleted pod": (
        job(task(-101, diagnostics="Pod x was deleted by another client")),
        "failed: worker-1 failed after 12 s: Pod x was deleted by another client",
    ),
    "completion rule": (
        ended_by_rule(task(3, container(3, message=TRACEBACK))),
        f"failed: worker-1 exited with code 3 after 12 s ({LIMIT}): KeyError: 'lr' (train.py:41)",
    ),
    "completion rule in the last attempt": (
        ended_by_rule(task(3, container(3)), limit=1, retries=1),
        f"failed: worker-1 exited with code 3 after 12 s ({LIMIT}) (attempt 2 of 2)",
    ),
    "completion rule met by a running task": (
        ended_by_rule(),
        f"failed: worker-1 met a completion rule ({LIMIT})",
    ),
    "completion rule met by a task that ended with the attempt": (
        ended_by_rule(task(int(CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION))),
        f"failed: worker-1 met a completion rule ({LIMIT})",
    ),
    "no cause": (
        job(task(-300)),
        "failed: worker-1 failed after 12 s: none of its containers failed",
    ),
    "command not found": (
        job(
            task(
                -1201,
                container(128, 'exec: "trian": executable file not found in $PATH', reason="StartError"),
                phrase="ContainerCommandCannotRun",
            )
        ),
        "failed: worker-1 could not start: trian: command not found",
    ),
    "out of memory, classified": (
        job(task(-1200, container(137, reason="OOMKilled"), phrase="ContainerOOMKilled")),
        "failed: worker-1 ran out of memory after 12 s",
    ),
    "eviction, classified": (
        job(task(-1000, reason="Evicted", message="The node was low on memory", phrase="PodEvicted")),
        "failed: worker-1 was evicted from its node after 12 s: The node was low on memory",
    ),
    "rejected pod": (
        job(task(-200, diagnostics="Failed to create Pod: spec is odd", phrase="PodCreationPermanentError")),
        "failed: worker-1 could not start after 12 s: the API server rejected its pod: spec is odd",
    ),
}


@pytest.mark.parametrize("phrase", [each.phrase for each in DEFAULT_FAILURE_CLASSES if each.code < 0])
def test_verdict_has_no_phrase_of_a_default_failure_class(phrase: str) -> None:
    found = verdict.describe_completion(*job(task(-1999, phrase=phrase)))
    assert phrase not in found
    assert "-1999" not in found


@pytest.mark.parametrize(("given", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_verdict_names_the_result_and_its_cause(
    given: tuple[FrameworkSpec, FrameworkStatus], expected: str
) -> None:
    assert verdict.describe_completion(*given) == expected


def test_log_is_used_if_the_status_has_no_lines() -> None:
    given = job(task(3, container(3)))
    found = verdict.describe_completion(*given, log=TRACEBACK.splitlines())
    assert found == "failed: worker-1 exited with code 3 after 12 s: KeyError: 'lr' (train.py:41)"


@pytest.mark.parametrize(
    ("retried", "delay", "expected"),
    [
        (RetryPolicyStatus(), 4, "retrying in 4 s (retry 1 of 3): worker-1 exited with code 3 after 12 s"),
        (RetryPolicyStatus(), 0, "retrying (retry 1 of 3): worker-1 exited with code 3 after 12 s"),
        (RetryPolicyStatus(retry_delay_sec=4), 0, "retrying now (retry 1 of 3)"),
    ],
    ids=["delayed", "at once", "after the delay"],
)
def test_retry_message_of_a_job_names_the_count_and_the_cause(
    retried: RetryPolicyStatus, delay: int, expected: str
) -> None:
    spec, status = job(task(3, container(3)), limit=3)
    status = msgspec.structs.replace(status, retry_policy_status=retried)
    found = verdict.describe_job_retry(spec, status, "retry 1 of 3", delay)
    assert found == expected
    assert verdict.is_announced_retry(found) == ("now" in expected)


@pytest.mark.parametrize(
    ("noun", "number", "expected"),
    [("worker", 1, "1 worker"), ("worker", 2, "2 workers"), ("ps", 1, "1 ps"), ("ps", 2, "2 ps")],
)
def test_nouns_have_the_right_plural(noun: str, number: int, expected: str) -> None:
    assert verdict.count(noun, number) == expected
