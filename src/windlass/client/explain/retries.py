"""What the retry policies of a task and of its job made of a failure, and why: from spec and status. Pure.

The rule itself is `windlass.decide.retry`. Which delay was chosen is in the status; what the controller's own
configuration would choose is not known here.
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

JOB_ENDED_FIRST = "its attempt of the job was over"
_RULES = Rules()


class Retries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How often something was tried again, and whether it will be."""

    total: int
    counted: int
    """Those that are held against the limit."""
    uncounted: int
    limit: int
    """maxRetryCount: -2 always, -1 after any failure."""
    uncounted_limit: int | None = None
    """maxTransientRetryCount; None: there is none."""
    is_fancy: bool = False
    """fancyRetryPolicy: transient failures are retried without being counted, permanent ones are not retried."""
    follows: bool | None = None
    """Whether another attempt follows the one that ended. None: none has ended yet."""
    at: datetime | None = None
    """When it begins; None: as soon as it can."""
    reason: str = ""


def of_job(framework: Framework) -> Retries | None:
    """None before the controller has seen the job."""
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
    """None for a task of which nothing is known."""
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
    """Of a job whose attempt is decided, no task is tried again."""
    status = framework.status
    is_decided = status is not None and status.attempt_status.completion_status is not None
    return task.is_completed or is_decided


def _due(ended: datetime | None, retried: RetryPolicyStatus) -> datetime | None:
    if ended is None or retried.retry_delay_sec is None:
        return None
    return ended + timedelta(seconds=retried.retry_delay_sec)


def in_words(retries: Retries) -> str:
    """`2 retries so far: 1 of maxRetryCount 3, and 1 that was not counted`."""
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
    """What follows; empty while nothing has ended. A permanent failure counts only under fancyRetryPolicy."""
    if retries.follows is None:
        return ""
    if not retries.follows:
        return f"{what} is not tried again: {retries.reason}"
    return f"{what} is tried again: {retries.reason}"
