"""Tasks removed by a scale-down stay in the status for a while and are not counted (statements 37 and 38)."""

from typing import TYPE_CHECKING

from builders import role

from windlass.model.states import State

if TYPE_CHECKING:
    from tests.decide.objects.conftest import NewWorld


def test_completed_task_below_a_terminating_one_does_not_fail_the_attempt(running_world: "NewWorld") -> None:
    world = running_world(role(tasks=3, min_failed=1))
    world.edit(role(tasks=1, min_failed=1))
    world.settle()
    world.vanish("job-worker-1")
    world.settle()
    assert world.task(1).state is State.COMPLETED
    assert world.indices() == [0, 1, 2]
    assert (world.state(), world.code()) == (State.ATTEMPT_RUNNING, None)


def test_attempt_waits_for_the_replacement_of_a_deleted_task(running_world: "NewWorld") -> None:
    world = running_world(role(tasks=2))
    world.edit(role(tasks=1))
    world.settle()
    world.edit(role(tasks=2))
    world.end(0, 0)
    world.settle()
    assert (world.state(), world.code()) == (State.ATTEMPT_RUNNING, None)
    world.vanish()
    world.settle()
    world.run(1)
    world.end(1, 0)
    world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, 0)
