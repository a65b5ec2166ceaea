"""Explain the retries of a task and of its job, from spec and status. Pure.

`windlass.decide.retry` has the rule. The delay comes from the status, since the configuration of the controller is
unknown here.
"""

from datetime import datetime, timedelta

import msgspec

from windlass.client import tasks
from windlass.client.pods import Task
from windlass.decide import retry
from windlass.decide.types import Rules
from windlass.model.framework import ALWAYS_RETRY, RETRY_IF_FAILED, Framework, RetryPolicySpec
from windlass.model.states import ATTEMPT_COMPLETED
from windlass.model.status import RetryPolicyStatus, TaskStatus

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
    is_fancy: bool = False
    """fancyRetryPolicy: retries of transient failures are not counted, permanent failures are not retried."""
    follows: bool | None = None
    """Whether another attempt follows; None while no attempt has ended."""
    at: datetime | None = None
    """When the retry starts; None for immediately."""
    reason: str = ""


def of_job(framework: Framework) -> Retries | None:
    """Return the retries of the job; None before the controller has processed it."""
    status = framework.status
    if status is None:
        return None
    held = status.holding.suspended_count
    known = _known(framework.spec.retry_policy, status.retry_policy_status, held)
    ended = status.attempt_status.completion_status
    if ended is None:
        return known
    history = retry.RetryHistory(
        uid=framework.uid,
        retried=status.retry_policy_status,
        suspended_count=held,
        is_framework=True,
    )
    decision = retry.decide_retry(framework.spec.retry_policy, history, ended.code, ended.type, _RULES)
    is_waiting = status.state is ATTEMPT_COMPLETED
    at = _due(status.attempt_status.completion_time, status.retry_policy_status) if is_waiting else None
    return msgspec.structs.replace(known, follows=decision.should_retry, reason=decision.reason, at=at)


def of_task(framework: Framework, task: Task) -> Retries | None:
    """Return the retries of a task; None if it has no status."""
    status, role = tasks.status_of(framework, task), framework.spec.role(task.role)
    if status is None:
        return None
    policy = role.task.retry_policy if role is not None else RetryPolicySpec()
    known = _known(policy, status.retry_policy_status, 0)
    ended = status.attempt_status.completion_status
    if ended is None:
        return known
    history = retry.RetryHistory(uid=status.instance_uid or framework.uid, retried=status.retry_policy_status)
    decision = retry.decide_retry(policy, history, ended.code, ended.type, _RULES)
    if decision.should_retry and _has_job_ended_first(framework, status):
        return msgspec.structs.replace(known, follows=False, reason=JOB_ENDED_FIRST)
    at = (
        _due(status.attempt_status.completion_time, status.retry_policy_status)
        if decision.should_retry
        else None
    )
    return msgspec.structs.replace(known, follows=decision.should_retry, reason=decision.reason, at=at)


def _known(policy: RetryPolicySpec, retried: RetryPolicyStatus, suspended: int) -> Retries:
    total, counted = retried.total_retried_count, retried.accountable_retried_count
    return Retries(
        total=total,
        counted=counted,
        uncounted=max(0, total - counted - suspended),
        limit=policy.max_retry_count,
        uncounted_limit=policy.max_transient_retry_count,
        is_fancy=policy.fancy_retry_policy,
    )


def _has_job_ended_first(framework: Framework, task: TaskStatus) -> bool:
    """Return whether the attempt of the job has ended, so that the task is not retried."""
    status = framework.status
    is_decided = status is not None and status.attempt_status.completion_status is not None
    return task.is_completed or is_decided


def _due(ended: datetime | None, retried: RetryPolicyStatus) -> datetime | None:
    if ended is None or retried.retry_delay_sec is None:
        return None
    return ended + timedelta(seconds=retried.retry_delay_sec)


def in_words(retries: Retries) -> str:
    """Return `2 retries so far: 1 counted (maxRetryCount 3), 1 not counted`."""
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


def next_in_words(retries: Retries, what: str) -> str:
    """Return whether a retry follows, with the reason; empty while no attempt has ended."""
    if retries.follows is None:
        return ""
    if not retries.follows:
        return f"{what} is not retried: {retries.reason}"
    return f"{what} is retried: {retries.reason}"
