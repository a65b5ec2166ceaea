"""Suspended time (A3, A4) does not count for activeDeadlineSeconds."""

import pytest
from builders import framework, role
from tests.decide.worlds import World

from windlass.model.framework import ExecutionType
from windlass.model.states import State

WAITING = State.ATTEMPT_CREATION_PENDING


def suspend(world: World) -> None:
    world.edit(suspend=True)
    world.settle()


def resume(world: World) -> None:
    world.edit(suspend=False)
    world.start()


def test_suspended_time_is_not_counted() -> None:
    """A4: activeDeadlineSeconds covers all attempts, and pauses while the Framework is suspended."""
    world = World(framework("job", role(), active_deadline_seconds=100))
    world.start()
    world.advance(50)
    suspend(world)
    world.advance(1000)
    world.settle()
    assert world.state is WAITING
    resume(world)
    world.advance(49)
    world.settle()
    assert (world.state, world.code) == (State.ATTEMPT_RUNNING, None)
    world.advance(1)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -250)


def test_deadline_does_not_pass_while_a_suspended_attempt_is_deleted() -> None:
    """A4: the time in which its pods terminate is suspended time."""
    world = World(framework("job", role(), active_deadline_seconds=100))
    world.start()
    world.completes_deletions = False
    world.advance(95)
    suspend(world)
    world.advance(30)
    world.completes_deletions = True
    world.finish_deletions()
    world.settle()
    assert (world.state, world.status.attempt_status.id, world.code) == (WAITING, 1, None)
    resume(world)
    world.advance(4)
    world.settle()
    assert (world.state, world.code) == (State.ATTEMPT_RUNNING, None)


def test_suspensions_add_up() -> None:
    """A4: no suspension counts."""
    world = World(framework("job", role(), active_deadline_seconds=100))
    world.start()
    for _ in range(3):
        world.advance(30)
        suspend(world)
        world.advance(500)
        resume(world)
    world.advance(9)
    world.settle()
    assert (world.state, world.code) == (State.ATTEMPT_RUNNING, None)
    world.advance(1)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -250)


@pytest.mark.parametrize("held_by", ["suspend", "Create"])
def test_time_before_the_first_start_is_not_counted(held_by: str) -> None:
    """A4: neither when suspended from the beginning nor when held by Create."""
    world = World(
        framework(
            "job",
            role(),
            active_deadline_seconds=100,
            suspend=held_by == "suspend",
            execution_type=ExecutionType.CREATE if held_by == "Create" else ExecutionType.START,
        )
    )
    world.settle()
    world.advance(1000)
    world.settle()
    assert (world.state, world.code) == (WAITING, None)
    world.edit(suspend=False, execution_type=ExecutionType.START)
    world.start()
    world.advance(99)
    world.settle()
    assert (world.state, world.code) == (State.ATTEMPT_RUNNING, None)
    world.advance(1)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -250)
