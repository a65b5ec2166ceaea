"""Limits and delays of retries beyond the reference (A5): maxTransientRetryCount and retryBackoff."""

import pytest
from builders import framework, role
from tests.decide.subjects import CONFLICT, TRANSIENT, UNKNOWN, RetrySubject
from tests.decide.worlds import World

from windlass.model.framework import ExecutionType, RetryBackoff, RetryPolicySpec
from windlass.model.states import State

BOTH = pytest.mark.parametrize("kind", ["framework", "task"])


@BOTH
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_transient_retries_stop_at_their_limit(kind: str, limit: int) -> None:
    """A5: maxTransientRetryCount; counted retries do not affect it."""
    policy = RetryPolicySpec(True, 1, max_transient_retry_count=limit)
    subject = RetrySubject(kind, policy)
    subject.end_and_retry(UNKNOWN)
    assert subject.counts == (1, 1)
    for number in range(limit):
        subject.end_and_retry(TRANSIENT)
        assert subject.counts == (2 + number, 1)
        assert subject.status.state is State.ATTEMPT_RUNNING
    subject.end_and_retry(TRANSIENT)
    assert subject.status.state is State.COMPLETED
    assert subject.counts == (1 + limit, 1)


@BOTH
def test_transient_failures_without_a_limit_are_always_retried(kind: str) -> None:
    """A5: without the field, the reference's behaviour applies."""
    subject = RetrySubject(kind, RetryPolicySpec(fancy_retry_policy=True))
    for _ in range(50):
        subject.end_and_retry(TRANSIENT)
    assert subject.counts == (50, 0)


def backoffs(kind: str, policy: RetryPolicySpec, times: int, uid: str = "uid") -> list[int]:
    """Return the delays before this many consecutive retries."""
    subject = RetrySubject(kind, policy, uid)
    found = []
    for _ in range(times):
        subject.end(TRANSIENT)
        assert subject.is_waiting
        delay = subject.delay
        assert delay is not None
        found.append(delay)
        subject.world.wake()
        assert subject.delay is None
        subject.world.run_pods()
        subject.world.settle()
    assert subject.attempt_id == times
    return found


@BOTH
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(RetryPolicySpec(True, 0, retry_backoff=RetryBackoff(10, 300)), id="uncounted"),
        pytest.param(RetryPolicySpec(False, -1, retry_backoff=RetryBackoff(10, 300)), id="counted"),
    ],
)
@pytest.mark.parametrize("uid", ["a", "b", "c"])
def test_backoff_doubles_up_to_its_maximum(kind: str, policy: RetryPolicySpec, uid: str) -> None:
    """A5: 10, 20, 40 … 300 seconds, each within half of it (jitter), and never more than the maximum."""
    delays = backoffs(kind, policy, 8, uid)
    for number, delay in enumerate(delays):
        base = min(300, 10 * 2**number)
        assert base / 2 <= delay <= min(300, base * 1.5), (number, delays)


@BOTH
def test_backoff_depends_only_on_uid_and_attempt(kind: str) -> None:
    """A5: the delay is the same for the same Framework, and differs between Frameworks."""
    policy = RetryPolicySpec(True, 0, retry_backoff=RetryBackoff(100, 3000))
    first = backoffs(kind, policy, 5, "one")
    assert backoffs(kind, policy, 5, "one") == first
    others = [backoffs(kind, policy, 5, f"other-{number}") for number in range(5)]
    assert any(other != first for other in others)


def test_jitter_spreads_the_retries_of_two_tasks() -> None:
    """A5: tasks that failed together are not retried together."""
    policy = RetryPolicySpec(True, 0, retry_backoff=RetryBackoff(1000, 3000))
    world = World(framework("job", role(tasks=10, retry=policy)))
    world.start()
    for index in range(10):
        world.fail(index=index, exit_code=TRANSIENT)
    world.settle()
    delays = {world.task(index=index).retry_policy_status.retry_delay_sec for index in range(10)}
    assert len(delays) > 5


def test_conflict_delay_exceeds_a_short_backoff() -> None:
    """Statement 25 with A5: the longer delay applies."""
    policy = RetryPolicySpec(True, 0, retry_backoff=RetryBackoff(1, 2))
    subject = RetrySubject("framework", policy)
    subject.end(CONFLICT)
    assert subject.delay is not None
    assert 60 <= subject.delay <= 900


def test_stop_during_the_backoff_ends_the_framework() -> None:
    """Statement 28 with A5."""
    policy = RetryPolicySpec(False, 3, retry_backoff=RetryBackoff(100, 300))
    subject = RetrySubject("framework", policy)
    subject.end(UNKNOWN)
    assert subject.is_waiting
    subject.world.edit(execution_type=ExecutionType.STOP)
    subject.world.settle()
    assert (subject.world.state, subject.world.code, subject.attempt_id) == (State.COMPLETED, -210, 1)


def test_framework_end_completes_a_task_in_backoff() -> None:
    """Statements 15, 33 and A5: a task that waits for its retry has not completed; it is not retried any more."""
    policy = RetryPolicySpec(False, 3, retry_backoff=RetryBackoff(100, 300))
    world = World(framework("job", role("ps", 1, retry=policy), role("worker", 1)))
    world.start()
    world.fail("ps", exit_code=5)
    world.settle()
    assert world.task("ps").state is State.ATTEMPT_COMPLETED
    world.fail("worker", exit_code=6)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, 6)
    assert world.task("ps").state is State.COMPLETED
    assert world.task("ps").retry_policy_status.total_retried_count == 0
    assert world.task_code("ps") == 5


def test_scale_down_completes_a_task_in_backoff() -> None:
    """Statements 24 and 38 with A5: the task and its pod are deleted."""
    policy = RetryPolicySpec(False, 3, retry_backoff=RetryBackoff(100, 300))
    world = World(framework("job", role(tasks=2, retry=policy)))
    world.start()
    world.fail(index=1)
    world.settle()
    assert world.task(index=1).state is State.ATTEMPT_COMPLETED
    world.edit_role("worker", task_number=1)
    world.settle()
    assert [task.index for task in world.status.attempt_status.roles[0].task_statuses] == [0]
    assert not world.has_pod(index=1)
