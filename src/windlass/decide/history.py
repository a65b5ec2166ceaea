"""Decides when the record of a finished attempt is written, and what the retry policies decided about the attempt.

The record of an attempt that is retried is written before its ConfigMap is deleted, and that of the last attempt when
the Framework has completed: both statuses are stored anyway, so a record costs one request.
"""

from datetime import datetime

import msgspec

from windlass.decide import messages, retry
from windlass.decide.builder import DecisionBuilder
from windlass.decide.types import RecordAttempt
from windlass.model.completion import CompletionCode, FrameworkAttemptCompletionStatus
from windlass.model.framework import RetryPolicySpec
from windlass.model.history import TaskRetry, record_name
from windlass.model.states import State
from windlass.model.status import EndedTaskAttempt, FrameworkStatus, RetryOutcome, TaskStatus

MAX_EARLIER_ATTEMPTS = 100
"""Number of ended task attempts that the status keeps for the record. The oldest ones are dropped."""
_ENDED_BY_CONTROLLER = (CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, CompletionCode.DELETE_TASK_REQUESTED)
ATTEMPT_ENDED = "the Framework attempt ended"


def add_missing_record(builder: DecisionBuilder, decision: retry.RetryDecision) -> bool:
    """Add the action that writes the record of the attempt, unless it is written. Return whether it is missing.

    A record that the API server rejected counts as written.
    """
    attempt = builder.status.attempt_status
    completion = attempt.completion_status
    if completion is None or not _is_missing(builder):
        return False
    ended_at = attempt.completion_time or builder.status.transition_time
    _record(builder, completion, outcome_of(decision), ended_at)
    return True


def add_record_of_deleted(builder: DecisionBuilder, completion: FrameworkAttemptCompletionStatus) -> None:
    """Add the action that writes the record of an attempt whose Framework was deleted, unless it is written. An attempt
    that has not started has no record."""
    attempt = builder.status.attempt_status
    if builder.status.state is State.ATTEMPT_CREATION_PENDING or not _is_missing(builder):
        return
    outcome = RetryOutcome(should_retry=False, reason=messages.FRAMEWORK_DELETED)
    ended_at = attempt.completion_time or builder.framework.metadata.deletion_timestamp or builder.now
    _record(builder, attempt.completion_status or completion, outcome, ended_at)


def with_ended_attempt(
    status: FrameworkStatus, role: str, task: TaskStatus, outcome: RetryOutcome | None
) -> FrameworkStatus:
    """Return the status with the task's current attempt among the earlier ones."""
    ended = EndedTaskAttempt(role=role, index=task.index, attempt=task.attempt_status, retry=outcome)
    earlier = (*status.earlier_attempts, ended)[-MAX_EARLIER_ATTEMPTS:]
    return msgspec.structs.replace(status, earlier_task_attempts=earlier)


def without_ended_attempts(status: FrameworkStatus) -> FrameworkStatus:
    """Return the status for a new attempt of the Framework."""
    return msgspec.structs.replace(status, earlier_task_attempts=()) if status.earlier_attempts else status


def outcome_of(decision: retry.RetryDecision) -> RetryOutcome:
    return RetryOutcome(
        should_retry=decision.should_retry,
        reason=decision.reason,
        is_counted=decision.is_counted,
        delay_sec=decision.delay_sec,
    )


def _is_missing(builder: DecisionBuilder) -> bool:
    attempt_id = builder.status.attempt_status.id
    return builder.rules.keeps_records and builder.observed.outcomes.recorded_attempt != attempt_id


def _record(
    builder: DecisionBuilder,
    completion: FrameworkAttemptCompletionStatus,
    outcome: RetryOutcome,
    ended_at: datetime,
) -> None:
    attempt = builder.status.attempt_status
    postponed = builder.observed.outcomes.postponed.get(record_name(builder.framework.uid, attempt.id))
    if postponed is not None and not builder.is_past(postponed):
        return
    retries = tuple(
        TaskRetry(role.name, task.index, task_outcome)
        for role in attempt.roles
        for task in role.task_statuses
        if (task_outcome := _outcome_of_task(builder, role.name, task)) is not None
    )
    builder.add_action(RecordAttempt(attempt.id, ended_at, completion, outcome, retries))


def _outcome_of_task(builder: DecisionBuilder, role: str, task: TaskStatus) -> RetryOutcome | None:
    """Return the decision about the last attempt of a task; None if the task did not end on its own."""
    completion = task.attempt_status.completion_status
    if completion is None or completion.code in _ENDED_BY_CONTROLLER or task.deletion_pending:
        return None
    if not completion.type.is_failed:
        return None
    spec = builder.spec.role(role)
    decision = retry.decide_retry(
        RetryPolicySpec() if spec is None else spec.task.retry_policy,
        retry.RetryHistory(
            uid=task.instance_uid or builder.framework.uid, retry_status=task.retry_policy_status
        ),
        completion.code,
        completion.type,
        builder.rules,
    )
    reason = ATTEMPT_ENDED if decision.should_retry else decision.reason
    return RetryOutcome(should_retry=False, reason=reason)
