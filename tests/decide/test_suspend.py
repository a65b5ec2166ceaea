"""`suspend` (A3): the attempt ends without being counted, and the Framework waits until it is resumed."""

import pytest
from builders import framework, role
from tests.decide.worlds import World

from windlass.decide.types import CreateConfigMap
from windlass.model.framework import CompletedPods, ExecutionType, RetryBackoff, RetryPolicySpec
from windlass.model.states import State
from windlass.model.status import ConditionType

WAITING = State.ATTEMPT_CREATION_PENDING

POLICIES = [
    RetryPolicySpec(False, 0),
    RetryPolicySpec(False, 3),
    RetryPolicySpec(False, -1),
    RetryPolicySpec(False, -2),
    RetryPolicySpec(True, 0),
    RetryPolicySpec(True, -2),
    RetryPolicySpec(True, 0, max_transient_retry_count=0),
    RetryPolicySpec(False, 2, retry_backoff=RetryBackoff(100, 300)),
    RetryPolicySpec(True, 0, retry_backoff=RetryBackoff(100, 300)),
]


def suspend(world: World) -> None:
    world.edit(suspend=True)
    world.settle()


def resume(world: World) -> None:
    world.edit(suspend=False)
    world.start()


def is_suspended(world: World) -> bool:
    condition = world.status.condition(ConditionType.SUSPENDED)
    return condition is not None and condition.is_true


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_suspend_ends_the_attempt_under_any_policy(policy: RetryPolicySpec) -> None:
    """A3: -130, Transient; never counted, no delay; and the Framework waits without any object."""
    world = World(framework("job", role(tasks=2), retry_policy=policy))
    world.start()
    suspend(world)
    ended = world.attempt(0).completion_status
    assert ended is not None
    assert (ended.code, ended.phrase) == (-130, "FrameworkSuspended")
    assert (ended.type.name, tuple(ended.type.attributes)) == ("Failed", ("Transient",))

    assert world.state is WAITING
    assert (world.pods, world.config_map) == ({}, None)
    retries = world.status.retry_policy_status
    assert (retries.accountable_retried_count, retries.retry_delay_sec) == (0, None)
    assert (world.status.attempt_status.id, world.code) == (1, None)
    assert is_suspended(world)

    world.advance(100_000)
    assert world.settle().actions == ()
    assert world.state is WAITING


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_resumed_framework_starts_a_new_attempt(policy: RetryPolicySpec) -> None:
    """A3: false starts the next attempt at once."""
    world = World(framework("job", role(tasks=2), retry_policy=policy))
    world.start()
    suspend(world)
    world.advance(1000)
    resume(world)
    assert (world.state, world.status.attempt_status.id) == (State.ATTEMPT_RUNNING, 1)
    assert not is_suspended(world)
    assert len(world.pods) == 2
    if policy.max_retry_count != -2:
        for index in range(2):
            world.succeed(index=index)
        world.settle()
        assert (world.state, world.code) == (State.COMPLETED, 0)


def test_tasks_of_a_suspended_attempt_end() -> None:
    """A3 with statement 33: -220 for tasks that had not completed; they are not retried."""
    world = World(framework("job", role(tasks=2, retry=RetryPolicySpec(True, -2), min_failed=-1)))
    world.start()
    world.completes_deletions = False
    suspend(world)
    assert world.code == -130
    assert [world.task_code(index=index) for index in range(2)] == [-220, -220]
    assert world.state.is_ending


@pytest.mark.parametrize("times", [1, 2, 5])
def test_suspensions_do_not_count_as_retries(times: int) -> None:
    """A3, "never counted", against maxRetryCount."""
    world = World(framework("job", role(), retry_policy=RetryPolicySpec(max_retry_count=1)))
    world.start()
    for _ in range(times):
        suspend(world)
        resume(world)
    world.fail()
    world.settle()
    assert world.status.attempt_status.id == times + 1
    assert world.status.retry_policy_status.accountable_retried_count == 1
    world.run_pods()
    world.settle()
    world.fail()
    world.settle()
    assert world.state is State.COMPLETED


