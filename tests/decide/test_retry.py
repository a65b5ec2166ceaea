"""Retries (statements 24 to 29) of Frameworks and of tasks, with the same tables."""

import pytest
from builders import framework, role
from tests.decide.subjects import CONFLICT, PERMANENT, SUCCESS, TRANSIENT, UNKNOWN, RetrySubject
from tests.decide.worlds import World

from windlass.decide.failures import Classifier
from windlass.decide.types import CreateConfigMap, Rules
from windlass.model.completion import CompletionType
from windlass.model.failures import ContainerPattern, FailureClass, IntRange, PodPattern
from windlass.model.framework import ExecutionType, RetryBackoff, RetryPolicySpec, TaskSpec
from windlass.model.states import State

BOTH = pytest.mark.parametrize("kind", ["framework", "task"])


# Which failures are retried and counted (statements 25 and 26)

EXIT_CODES = (SUCCESS, UNKNOWN, TRANSIENT, CONFLICT, PERMANENT)
COUNTED, FREE, ENDED = "retried and counted", "retried, not counted", "ended"
FIRST_RETRY = {
    # fancyRetryPolicy, maxRetryCount, exit code, result
    (False, -2): (COUNTED, COUNTED, COUNTED, COUNTED, COUNTED),
    (False, -1): (ENDED, COUNTED, COUNTED, COUNTED, COUNTED),
    (False, 0): (ENDED, ENDED, ENDED, ENDED, ENDED),
    (False, 1): (ENDED, COUNTED, COUNTED, COUNTED, COUNTED),
    (True, -2): (COUNTED, COUNTED, FREE, FREE, ENDED),
    (True, -1): (ENDED, COUNTED, FREE, FREE, ENDED),
    (True, 0): (ENDED, ENDED, FREE, FREE, ENDED),
    (True, 1): (ENDED, COUNTED, FREE, FREE, ENDED),
}
ROWS = [
    (fancy, count, exit_code, expected)
    for (fancy, count), row in FIRST_RETRY.items()
    for exit_code, expected in zip(EXIT_CODES, row, strict=True)
]


@BOTH
@pytest.mark.parametrize(("fancy", "max_retry_count", "exit_code", "expected"), ROWS)
def test_first_retry_follows_the_policy(
    kind: str, fancy: bool, max_retry_count: int, exit_code: int, expected: str
) -> None:
    """Statements 25 and 26."""
    subject = RetrySubject(kind, RetryPolicySpec(fancy, max_retry_count))
    subject.end_and_retry(exit_code)
    is_retried = expected != ENDED
    assert subject.counts == (int(is_retried), int(expected == COUNTED))
    assert subject.status.state is (State.ATTEMPT_RUNNING if is_retried else State.COMPLETED)
    if not is_retried:
        ended = subject.status.attempt_status.completion_status
        assert ended is not None
        assert ended.code == exit_code


@BOTH
@pytest.mark.parametrize(
    ("fancy", "max_retry_count", "exit_codes", "counts", "is_over"),
    [
        (False, 2, [UNKNOWN, UNKNOWN], (2, 2), False),
        (False, 2, [UNKNOWN, UNKNOWN, UNKNOWN], (2, 2), True),
        (False, 2, [TRANSIENT, UNKNOWN, TRANSIENT], (2, 2), True),
        (True, 2, [TRANSIENT, UNKNOWN, TRANSIENT, UNKNOWN], (4, 2), False),
        (True, 2, [TRANSIENT, UNKNOWN, TRANSIENT, UNKNOWN, TRANSIENT, UNKNOWN], (5, 2), True),
        (True, 0, [TRANSIENT] * 7, (7, 0), False),
        (True, 0, [TRANSIENT] * 7 + [UNKNOWN], (7, 0), True),
        (True, 1, [TRANSIENT, UNKNOWN, PERMANENT], (2, 1), True),
        (True, -1, [UNKNOWN] * 5 + [SUCCESS], (5, 5), True),
        (False, -2, [SUCCESS, UNKNOWN, SUCCESS], (3, 3), False),
    ],
)
def test_retries_are_counted_over_several_attempts(
    kind: str,
    fancy: bool,
    max_retry_count: int,
    exit_codes: list[int],
    counts: tuple[int, int],
    is_over: bool,
) -> None:
    """Statement 26: only counted retries are limited by maxRetryCount."""
    subject = RetrySubject(kind, RetryPolicySpec(fancy, max_retry_count))
    for exit_code in exit_codes:
        assert subject.status.state is State.ATTEMPT_RUNNING
        subject.end_and_retry(exit_code)
    assert subject.counts == counts
    assert (subject.status.state is State.COMPLETED) == is_over


