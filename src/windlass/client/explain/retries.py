"""Explain the retries of a task and of its job, from spec and status.

`windlass.decide.retry` decides on retries. The delay is read from the status, since the configuration of the
controller is unknown here.
"""

from datetime import datetime, timedelta

import msgspec

from windlass.client import tasks
from windlass.decide import retry
from windlass.decide.types import Rules
from windlass.model.framework import ALWAYS_RETRY, RETRY_IF_FAILED, Framework, RetryPolicySpec
from windlass.model.states import ATTEMPT_COMPLETED
from windlass.model.status import FrameworkAttemptStatus, TaskAttemptStatus

JOB_ENDED_FIRST = "the attempt of the job had ended"
_RULES = Rules()


class Retries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Retries of a task or a job so far, and whether another one follows."""

    total: int
    counted: int
    """Retries that count towards the limit."""
    uncounted: int
    limit: int
    """maxRetryCount: -2 for always, -1 for any failure."""
    uncounted_limit: int | None = None
    """maxTransientRetryCount; None for no limit."""
    follows: bool | None = None
    """Whether another attempt follows; None before the current attempt has ended."""
    at: datetime | None = None
    """When the retry starts; None if immediately, or if no retry is pending."""
    reason: str = ""


def of_job(framework: Framework) -> Retries | None:
    """Return the retries of the job; None before the controller has processed it."""
    status = framework.status
    if status is None:
        return None
    history = retry.RetryHistory(
        uid=framework.uid,
        retry_status=status.retry_policy_status,
        suspended_count=status.holding.suspended_count,
        is_framework=True,
    )
    retries = _retries(framework.spec.retry_policy, history, status.attempt_status)
    return retries if status.state is ATTEMPT_COMPLETED else msgspec.structs.replace(retries, at=None)


def of_task(framework: Framework, name: str) -> Retries | None:
    """Return the retries of a task, e.g. worker-1; None if it has no status."""
    found = next((each for each in tasks.statuses(framework) if str(each[0]) == name), None)
    if found is None or framework.status is None:
        return None
    task, status = found
    role = framework.spec.role(task.role)
    policy = role.task.retry_policy if role is not None else RetryPolicySpec()
    history = retry.RetryHistory(
        uid=status.instance_uid or framework.uid, retry_status=status.retry_policy_status
    )
    retries = _retries(policy, history, status.attempt_status)
    has_job_ended = framework.status.attempt_status.completion_status is not None
    if not retries.follows:
        return msgspec.structs.replace(retries, at=None)
    if status.is_completed or has_job_ended:
        return msgspec.structs.replace(retries, follows=False, reason=JOB_ENDED_FIRST, at=None)
    return retries


def _retries(
    policy: RetryPolicySpec,
    history: retry.RetryHistory,
    attempt: FrameworkAttemptStatus | TaskAttemptStatus,
) -> Retries:
    retried, ended = history.retry_status, attempt.completion_status
    total, counted = retried.total_retried_count, retried.accountable_retried_count
    retries = Retries(
        total=total,
        counted=counted,
        uncounted=max(0, total - counted - history.suspended_count),
        limit=policy.max_retry_count,
        uncounted_limit=policy.max_transient_retry_count,
    )
    if ended is None:
        return retries
    decision = retry.decide_retry(policy, history, ended.code, ended.type, _RULES)
    at = None
    if attempt.completion_time is not None and retried.retry_delay_sec is not None:
        at = attempt.completion_time + timedelta(seconds=retried.retry_delay_sec)
    return msgspec.structs.replace(retries, follows=decision.should_retry, reason=decision.reason, at=at)


def describe_counts(retries: Retries) -> str:
    """Return e.g. `2 retries so far: 1 counted (maxRetryCount 3), 1 not counted`."""
    limits = {
        ALWAYS_RETRY: "maxRetryCount -2: always",
        RETRY_IF_FAILED: "maxRetryCount -1: after any failure",
    }
    limit = limits.get(retries.limit, f"maxRetryCount {retries.limit}")
    if not retries.total:
        return f"no retry so far ({limit})"
    word = "retry" if retries.total == 1 else "retries"
    counted = f"{retries.counted} counted ({limit})"
    if not retries.uncounted:
        return f"{retries.total} {word} so far: {counted}"
    bound = "" if retries.uncounted_limit is None else f" (maxTransientRetryCount {retries.uncounted_limit})"
    return f"{retries.total} {word} so far: {counted}, {retries.uncounted} not counted{bound}"


def describe_decision(retries: Retries, subject: str) -> str:
    """Return whether a retry follows, with the reason; empty before the current attempt has ended."""
    if retries.follows is None:
        return ""
    return f"{subject} is {'' if retries.follows else 'not '}retried: {retries.reason}"