@pytest.mark.parametrize("times", [1, 2, 5])
def test_suspensions_do_not_count_as_transient_retries(times: int) -> None:
    """A3, "never counted", against A5's maxTransientRetryCount."""
    policy = RetryPolicySpec(True, 0, max_transient_retry_count=1)
    world = World(framework("job", role(), retry_policy=policy))
    world.start()
    for _ in range(times):
        suspend(world)
        resume(world)
    world.fail(exit_code=200)
    world.settle()
    assert world.status.attempt_status.id == times + 1
    world.run_pods()
    world.settle()
    world.fail(exit_code=200)
    world.settle()
    assert world.state is State.COMPLETED
    assert world.status.attempt_status.id == times + 1


def test_suspensions_do_not_increase_the_backoff() -> None:
    """A3, "never counted", against A5's retryBackoff: the first delay is the first one."""
    policy = RetryPolicySpec(False, 3, retry_backoff=RetryBackoff(10, 10_000))
    world = World(framework("job", role(), retry_policy=policy))
    world.start()
    for _ in range(8):
        suspend(world)
        resume(world)
    world.fail()
    world.settle()
    delay = world.status.retry_policy_status.retry_delay_sec
    assert delay is not None
    assert 5 <= delay <= 15


def test_suspended_before_the_first_start() -> None:
    """A3: nothing has started, so nothing ends; the task statuses can be inspected."""
    world = World(framework("job", role(tasks=2), suspend=True))
    world.settle()
    assert (world.state, world.status.attempt_status.id, world.code) == (WAITING, 0, None)
    assert world.actions == ()
    assert is_suspended(world)
    assert len(world.status.attempt_status.roles[0].task_statuses) == 2
    resume(world)
    assert (world.state, world.status.attempt_status.id) == (State.ATTEMPT_RUNNING, 0)
    assert not is_suspended(world)


def test_resumed_before_the_attempt_is_deleted() -> None:
    """A3 with statement 16: the completion is kept; the next attempt starts when the old one is deleted."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.completes_deletions = False
    suspend(world)
    world.edit(suspend=False)
    world.settle()
    assert world.code == -130
    assert world.actions.count(CreateConfigMap()) == 1
    world.completes_deletions = True
    world.finish_deletions()
    world.settle()
    assert world.state is State.ATTEMPT_PREPARING
    retries = world.status.retry_policy_status
    assert (world.status.attempt_status.id, retries.accountable_retried_count) == (1, 0)


# Precedence


@pytest.mark.parametrize("when", ["together", "while suspended", "while running"])
def test_stop_overrides_suspend(when: str) -> None:
    """A3: -210, for good."""
    world = World(framework("job", role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=-2)))
    world.start()
    if when == "while suspended":
        suspend(world)
    if when == "together":
        world.edit(suspend=True, execution_type=ExecutionType.STOP)
    else:
        world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    world.edit(suspend=True)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert not is_suspended(world)


def test_stopped_and_suspended_from_the_start() -> None:
    """A3: Stop takes precedence, and no object is created."""
    world = World(framework("job", role(), suspend=True, execution_type=ExecutionType.STOP))
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert world.actions == ()


def test_create_overrides_suspend() -> None:
    """A3 with statement 35: the Framework waits because of Create, then of suspend, then runs."""
    world = World(framework("job", role(tasks=2), suspend=True, execution_type=ExecutionType.CREATE))
    world.settle()
    assert (world.state, world.actions) == (WAITING, ())
    assert len(world.status.attempt_status.roles[0].task_statuses) == 2
    world.edit(execution_type=ExecutionType.START)
    world.settle()
    assert (world.state, world.actions) == (WAITING, ())
    assert is_suspended(world)
    resume(world)
    assert (world.state, world.status.attempt_status.id) == (State.ATTEMPT_RUNNING, 0)


def test_create_keeps_a_resumed_framework_waiting() -> None:
    """A3 with statement 35: in the other order."""
    world = World(framework("job", role(), suspend=True, execution_type=ExecutionType.CREATE))
    world.settle()
    world.edit(suspend=False)
    world.settle()
    assert (world.state, world.actions) == (WAITING, ())
    assert not is_suspended(world)


@pytest.mark.parametrize("exit_code", [0, 9])
def test_completed_framework_cannot_be_suspended(exit_code: int) -> None:
    """A3 with statement 10."""
    world = World(framework("job", role()))
    world.start()
    world.show_pod("Failed" if exit_code else "Succeeded", exit_code=exit_code)
    world.settle()
    suspend(world)
    assert (world.state, world.code, world.status.attempt_status.id) == (State.COMPLETED, exit_code, 0)
    assert not is_suspended(world)


def test_ending_attempt_keeps_its_completion() -> None:
    """A3 with statement 16: it had failed before it was suspended, and no retry is pending."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.completes_deletions = False
    world.fail(exit_code=9)
    world.settle()
    suspend(world)
    world.completes_deletions = True
    world.finish_deletions()
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, 9)