# Never retried (statement 24)


@pytest.mark.parametrize("fancy", [True, False])
def test_stopped_framework_is_not_retried(fancy: bool) -> None:
    """Statement 24: -210."""
    policy = RetryPolicySpec(fancy, -2)
    world = World(framework("job", role(tasks=2, retry=policy), retry_policy=policy))
    world.start()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert world.status.retry_policy_status.total_retried_count == 0
    assert (world.pods, world.config_map) == ({}, None)


@pytest.mark.parametrize("fancy", [True, False])
def test_task_that_ends_with_its_framework_is_not_retried(fancy: bool) -> None:
    """Statement 24: -220."""
    world = World(framework("job", role(), role("ps", 2, retry=RetryPolicySpec(fancy, -2))))
    world.start()
    world.fail()
    world.settle()
    for index in range(2):
        task = world.task("ps", index)
        assert (task.state, world.task_code("ps", index)) == (State.COMPLETED, -220)
        assert task.retry_policy_status.total_retried_count == 0


@pytest.mark.parametrize("fancy", [True, False])
def test_deleted_task_is_not_retried(fancy: bool) -> None:
    """Statement 24: -230."""
    world = World(framework("job", role(tasks=2, retry=RetryPolicySpec(fancy, -2))))
    world.start()
    world.completes_deletions = False
    world.edit_role("worker", task_number=1)
    world.settle()
    assert world.task_code(index=1) == -230
    world.finish_deletions()
    world.settle()
    assert [task.index for task in world.status.attempt_status.roles[0].task_statuses] == [0]
    assert not world.has_pod(index=1)


# The delay (statements 25, 27, 28).


@pytest.mark.parametrize("uid", [f"framework-{number}" for number in range(20)])
def test_conflict_delays_the_retry_of_a_framework(uid: str) -> None:
    """Statements 25 and 27: 60 to 900 seconds after the attempt ended, chosen once."""
    subject = RetrySubject("framework", RetryPolicySpec(fancy_retry_policy=True), uid)
    world = subject.world
    world.advance(100)
    subject.end(CONFLICT)
    delay = subject.delay
    ended = subject.status.attempt_status.completion_time
    assert delay is not None
    assert ended is not None
    assert 60 <= delay <= 900
    assert (subject.is_waiting, subject.counts) == (True, (0, 0))
    due = world.settle().wake_at
    assert due is not None
    assert (due - ended).total_seconds() == delay

    world.advance(delay - 1)
    assert world.settle().actions == ()
    assert (subject.is_waiting, subject.delay) == (True, delay)
    world.advance(1)
    world.settle()
    assert (subject.attempt_id, subject.delay, subject.counts) == (1, None, (1, 0))
    assert world.has_pod()


def test_conflict_delays_have_jitter() -> None:
    """Statement 25: Frameworks that conflicted are not all retried at the same time."""
    delays = set()
    for number in range(40):
        subject = RetrySubject("framework", RetryPolicySpec(fancy_retry_policy=True), f"uid-{number}")
        subject.end(CONFLICT)
        delays.add(subject.delay)
    assert len(delays) > 20


@pytest.mark.parametrize(("shortest", "longest"), [(1, 3), (7, 7), (0, 0)])
def test_conflict_delay_bounds_are_configurable(shortest: int, longest: int) -> None:
    """Statements 25 and 51."""
    rules = Rules(min_conflict_delay_sec=shortest, max_conflict_delay_sec=longest)
    for number in range(10):
        world = World(
            framework(
                "job", role(), retry_policy=RetryPolicySpec(fancy_retry_policy=True), uid=f"uid-{number}"
            ),
            rules,
        )
        world.start()
        world.fail(exit_code=CONFLICT)
        world.settle()
        if world.status.attempt_status.id == 1:
            assert shortest == 0
        else:
            delay = world.status.retry_policy_status.retry_delay_sec
            assert delay is not None
            assert shortest <= delay <= longest


@BOTH
@pytest.mark.parametrize(
    ("fancy", "max_retry_count", "exit_code"),
    [
        (True, 0, TRANSIENT),
        (True, 1, UNKNOWN),
        (False, -2, SUCCESS),
        (False, -1, UNKNOWN),
        (False, 1, TRANSIENT),
        (False, 1, CONFLICT),
    ],
)
def test_other_retries_are_not_delayed(kind: str, fancy: bool, max_retry_count: int, exit_code: int) -> None:
    """Statement 25: only a Transient Conflict under fancyRetryPolicy is delayed; otherwise the delay is null
    (statement 27)."""
    subject = RetrySubject(kind, RetryPolicySpec(fancy, max_retry_count))
    subject.end(exit_code)
    assert (subject.attempt_id, subject.delay) == (1, None)
    assert subject.world.has_pod()


