"""Whether another attempt follows, of a Framework or of a task, and when (statements 24 to 28, A3, A5)."""

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
        # It runs over all attempts: the next one would be over before it began.
        CompletionCode.ACTIVE_DEADLINE_EXCEEDED,
    }
)
JITTER = 0.25
"""A delay is shortened by up to this part of it, so that jobs that fell together do not rise together."""


class Verdict(msgspec.Struct, frozen=True):
    retries: bool
    reason: str
    is_counted: bool = False
    is_suspension: bool = False
    delay_sec: int = 0


class Subject(msgspec.Struct, frozen=True):
    """Whose attempt ended, and how often it was retried before."""

    uid: str
    retried: RetryPolicyStatus
    suspended_count: int = 0
    is_framework: bool = False

    @property
    def uncounted_retries(self) -> int:
        return (
            self.retried.total_retried_count - self.retried.accountable_retried_count - self.suspended_count
        )


def verdict(
    policy: RetryPolicySpec, subject: Subject, code: int, completion: CompletionType, rules: Rules
) -> Verdict:
    if code in NEVER_RETRIED:
        return Verdict(retries=False, reason=f"code {code} is never retried")
    if code == CompletionCode.FRAMEWORK_SUSPENDED:
        return Verdict(retries=True, reason="it was suspended", is_suspension=True)
    if policy.fancy_retry_policy and completion.is_failed:
        if completion.is_transient:
            return _after_transient_failure(policy, subject, completion, rules)
        if completion.is_permanent:
            return Verdict(retries=False, reason="the failure is permanent")
    return _after_counting(policy, subject, completion)


def _after_transient_failure(
    policy: RetryPolicySpec, subject: Subject, completion: CompletionType, rules: Rules
) -> Verdict:
    limit = policy.max_transient_retry_count
    if limit is not None and subject.uncounted_retries >= limit:
        return Verdict(
            retries=False, reason=f"the failure is transient, but maxTransientRetryCount {limit} is used up"
        )
    delay = _backoff(policy.retry_backoff, subject)
    if completion.is_conflict and subject.is_framework:
        delay = max(delay, _conflict_delay(subject, rules))
    return Verdict(retries=True, reason="the failure is transient", delay_sec=delay)


def _after_counting(policy: RetryPolicySpec, subject: Subject, completion: CompletionType) -> Verdict:
    counted, limit = subject.retried.accountable_retried_count, policy.max_retry_count
    delay = _backoff(policy.retry_backoff, subject)
    if limit == ALWAYS_RETRY:
        return Verdict(retries=True, is_counted=True, delay_sec=delay, reason="maxRetryCount is -2")
    if not completion.is_failed:
        return Verdict(retries=False, reason="it succeeded")
    if limit == RETRY_IF_FAILED:
        return Verdict(retries=True, is_counted=True, delay_sec=delay, reason="maxRetryCount is -1")
    if counted < limit:
        return Verdict(
            retries=True,
            is_counted=True,
            delay_sec=delay,
            reason=f"{counted} of maxRetryCount {limit} are used",
        )
    return Verdict(retries=False, reason=f"maxRetryCount {limit} is used up")


def _backoff(backoff: RetryBackoff | None, subject: Subject) -> int:
    if backoff is None:
        return 0
    attempt = subject.retried.total_retried_count
    doublings = min(attempt - subject.suspended_count, 60)
    full = min(backoff.max_sec, backoff.initial_sec << doublings)
    return round(full * (1 - JITTER * initial_status.fraction(subject.uid, str(attempt))))


def _conflict_delay(subject: Subject, rules: Rules) -> int:
    span = rules.max_conflict_delay_sec - rules.min_conflict_delay_sec + 1
    draw = initial_status.fraction(subject.uid, str(subject.retried.total_retried_count), "conflict")
    return rules.min_conflict_delay_sec + int(draw * span)


def after_retry(retried: RetryPolicyStatus, *, is_counted: bool) -> RetryPolicyStatus:
    return RetryPolicyStatus(
        total_retried_count=retried.total_retried_count + 1,
        accountable_retried_count=retried.accountable_retried_count + is_counted,
    )
