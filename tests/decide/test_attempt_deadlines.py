"""Deadlines of pending tasks and active Frameworks (A4)."""

from datetime import datetime

import builders
import pytest
from builders import at, role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import CreateConfigMap, CreatePod
from windlass.model.completion import CompletionTypeAttribute
from windlass.model.framework import CompletedPods, ExecutionType, RetryBackoff, RetryPolicySpec
from windlass.model.states import State

PENDING_TOO_LONG, ACTIVE_TOO_LONG = -240, -250
ALWAYS = RetryPolicySpec(max_retry_count=-2)


def assert_ends_at(world: ObjectWorld, deadline: datetime, code: int) -> None:
    """The attempt ends exactly at the deadline, which is wake_at."""
    assert world.decide().wake_at == deadline
    world.now = deadline
    world.wait(-0.001)
    world.settle()
    assert world.code() is None
    assert world.decide().wake_at == deadline
    world.now = deadline
    world.step()
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETION_PENDING, code)


# Pending


@pytest.mark.parametrize("deadline", [1, 60, 86400])
def test_pending_deadline_ends_the_attempt(pending_world: NewWorld, deadline: int) -> None:
    """-240, Permanent, with the task in the message."""
    world = pending_world(role("chief", 1), role(tasks=3), pending_deadline_seconds=deadline)
    world.run(role="chief")
    world.run(0, 1)
    world.settle()
    assert_ends_at(world, at(deadline), PENDING_TOO_LONG)
    completion = world.status.attempt_status.completion_status
    assert completion is not None
    assert completion.phrase == "PendingDeadlineExceeded"
    assert CompletionTypeAttribute.PERMANENT in completion.type.attributes
    assert completion.trigger is not None
    assert (completion.trigger.task_role_name, completion.trigger.task_index) == ("worker", 2)
    world.finish()
    assert world.state() is State.COMPLETED


def test_running_and_completed_tasks_are_not_pending(pending_world: NewWorld) -> None:
    world = pending_world(role(tasks=2), pending_deadline_seconds=60)
    world.wait(59)
    world.run()
    world.end(1, 0)
    world.settle()
    assert world.decide().wake_at is None
    world.wait(1000)
    world.settle()
    assert (world.state(), world.code()) == (State.ATTEMPT_RUNNING, None)


def test_pending_deadline_applies_to_a_pod_that_cannot_be_created(pending_world: NewWorld) -> None:
    """A task is pending while its pod is Pending or cannot be created."""
    world = pending_world(role(tasks=1), pending_deadline_seconds=60)
    world.run()
    world.settle()
    world.edit(role(tasks=2))
    world.step()
    world.postponed["job-worker-1"] = at(1000)
    assert_ends_at(world, at(60), PENDING_TOO_LONG)


def test_each_task_has_its_own_deadline(pending_world: NewWorld) -> None:
    """A task added later has the full time."""
    world = pending_world(role(tasks=1), pending_deadline_seconds=60)
    world.run()
    world.settle()
    world.wait(50)
    world.edit(role(tasks=2))
    world.settle()
    assert_ends_at(world, at(110), PENDING_TOO_LONG)


def test_pending_deadline_restarts_with_a_task_retry(pending_world: NewWorld) -> None:
    world = pending_world(role(tasks=2, retry=ALWAYS), pending_deadline_seconds=60)
    world.run()
    world.settle()
    world.wait(500)
    world.end(1, 1)
    world.finish()
    assert world.task(1).attempt_status.id == 1
    assert_ends_at(world, at(560), PENDING_TOO_LONG)


def test_retry_delay_is_not_pending_time(pending_world: NewWorld) -> None:
    """The task waits for its retry, not for resources."""
    delayed = RetryPolicySpec(max_retry_count=-2, retry_backoff=RetryBackoff(initial_sec=600, max_sec=600))
    world = pending_world(role(tasks=2, retry=delayed), pending_deadline_seconds=60)
    world.run()
    world.settle()
    world.end(1, 1)
    world.finish()
    assert world.task(1).state is State.ATTEMPT_COMPLETED
    world.wait(100)
    world.settle()
    assert world.code() is None