def test_conflict_does_not_delay_a_task() -> None:
    """Statement 25: "for Frameworks only"."""
    subject = RetrySubject("task", RetryPolicySpec(fancy_retry_policy=True))
    subject.end(CONFLICT)
    assert (subject.attempt_id, subject.delay, subject.counts) == (1, None, (1, 0))


def test_stop_during_the_delay_ends_the_framework() -> None:
    """Statement 28: the retry is made at once, and that attempt ends with -210 before it has an object."""
    subject = RetrySubject("framework", RetryPolicySpec(fancy_retry_policy=True))
    world = subject.world
    subject.end(CONFLICT)
    world.advance(10)
    assert world.settle().actions == ()
    created = world.actions.count(CreateConfigMap())
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert (subject.attempt_id, subject.counts, subject.delay) == (1, (1, 0), None)
    assert world.actions.count(CreateConfigMap()) == created
    assert world.task_code() == -220


def test_changed_policy_keeps_the_chosen_delay() -> None:
    """Statement 27: the stored delay applies."""
    subject = RetrySubject(
        "framework", RetryPolicySpec(True, retry_backoff=RetryBackoff(initial_sec=40, max_sec=40))
    )
    subject.end(TRANSIENT)
    delay = subject.delay
    assert delay is not None
    backoff = RetryBackoff(initial_sec=4000, max_sec=4000)
    subject.world.edit(retry_policy=RetryPolicySpec(True, retry_backoff=backoff))
    subject.world.settle()
    assert (subject.is_waiting, subject.delay) == (True, delay)
    subject.world.wake()
    assert subject.attempt_id == 1


@BOTH
@pytest.mark.parametrize(
    ("edited", "counts"),
    [
        (RetryPolicySpec(), (1, 1)),
        (RetryPolicySpec(True, max_transient_retry_count=0), (1, 1)),
        (RetryPolicySpec(True), (1, 0)),
        (RetryPolicySpec(max_retry_count=9), (1, 1)),
    ],
    ids=["no retries", "no transient retries", "transient retries", "counted retries"],
)
def test_changed_policy_does_not_revoke_a_scheduled_retry(
    kind: str, edited: RetryPolicySpec, counts: tuple[int, int]
) -> None:
    """Statement 27: the retry was decided when it was scheduled; the new policy decides whether it is counted."""
    backoff = RetryBackoff(initial_sec=40, max_sec=40)
    subject = RetrySubject(kind, RetryPolicySpec(True, retry_backoff=backoff))
    subject.end(TRANSIENT)
    delay = subject.delay
    assert delay is not None
    subject.edit_policy(edited)
    subject.world.settle()
    assert (subject.is_waiting, subject.delay) == (True, delay)
    subject.world.wake()
    assert (subject.attempt_id, subject.counts, subject.delay) == (1, counts, None)
    subject.world.run_pods()
    subject.world.settle()
    assert subject.status.state is State.ATTEMPT_RUNNING


def test_changed_policy_applies_to_the_attempt_after_a_scheduled_retry() -> None:
    """Statement 27: only the scheduled retry is kept."""
    backoff = RetryBackoff(initial_sec=40, max_sec=40)
    subject = RetrySubject("framework", RetryPolicySpec(True, retry_backoff=backoff))
    subject.end(TRANSIENT)
    subject.edit_policy(RetryPolicySpec())
    subject.world.wake()
    subject.world.run_pods()
    subject.world.settle()
    subject.end(TRANSIENT)
    assert (subject.status.state, subject.attempt_id) == (State.COMPLETED, 1)


# The new attempt (statement 29)


def test_new_attempt_has_new_tasks() -> None:
    """Statement 29."""
    world = World(
        framework(
            "job",
            role(tasks=2, retry=RetryPolicySpec(max_retry_count=1)),
            retry_policy=RetryPolicySpec(max_retry_count=1),
        )
    )
    world.start()
    old_attempt, old_tasks = world.status.attempt_status, world.status.attempt_status.roles[0].task_statuses
    for _ in range(2):
        world.advance(10)
        world.run()
        world.settle()
        world.fail()
        world.settle()
    assert world.attempt(0).completion_status is not None
    attempt = world.status.attempt_status
    assert (attempt.id, attempt.completion_status, attempt.run_time) == (1, None, None)
    assert attempt.start_time > old_attempt.start_time
    assert attempt.config_map_uid != old_attempt.config_map_uid
    for task, old in zip(attempt.roles[0].task_statuses, old_tasks, strict=True):
        assert task.instance_uid != old.instance_uid
        assert task.retry_policy_status.total_retried_count == 0
        assert task.attempt_status.pod_uid != old.attempt_status.pod_uid
        assert (task.attempt_status.id, task.attempt_status.completion_status) == (0, None)
        assert task.start_time == attempt.start_time


