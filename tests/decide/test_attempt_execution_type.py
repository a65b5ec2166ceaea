"""Create waits, Start runs, Stop ends (statements 28 and 35)."""

from collections.abc import Callable

import pytest
from builders import role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import Action, CreateConfigMap, CreatePod, DeleteAttemptPods
from windlass.model.framework import ExecutionType, RetryBackoff, RetryPolicySpec
from windlass.model.states import State

STOPPED, ATTEMPT_OVER = -210, -220


def creations(actions: "list[Action]") -> "list[Action]":
    return [action for action in actions if isinstance(action, CreateConfigMap | CreatePod)]


@pytest.fixture
def held_world(new_world: NewWorld) -> ObjectWorld:
    world = new_world(role(tasks=2), role("ps", 1), execution_type=ExecutionType.CREATE)
    assert world.settle() == []
    return world


def test_create_waits_with_all_task_statuses(held_world: ObjectWorld) -> None:
    """Statement 35."""
    world = held_world
    assert world.state() is State.ATTEMPT_CREATION_PENDING
    assert {name: world.indices(name) for name in world.roles()} == {"worker": [0, 1], "ps": [0]}
    tasks = [*world.role("worker").task_statuses, *world.role("ps").task_statuses]
    assert {task.state for task in tasks} == {State.ATTEMPT_CREATION_PENDING}
    assert all(task.instance_uid for task in tasks)
    assert world.status.summary.tasks == 3
    decision = world.decide()
    assert (decision.actions, decision.wake_at) == ((), None)


def test_waiting_framework_starts(held_world: ObjectWorld) -> None:
    """The tasks of the status are the tasks that run."""
    world = held_world
    shown = [task.instance_uid for task in world.role().task_statuses]
    world.wait(100)
    world.edit(execution_type=ExecutionType.START)
    assert world.step().actions == (CreateConfigMap(),)
    world.settle()
    assert world.state() is State.ATTEMPT_PREPARING
    assert [task.instance_uid for task in world.role().task_statuses] == shown
    assert world.status.attempt_status.id == 0


def test_create_after_start_has_no_effect(running_world: NewWorld) -> None:
    """Statement 35: Start → Create is not among the changes; what runs goes on."""
    world = running_world(role(tasks=1))
    before = world.status
    world.edit(execution_type=ExecutionType.CREATE)
    assert world.settle() == []
    assert (world.state(), world.code()) == (State.ATTEMPT_RUNNING, None)
    assert world.status.attempt_status == before.attempt_status


# Stop, before there is anything


def _fresh(world: ObjectWorld) -> None:
    """No status at all."""


def _stored(world: ObjectWorld) -> None:
    world.step()


def _held(world: ObjectWorld) -> None:
    world.edit(execution_type=ExecutionType.CREATE)
    world.settle()


def _suspended(world: ObjectWorld) -> None:
    world.edit(suspend=True)
    world.settle()


def _name_taken(world: ObjectWorld) -> None:
    world.step()
    world.name_taken_message = "another object has this name"
    world.postponed["job-attempt"] = world.now
    world.step()


@pytest.mark.parametrize("reach", [_fresh, _stored, _held, _suspended, _name_taken])
def test_stop_before_the_config_map_exists(
    new_world: NewWorld, reach: "Callable[[ObjectWorld], None]"
) -> None:
    """AttemptCreationPending → AttemptCompleted → Completed, and nothing is created for it."""
    world = new_world(role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=-2))
    reach(world)
    world.edit(execution_type=ExecutionType.STOP)
    assert world.settle() == []
    assert (world.state(), world.code()) == (State.COMPLETED, STOPPED)
    assert world.status.completion_time == world.now
    assert world.status.attempt_status.id == 0
    assert [world.task(index).state for index in (0, 1)] == [State.COMPLETED] * 2
    assert [world.task_code(index) for index in (0, 1)] == [ATTEMPT_OVER] * 2


# Stop, while there is


def _requested(world: ObjectWorld) -> None:
    world.act(world.step().actions)
    world.step()
    assert world.state() is State.ATTEMPT_CREATION_REQUESTED


def _preparing(world: ObjectWorld) -> None:
    world.settle()
    assert world.state() is State.ATTEMPT_PREPARING


def _running(world: ObjectWorld) -> None:
    world.settle()
    world.run()
    world.settle()
    assert world.state() is State.ATTEMPT_RUNNING


@pytest.mark.parametrize("reach", [_requested, _preparing, _running])
def test_stop_ends_the_attempt(new_world: NewWorld, reach: "Callable[[ObjectWorld], None]") -> None:
    """-210, its tasks -220 (statement 33), and no retry (statement 24) whatever the policy.

    A ConfigMap that was created and has not been shown is waited for (statements 11 and 43); no pod is made for it.
    """
    world = new_world(role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=-2))
    reach(world)
    world.edit(execution_type=ExecutionType.STOP)
    assert creations(list(world.step().actions)) == []
    world.show()
    world.step()
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETION_PENDING, STOPPED)
    done = world.finish()
    assert creations(done) == []
    assert (world.state(), world.code()) == (State.COMPLETED, STOPPED)
    assert [world.task_code(index) for index in (0, 1)] == [ATTEMPT_OVER] * 2
    assert (world.pods, world.config_map) == ({}, None)


