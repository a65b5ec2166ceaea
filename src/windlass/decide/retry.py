"""Decides whether a Framework or a task is retried, and when (statements 24 to 28, A3, A5)."""

import msgspec

from windlass.decide import initial_status
from windlass.decide.types import Rules
from windlass.model.completion import CompletionCode, CompletionType
from windlass.model.framework import ALWAYS_RETRY, RETRY_IF_FAILED, RetryBackoff, RetryPolicySpec
from windlass.model.status import RetryPolicyStatus

NEVER_RETRIED = frozenset(
    {
        CompletionCode.STOP_FRAMEWORK_REQUESTED,
        CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION,
        CompletionCode.DELETE_TASK_REQUESTED,
        # The deadline covers all attempts: the next one would end at once.
        CompletionCode.ACTIVE_DEADLINE_EXCEEDED,
    }
)
JITTER = 0.25
"""Maximum fraction by which a backoff is shortened, so that jobs that failed together do not restart together."""


class RetryDecision(msgspec.Struct, frozen=True):
    should_retry: bool
    reason: str
    is_counted: bool = False
    is_suspension: bool = False
    delay_sec: int = 0


class RetryHistory(msgspec.Struct, frozen=True):
    """The retries of a Framework or a task so far."""

    uid: str
    retry_status: RetryPolicyStatus
    suspended_count: int = 0
    is_framework: bool = False

    @property
    def transient_retries(self) -> int:
        return (
            self.retry_status.total_retried_count
            - self.retry_status.accountable_retried_count
            - self.suspended_count
        )


def decide_retry(
    policy: RetryPolicySpec, history: RetryHistory, code: int, completion: CompletionType, rules: Rules
) -> RetryDecision:
    """Return whether to retry. A changed policy does not revoke a scheduled retry, only decides whether it counts."""
    decision = _decide_by_policy(policy, history, code, completion, rules)
    is_scheduled = history.retry_status.retry_delay_sec is not None
    if decision.should_retry or not is_scheduled:
        return decision
    return RetryDecision(should_retry=True, reason="scheduled before the policy changed", is_counted=True)


def _decide_by_policy(
    policy: RetryPolicySpec, history: RetryHistory, code: int, completion: CompletionType, rules: Rules
) -> RetryDecision:
    if code in NEVER_RETRIED:
        return RetryDecision(should_retry=False, reason=f"completion code {code} is never retried")
    if code == CompletionCode.FRAMEWORK_SUSPENDED:
        return RetryDecision(should_retry=True, reason="the job was suspended", is_suspension=True)
    if policy.fancy_retry_policy and completion.is_failed:
        if completion.is_transient:
            return _after_transient_failure(policy, history, completion, rules)
        if completion.is_permanent:
            return RetryDecision(should_retry=False, reason="permanent failure")
    return _decide_by_retry_count(policy, history, completion)


def _after_transient_failure(
    policy: RetryPolicySpec, history: RetryHistory, completion: CompletionType, rules: Rules
) -> RetryDecision:
    limit = policy.max_transient_retry_count
    if limit is not None and history.transient_retries >= limit:
        return RetryDecision(
            should_retry=False,
            reason=f"transient failure, but all {limit} transient retries are used",
        )
    delay = _backoff(policy.retry_backoff, history)
    if completion.is_conflict and history.is_framework:
        delay = max(delay, _conflict_delay(history, rules))
    return RetryDecision(should_retry=True, reason="transient failure", delay_sec=delay)


def _decide_by_retry_count(
    policy: RetryPolicySpec, history: RetryHistory, completion: CompletionType
) -> RetryDecision:
    counted, limit = history.retry_status.accountable_retried_count, policy.max_retry_count
    if limit == ALWAYS_RETRY:
        reason = "maxRetryCount -2: always"
    elif not completion.is_failed:
        return RetryDecision(should_retry=False, reason="succeeded")
    elif limit == RETRY_IF_FAILED:
        reason = "maxRetryCount -1: after any failure"
    elif counted < limit:
        reason = f"retry {counted + 1} of {limit}"
    else:
        reason = f"all {limit} retries are used" if limit else "no retries allowed (maxRetryCount 0)"
        return RetryDecision(should_retry=False, reason=reason)
    delay = _backoff(policy.retry_backoff, history)
    return RetryDecision(should_retry=True, reason=reason, is_counted=True, delay_sec=delay)


def _backoff(backoff: RetryBackoff | None, history: RetryHistory) -> int:
    if backoff is None:
        return 0
    attempt = history.retry_status.total_retried_count
    doublings = min(attempt - history.suspended_count, 60)
    full_delay = min(backoff.max_sec, backoff.initial_sec << doublings)
    return round(full_delay * (1 - JITTER * initial_status.derived_fraction(history.uid, str(attempt))))


def _conflict_delay(history: RetryHistory, rules: Rules) -> int:
    span = rules.max_conflict_delay_sec - rules.min_conflict_delay_sec + 1
    random_fraction = initial_status.derived_fraction(
        history.uid, str(history.retry_status.total_retried_count), "conflict"
    )
    return rules.min_conflict_delay_sec + int(random_fraction * span)


def after_retry(retry_status: RetryPolicyStatus, *, is_counted: bool) -> RetryPolicyStatus:
    return RetryPolicyStatus(
        total_retried_count=retry_status.total_retried_count + 1,
        accountable_retried_count=retry_status.accountable_retried_count + is_counted,
    )