def test_old_attempt_is_deleted_before_the_new_one_starts() -> None:
    """Statements 29 and 40: no object of the new attempt is created before."""
    subject = RetrySubject("framework", RetryPolicySpec(max_retry_count=-1))
    world = subject.world
    world.completes_deletions = False
    subject.end(UNKNOWN)
    assert world.actions.count(CreateConfigMap()) == 1
    world.finish_deletions()
    world.settle()
    assert (subject.attempt_id, world.actions.count(CreateConfigMap())) == (0, 1)
    world.finish_deletions()
    world.settle()
    assert (subject.attempt_id, world.actions.count(CreateConfigMap())) == (1, 2)


def test_new_attempt_has_the_current_spec() -> None:
    """Statement 29: with the roles and tasks added and removed during the delay."""
    world = World(
        framework(
            "job", role("ps", 2), role("worker", 2), retry_policy=RetryPolicySpec(fancy_retry_policy=True)
        )
    )
    world.start()
    world.fail("worker", 1, exit_code=CONFLICT)
    world.settle()
    assert world.state is State.ATTEMPT_COMPLETED
    world.edit(task_roles=(role("worker", 3), role("chief", 1)))
    world.settle()
    world.wake()
    found = [(each.name, len(each.task_statuses)) for each in world.status.attempt_status.roles]
    assert found == [("worker", 3), ("chief", 1)]
    assert sorted(world.pods) == ["job-chief-0", "job-worker-0", "job-worker-1", "job-worker-2"]


def test_current_retry_policy_applies() -> None:
    """Statement 26: the spec is read when the attempt has ended."""
    subject = RetrySubject("framework", RetryPolicySpec(max_retry_count=0))
    subject.world.edit(retry_policy=RetryPolicySpec(max_retry_count=1))
    subject.end(UNKNOWN)
    assert subject.attempt_id == 1


def test_stop_while_a_failed_attempt_is_deleted() -> None:
    """Statements 16 and 28: its completion is kept, and the following retry ends with -210."""
    world = World(framework("job", role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=1)))
    world.start()
    world.completes_deletions = False
    world.fail(exit_code=UNKNOWN)
    world.settle()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert world.code == UNKNOWN
    world.completes_deletions = True
    world.finish_deletions()
    world.settle()
    assert (world.state, world.code, world.status.attempt_status.id) == (State.COMPLETED, -210, 1)
    assert world.actions.count(CreateConfigMap()) == 1


@BOTH
def test_lower_limit_applies_at_once(kind: str) -> None:
    """Statement 26: two retries were made, one is allowed now."""
    subject = RetrySubject(kind, RetryPolicySpec(max_retry_count=3))
    for _ in range(2):
        subject.end_and_retry(UNKNOWN)
    lower = RetryPolicySpec(max_retry_count=1)
    if kind == "framework":
        subject.world.edit(retry_policy=lower)
    else:
        subject.world.edit_role("worker", task=TaskSpec(retry_policy=lower))
    subject.end(UNKNOWN)
    assert (subject.status.state, subject.counts) == (State.COMPLETED, (2, 2))


@BOTH
@pytest.mark.parametrize(
    ("attributes", "counts", "is_delayed"),
    [
        ((), (1, 1), False),
        (("User",), (1, 1), False),
        (("Conflict",), (1, 1), False),
        (("Transient", "Platform"), (1, 0), False),
        (("Conflict", "Platform", "Transient"), (1, 0), True),
        (("User", "Permanent"), (0, 0), False),
        (("Permanent", "Conflict"), (0, 0), False),
    ],
)
def test_unknown_attributes_do_not_affect_retries(
    kind: str, attributes: tuple[str, ...], counts: tuple[int, int], is_delayed: bool
) -> None:
    """Statement 25, for a configured failure class: Transient, Permanent, and Conflict if it is Transient too."""
    patterns = (PodPattern(containers=(ContainerPattern(code_range=IntRange(50, 50)),)),)
    configured = FailureClass(-2000, "Configured", CompletionType(attributes=attributes), patterns)
    subject = RetrySubject(kind, RetryPolicySpec(True, 1), rules=Rules(classifier=Classifier([configured])))
    subject.end(50)
    assert subject.is_waiting == (is_delayed and kind == "framework")
    if subject.is_waiting:
        subject.world.wake()
    assert subject.counts == counts
