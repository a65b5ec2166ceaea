"""Shortcuts through the states (statement 11): objects that are terminating, deleted, or never created."""

from collections.abc import Callable

import pytest
from builders import at, framework, role
from tests.decide.worlds import World, slow

from windlass.decide.types import CreatePod
from windlass.model.framework import ExecutionType
from windlass.model.states import State

PENDING = State.ATTEMPT_CREATION_PENDING
REQUESTED = State.ATTEMPT_CREATION_REQUESTED
PREPARING = State.ATTEMPT_PREPARING
RUNNING = State.ATTEMPT_RUNNING
DELETION_PENDING = State.ATTEMPT_DELETION_PENDING
DELETION_REQUESTED = State.ATTEMPT_DELETION_REQUESTED
DELETING = State.ATTEMPT_DELETING
COMPLETED = State.COMPLETED


def to_requested(world: World) -> None:
    world.settle()


def to_preparing(world: World) -> None:
    world.settle()
    world.confirm()
    world.settle()


def to_task_requested(world: World) -> None:
    to_preparing(world)


def to_task_preparing(world: World) -> None:
    to_preparing(world)
    world.confirm()
    world.settle()


def to_running(world: World) -> None:
    to_task_preparing(world)
    world.run_pods()
    world.settle()


def to_deletion_pending(world: World) -> None:
    """The attempt has failed, and the pod of the other task still exists: its ConfigMap cannot be deleted yet."""
    to_running(world)
    world.fail(index=0)
    world.step()


def to_deletion_requested(world: World) -> None:
    to_deletion_pending(world)
    world.settle()
    world.finish_deletions()
    world.settle()


def to_task_deletion_requested(world: World) -> None:
    to_deletion_pending(world)
    world.settle()


FRAMEWORK_WAYS = [
    pytest.param(to_requested, REQUESTED, id="requested"),
    pytest.param(to_preparing, PREPARING, id="preparing"),
    pytest.param(to_running, RUNNING, id="running"),
    pytest.param(to_deletion_pending, DELETION_PENDING, id="deletion-pending"),
    pytest.param(to_deletion_requested, DELETION_REQUESTED, id="deletion-requested"),
]
TASK_WAYS = [
    pytest.param(to_task_requested, REQUESTED, id="requested"),
    pytest.param(to_task_preparing, PREPARING, id="preparing"),
    pytest.param(to_running, RUNNING, id="running"),
    pytest.param(to_deletion_pending, DELETION_PENDING, id="deletion-pending"),
    pytest.param(to_task_deletion_requested, DELETION_REQUESTED, id="deletion-requested"),
]


@pytest.mark.parametrize(("way", "state"), FRAMEWORK_WAYS)
def test_terminating_config_map_ends_the_attempt(way: Callable[[World], None], state: State) -> None:
    """Statement 11: every state with an object → AttemptDeleting."""
    world = slow(World(framework("job", role(tasks=2))))
    way(world)
    assert world.state is state
    world.show_config_map_deleting()
    world.settle()
    assert world.state is DELETING
    assert world.code == (-100 if state.is_active else 1)


@pytest.mark.parametrize(("way", "state"), FRAMEWORK_WAYS)
def test_deleted_config_map_completes_the_attempt(way: Callable[[World], None], state: State) -> None:
    """Statement 11: every state with an object → AttemptCompleted; and no retry is wanted here, so Completed."""
    world = slow(World(framework("job", role(tasks=2))))
    way(world)
    assert world.state is state
    world.remove_config_map(and_pods=True)
    world.settle()
    assert (world.state, world.code) == (COMPLETED, -100 if state.is_active else 1)
    assert DELETING not in world.states()


@pytest.mark.parametrize(("way", "state"), TASK_WAYS)
def test_terminating_pod_ends_the_task_attempt(way: Callable[[World], None], state: State) -> None:
    """Statement 11: every state with an object → AttemptDeleting."""
    world = slow(World(framework("job", role(tasks=2))))
    way(world)
    assert world.task(index=1).state is state
    world.show_pod_deleting(index=1)
    world.settle()
    assert world.task(index=1).state is DELETING


@pytest.mark.parametrize(("way", "state"), TASK_WAYS)
def test_deleted_pod_completes_the_task_attempt(way: Callable[[World], None], state: State) -> None:
    """Statement 11: every state with an object → AttemptCompleted, without AttemptDeleting in between."""
    world = slow(World(framework("job", role(tasks=2))))
    way(world)
    assert world.task(index=1).state is state
    world.remove_pod(index=1)
    world.settle()
    assert world.task(index=1).state is COMPLETED
    assert DELETING not in world.task_states(index=1)


def test_framework_that_ends_before_it_has_a_config_map() -> None:
    """Statement 11: CreationPending → AttemptCompleted, and no object is ever made."""
    world = World(framework("job", role(), execution_type=ExecutionType.CREATE))
    world.settle()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert (world.state, world.code) == (COMPLETED, -210)
    assert world.actions == ()


def test_task_that_ends_before_it_has_a_pod() -> None:
    """Statement 11: CreationPending → AttemptCompleted, for a task whose pod was never made."""
    world = World(framework("job", role(tasks=2)))
    world.postponed["job-worker-1"] = at(3600)
    world.start()
    assert world.task(index=1).state is PENDING
    world.fail(index=0)
    world.settle()
    assert (world.task(index=1).state, world.task_code(index=1)) == (COMPLETED, -220)
    assert CreatePod("worker", 1) not in world.actions