def test_stop_after_a_creation_without_a_response(running_world: NewWorld) -> None:
    """Statements 17 and 33: a Completed Framework has only Completed tasks.

    The pod's creation was not answered, the watch showed the pod all the same, and its attempt is over. Of the
    next attempt nothing exists, not even a ConfigMap, so that there is nothing to be uncertain about.
    """
    world = running_world(role(tasks=2))
    world.uncertain.add("job-worker-1")
    world.edit(suspend=True)
    world.finish()
    assert (world.state(), world.status.attempt_status.id) == (State.ATTEMPT_CREATION_PENDING, 1)
    world.edit(execution_type=ExecutionType.STOP)
    world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, STOPPED)
    assert [world.task(index).state for index in (0, 1)] == [State.COMPLETED] * 2
    assert [world.task_code(index) for index in (0, 1)] == [ATTEMPT_OVER] * 2


def test_stop_keeps_completed_tasks(running_world: NewWorld) -> None:
    """Statement 16."""
    world = running_world(role(tasks=2))
    world.end(0, 0)
    world.settle()
    world.edit(execution_type=ExecutionType.STOP)
    world.finish()
    assert [world.task_code(index) for index in (0, 1)] == [0, ATTEMPT_OVER]
    assert world.code() == STOPPED


def _deletion_pending(world: ObjectWorld) -> None:
    world.end(0, 7)
    world.step()
    assert world.state() is State.ATTEMPT_DELETION_PENDING


def _deletion_requested(world: ObjectWorld) -> None:
    _deletion_pending(world)
    world.act([DeleteAttemptPods(world.config_map_uid)])
    world.vanish()
    world.step()
    world.deletion_requested.add(world.config_map_uid)
    world.step()
    assert world.state() is State.ATTEMPT_DELETION_REQUESTED


def _deleting(world: ObjectWorld) -> None:
    _deletion_requested(world)
    world.begin_config_map_deletion()
    world.step()
    assert world.state() is State.ATTEMPT_DELETING


@pytest.mark.parametrize("reach", [_deletion_pending, _deletion_requested, _deleting])
def test_stop_of_an_ending_attempt_changes_nothing(
    running_world: NewWorld, reach: "Callable[[ObjectWorld], None]"
) -> None:
    """Statement 16: it ends as it was going to."""
    world = running_world(role(tasks=2))
    reach(world)
    world.edit(execution_type=ExecutionType.STOP)
    world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, 7)


@pytest.mark.parametrize("reach", [_deletion_pending, _deletion_requested, _deleting])
def test_stop_prevents_a_retry(running_world: NewWorld, reach: "Callable[[ObjectWorld], None]") -> None:
    """Statement 28: at most an attempt that ends with -210 before anything is created for it."""
    world = running_world(role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=-2))
    reach(world)
    world.edit(execution_type=ExecutionType.STOP)
    assert creations(world.finish()) == []
    assert (world.state(), world.code()) == (State.COMPLETED, STOPPED)
    assert (world.pods, world.config_map) == ({}, None)


def test_stop_during_the_retry_delay(running_world: NewWorld) -> None:
    """Statement 28: the retry is made at once, and that attempt ends with -210."""
    delayed = RetryPolicySpec(max_retry_count=5, retry_backoff=RetryBackoff(initial_sec=100, max_sec=100))
    world = running_world(role(tasks=1), retry_policy=delayed)
    world.end(0, 1)
    world.finish()
    assert world.state() is State.ATTEMPT_COMPLETED
    assert world.status.retry_policy_status.retry_delay_sec is not None
    world.edit(execution_type=ExecutionType.STOP)
    assert world.settle() == []
    assert (world.state(), world.code()) == (State.COMPLETED, STOPPED)
    assert world.status.attempt_status.id == 1
    assert world.status.retry_policy_status.total_retried_count == 1
    assert world.status.retry_policy_status.retry_delay_sec is None


@pytest.mark.parametrize("exit_code", [0, 1])
def test_stop_of_a_completed_framework_changes_nothing(running_world: NewWorld, exit_code: int) -> None:
    world = running_world(role(tasks=1))
    world.end(0, exit_code)
    world.finish()
    before = world.status
    world.edit(execution_type=ExecutionType.STOP)
    world.wait(5)
    assert world.settle() == []
    assert world.status == before


@pytest.mark.parametrize("execution_type", [ExecutionType.START, ExecutionType.CREATE])
def test_stop_is_permanent(running_world: NewWorld, execution_type: ExecutionType) -> None:
    """Statement 35: no change leads back from Stop."""
    world = running_world(role(tasks=1), retry_policy=RetryPolicySpec(max_retry_count=-2))
    world.edit(execution_type=ExecutionType.STOP)
    world.step()
    world.edit(execution_type=execution_type)
    done = world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, STOPPED)
    assert creations(done) == []
