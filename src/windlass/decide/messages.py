"""The reasons of the events about a recorded attempt. A running job reports the same ones, with the same messages."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from windlass.decide.types import Reason, ReasonKind
from windlass.model import names, verdict
from windlass.model.completion import CompletionCode
from windlass.model.framework import FrameworkSpec
from windlass.model.history import AttemptRecord
from windlass.model.status import EndedTaskAttempt, FrameworkStatus, RetryOutcome, RetryPolicyStatus

_ENDED_BY_CONTROLLER = (CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, CompletionCode.DELETE_TASK_REQUESTED)
FRAMEWORK_DELETED = "the Framework was deleted"
"""The reason of the decision about an attempt whose Framework was deleted."""
_Timed = Iterator[tuple[datetime, Reason]]


def task_deleted(role: str, index: int) -> str:
    return f"Removed {role}-{index}: its role was scaled down"


def reasons_of(record: AttemptRecord) -> _Timed:
    """Yield the time and the reason of each event about the attempt."""
    record_spec, spec, status = record.spec, record.framework.spec, record.framework.status
    if status is None:
        return
    yield (
        record_spec.start_time,
        Reason(ReasonKind.ATTEMPT_STARTED, verdict.describe_start(spec, status)),
    )
    for ended in record.task_attempts():
        yield from _task_reasons(ended)
    is_failed, outcome = record_spec.type.is_failed, record_spec.retry
    ended_at, completion = record_spec.completion_time, verdict.describe_completion(spec, status)
    is_last = not outcome.should_retry and outcome.reason != FRAMEWORK_DELETED
    if is_failed or not is_last:
        yield ended_at, Reason(ReasonKind.ATTEMPT_ENDING, f"attempt {completion}", is_warning=is_failed)
    if is_last:
        is_explained = is_failed and spec.retry_policy.max_retry_count
        message = f"{completion}; not retried: {outcome.reason}" if is_explained else completion
        yield ended_at, Reason(ReasonKind.FRAMEWORK_COMPLETED, message, is_warning=is_failed)
    elif outcome.should_retry:
        yield from _retry_reasons(ended_at, spec, status, outcome)


def _retry_reasons(
    ended_at: datetime, spec: FrameworkSpec, status: FrameworkStatus, outcome: RetryOutcome
) -> _Timed:
    delay = outcome.delay_sec
    if delay:
        message = verdict.describe_job_retry(spec, status, outcome.reason, delay)
        yield ended_at, Reason(ReasonKind.RETRY_SCHEDULED, message)
    retried = msgspec.structs.replace(status.retry_policy_status, retry_delay_sec=delay or None)
    status = msgspec.structs.replace(status, retry_policy_status=retried)
    message = verdict.describe_job_retry(spec, status, outcome.reason)
    yield ended_at + timedelta(seconds=delay), Reason(ReasonKind.FRAMEWORK_RETRIED, message)


def _task_reasons(ended: EndedTaskAttempt) -> _Timed:
    attempt = ended.attempt
    completion, ended_at = attempt.completion_status, attempt.completion_time
    if completion is None or ended_at is None:
        return
    role, index = ended.role, ended.index
    name = names.host_name(role, index)
    if completion.code == CompletionCode.DELETE_TASK_REQUESTED:
        yield ended_at, Reason(ReasonKind.TASK_DELETED, task_deleted(role, index), role, index)
    elif completion.type.is_failed and completion.code not in _ENDED_BY_CONTROLLER:
        note = f" (attempt {attempt.id + 1})" if attempt.id else ""
        message = verdict.describe_task_failure(name, attempt, completion, note, ended_at=ended_at)
        yield ended_at, Reason(ReasonKind.TASK_FAILED, message, role, index, is_warning=True)
    if ended.retry is not None and ended.retry.should_retry:
        delay, reason = ended.retry.delay_sec, ended.retry.reason
        is_failed = completion.type.is_failed
        cause = verdict.describe_task_failure("it", attempt, completion) if is_failed else "it succeeded"
        before = RetryPolicyStatus(total_retried_count=attempt.id)
        if delay:
            message = verdict.describe_retry(name, before, reason, cause, delay)
            yield ended_at, Reason(ReasonKind.RETRY_SCHEDULED, message, role, index)
        before = msgspec.structs.replace(before, retry_delay_sec=delay or None)
        message = verdict.describe_retry(name, before, reason, cause)
        retried_at = ended_at + timedelta(seconds=delay)
        yield retried_at, Reason(ReasonKind.TASK_RETRIED, message, role, index)