def test_suspended_during_a_retry_delay() -> None:
    """A3 with statement 27: the retry waits for both; its count is its own."""
    world = World(
        framework("job", role(), retry_policy=RetryPolicySpec(False, 1, retry_backoff=RetryBackoff(100, 100)))
    )
    world.start()
    world.fail()
    world.settle()
    assert world.state is State.ATTEMPT_COMPLETED
    suspend(world)
    world.advance(1000)
    world.settle()
    assert (world.state, world.status.attempt_status.id) == (WAITING, 1)
    assert (world.pods, world.config_map) == ({}, None)
    assert world.status.retry_policy_status.accountable_retried_count == 1
    resume(world)
    assert (world.state, world.status.attempt_status.id) == (State.ATTEMPT_RUNNING, 1)


def test_suspended_framework_keeps_no_pods() -> None:
    """A3 with A2: another attempt follows, so `Keep` does not apply."""
    world = World(framework("job", role(tasks=2), completed_pods=CompletedPods.KEEP))
    world.start()
    world.succeed(index=0)
    world.settle()
    suspend(world)
    assert (world.state, world.pods, world.config_map) == (WAITING, {}, None)


def test_suspended_framework_is_rescaled() -> None:
    """A3 with statements 29 and 36: the new attempt follows the current spec."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    suspend(world)
    world.edit_role("worker", task_number=3)
    world.settle()
    world.edit_role("worker", task_number=1)
    world.settle()
    assert world.actions.count(CreateConfigMap()) == 1
    resume(world)
    assert list(world.pods) == ["job-worker-0"]
    world.succeed()
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, 0)


# At any time.


def in_the_middle(world: World, passes: int) -> World:
    """Return a world after this many passes; pods run as soon as they exist."""
    for _ in range(passes):
        world.step()
        world.run_pods()
    return world


@pytest.mark.parametrize("shows_creations", [True, False], ids=["watched", "unwatched"])
@pytest.mark.parametrize("restarts", [False, True], ids=["same-controller", "other-controller"])
@pytest.mark.parametrize("passes", range(6))
def test_suspend_at_any_time_deletes_all_objects(passes: int, restarts: bool, shows_creations: bool) -> None:
    """A3: an object may exist that no stored status names, or that the watch reports later."""
    world = World(framework("job", role(tasks=2)))
    world.shows_creations = shows_creations
    in_the_middle(world, passes)
    if restarts:
        world.restart()
    suspend(world)
    world.confirm()
    world.settle()
    assert (world.state, world.pods, world.config_map) == (WAITING, {}, None)
    world.shows_creations = True
    resume(world)
    assert (world.state, len(world.pods)) == (State.ATTEMPT_RUNNING, 2)


@pytest.mark.parametrize("shows_creations", [True, False], ids=["watched", "unwatched"])
@pytest.mark.parametrize("restarts", [False, True], ids=["same-controller", "other-controller"])
@pytest.mark.parametrize("passes", range(6))
def test_stop_at_any_time_deletes_all_objects(passes: int, restarts: bool, shows_creations: bool) -> None:
    """Statement 24, as above."""
    world = World(framework("job", role(tasks=2)))
    world.shows_creations = shows_creations
    in_the_middle(world, passes)
    if restarts:
        world.restart()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    world.confirm()
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert (world.pods, world.config_map) == ({}, None)


def test_suspended_twice_before_the_start() -> None:
    """A3: an attempt that has no object yet is not ended by a suspension; it waits again."""
    world = World(framework("job", role()))
    world.start()
    suspend(world)
    for _ in range(3):
        world.edit(suspend=False)
        world.decide()
        suspend(world)
    assert (world.state, world.status.attempt_status.id) == (WAITING, 1)


def test_just_succeeded_job_is_not_suspended() -> None:
    """A3: suspend ends an attempt; one that has come to its own end needs no other."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.succeed("worker", 0)
    world.succeed("worker", 1)
    suspend(world)
    assert world.status.state is State.COMPLETED
    ended = world.attempt(0).completion_status
    assert ended is not None
    assert ended.code == 0