def test_framework_without_a_config_map_has_no_pending_tasks(new_world: NewWorld) -> None:
    """Neither a waiting Framework nor one without a name has pending tasks."""
    world = new_world(role(tasks=1), pending_deadline_seconds=60, execution_type=ExecutionType.CREATE)
    world.settle()
    assert world.decide().wake_at is None
    world.wait(1000)
    world.edit(execution_type=ExecutionType.START)
    world.settle()
    assert world.state() is State.ATTEMPT_PREPARING
    assert_ends_at(world, at(1060), PENDING_TOO_LONG)


def test_pending_deadline_set_later_applies_to_pending_tasks(pending_world: NewWorld) -> None:
    world = pending_world(role(tasks=1))
    assert world.decide().wake_at is None
    world.wait(10)
    world.edit(pending_deadline_seconds=60)
    assert_ends_at(world, at(60), PENDING_TOO_LONG)


# Active


@pytest.mark.parametrize("deadline", [1, 3600])
def test_active_deadline_ends_the_framework(running_world: NewWorld, deadline: int) -> None:
    """-250, Permanent."""
    world = running_world(role(tasks=2), active_deadline_seconds=deadline)
    assert_ends_at(world, at(deadline), ACTIVE_TOO_LONG)
    completion = world.status.attempt_status.completion_status
    assert completion is not None
    assert completion.phrase == "ActiveDeadlineExceeded"
    assert CompletionTypeAttribute.PERMANENT in completion.type.attributes
    world.finish()
    assert world.state() is State.COMPLETED


def test_active_deadline_covers_all_attempts(running_world: NewWorld) -> None:
    world = running_world(role(tasks=1), active_deadline_seconds=100, retry_policy=ALWAYS)
    for _ in range(3):
        world.wait(30)
        world.end(0, 1)
        world.finish()
        world.run()
        world.settle()
    assert world.status.attempt_status.id == 3
    assert_ends_at(world, at(100), ACTIVE_TOO_LONG)


@pytest.mark.parametrize(
    "policy",
    [
        ALWAYS,
        RetryPolicySpec(max_retry_count=-1),
        RetryPolicySpec(max_retry_count=9),
        RetryPolicySpec(fancy_retry_policy=True, max_retry_count=9),
    ],
)
def test_no_attempt_follows_the_active_deadline(running_world: NewWorld, policy: RetryPolicySpec) -> None:
    """The deadline covers all attempts: another one would have no time left."""
    world = running_world(role(tasks=1), active_deadline_seconds=100, retry_policy=policy)
    world.wait(100)
    done = world.finish()
    assert not any(isinstance(action, CreateConfigMap | CreatePod) for action in done)
    assert (world.state(), world.code()) == (State.COMPLETED, ACTIVE_TOO_LONG)


@pytest.mark.parametrize("held_for", [1, 5000])
def test_suspended_time_is_not_active_time(running_world: NewWorld, held_for: int) -> None:
    """60 of 100 seconds are used before the suspension; 40 are left after it."""
    world = running_world(role(tasks=1), active_deadline_seconds=100)
    world.wait(60)
    world.edit(suspend=True)
    world.finish()
    assert world.state() is State.ATTEMPT_CREATION_PENDING
    assert world.decide().wake_at is None
    world.wait(held_for)
    world.settle()
    assert world.code() is None
    world.edit(suspend=False)
    world.settle()
    world.run()
    world.settle()
    assert_ends_at(world, at(100 + held_for), ACTIVE_TOO_LONG)


def test_time_of_two_suspensions_is_not_active_time(running_world: NewWorld) -> None:
    world = running_world(role(tasks=1), active_deadline_seconds=100)
    for _ in range(2):
        world.wait(10)
        world.edit(suspend=True)
        world.finish()
        world.wait(300)
        world.edit(suspend=False)
        world.settle()
        world.run()
        world.settle()
    assert_ends_at(world, at(100 + 600), ACTIVE_TOO_LONG)


def test_time_before_the_start_is_not_active_time(new_world: NewWorld) -> None:
    """With Create, it has not started."""
    world = new_world(role(tasks=1), active_deadline_seconds=100, execution_type=ExecutionType.CREATE)
    world.settle()
    assert world.decide().wake_at is None
    world.wait(5000)
    world.settle()
    world.edit(execution_type=ExecutionType.START)
    world.settle()
    world.run()
    world.settle()
    assert_ends_at(world, at(5100), ACTIVE_TOO_LONG)


def test_retry_delay_is_active_time(running_world: NewWorld) -> None:
    """It ends at the deadline, without another attempt."""
    delayed = RetryPolicySpec(max_retry_count=9, retry_backoff=RetryBackoff(initial_sec=900, max_sec=900))
    world = running_world(role(tasks=1), active_deadline_seconds=100, retry_policy=delayed)
    world.end(0, 1)
    world.finish()
    assert world.state() is State.ATTEMPT_COMPLETED
    wake_at = world.decide().wake_at
    assert wake_at is not None
    world.now = max(wake_at, at(100))
    done = world.finish()
    assert not any(isinstance(action, CreatePod) for action in done)
    assert world.state() is State.COMPLETED


@pytest.mark.parametrize("exit_code", [0, 1])
def test_completed_framework_has_no_deadlines(running_world: NewWorld, exit_code: int) -> None:
    world = running_world(
        role(tasks=1),
        active_deadline_seconds=100,
        pending_deadline_seconds=10,
        completed_pods=CompletedPods.KEEP,
    )
    world.end(0, exit_code)
    world.finish()
    before = world.status
    world.wait(1000)
    world.settle()
    assert world.status == before


def test_deadline_does_not_end_an_ending_attempt(running_world: NewWorld) -> None:
    """Statements 15 and 16: the deadline passes while its pods go."""
    world = running_world(role(tasks=1), active_deadline_seconds=100)
    world.end(0, 0)
    world.settle()
    assert world.code() == 0
    world.wait(1000)
    world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, 0)


def test_wake_at_is_the_earlier_deadline(pending_world: NewWorld) -> None:
    world = pending_world(role(tasks=1), active_deadline_seconds=30, pending_deadline_seconds=60)
    assert_ends_at(world, at(30), ACTIVE_TOO_LONG)


@pytest.mark.parametrize("held_for", [0.4, 0.6, 1.5])
def test_short_suspensions_do_not_advance_the_deadline(running_world: NewWorld, held_for: float) -> None:
    """Five suspensions of less than two seconds, none of them whole; times are stored in whole seconds."""
    world = running_world(role(tasks=1), active_deadline_seconds=100)
    for _ in range(5):
        world.wait(1)
        world.edit(suspend=True)
        world.finish()
        world.wait(held_for)
        world.edit(suspend=False)
        world.settle()
    wake_at = world.decide().wake_at
    assert wake_at is not None
    assert wake_at > at(100 + 5 * held_for - 1)


def test_pending_deadline_restarts_after_a_suspension(running_world: NewWorld) -> None:
    """Its task statuses are older than its pending time."""
    world = running_world(role(tasks=1), pending_deadline_seconds=60)
    world.edit(suspend=True)
    world.finish()
    world.wait(1000)
    world.edit(suspend=False)
    world.settle()
    assert world.state() is State.ATTEMPT_PREPARING
    assert_ends_at(world, at(1060), PENDING_TOO_LONG)


def test_deadline_does_not_pass_while_suspended_pods_terminate(running_world: NewWorld) -> None:
    """60 of 100 seconds are used when it is suspended; the time in which its pods terminate does not count."""
    world = running_world(role(tasks=1), active_deadline_seconds=100)
    world.wait(60)
    world.edit(suspend=True)
    world.settle()
    world.wait(90)
    world.finish()
    assert (world.state(), world.code()) == (State.ATTEMPT_CREATION_PENDING, None)
    assert world.decide().wake_at is None


def test_running_task_does_not_extend_the_pending_deadline_of_another(pending_world: NewWorld) -> None:
    """The deadline of *one* task does not depend on others: the Framework starts to run meanwhile."""
    world = pending_world(role(tasks=1), pending_deadline_seconds=60)
    world.edit(role(tasks=2))
    world.step()
    world.postponed["job-worker-1"] = at(1000)
    world.wait(50)
    world.run(0)
    world.settle()
    assert world.state() is State.ATTEMPT_RUNNING
    assert_ends_at(world, at(60), PENDING_TOO_LONG)


def test_resumed_framework_waiting_for_its_name_wakes_at_its_deadline(
    running_world: NewWorld,
) -> None:
    """Core contract: wake_at is the earliest deadline, also where the decision asks for nothing else."""
    world = running_world(role(tasks=1), active_deadline_seconds=100)
    world.edit(suspend=True)
    world.finish()
    world.wait(500)
    world.settle()
    world.put_config_map(builders.config_map(world.framework, "their-cm", owner_uid="other-uid"))
    world.edit(suspend=False)
    decision = world.decide()
    assert (decision.actions, decision.wake_at) == ((), at(600))
