"""Deleted tasks that the spec contains again are replaced by new ones (statements 38 and 40)."""

import pytest
from builders import role
from tests.decide.object_world import NewWorld

from windlass.decide.types import Action, CreatePod
from windlass.model.states import State
from windlass.model.status import TaskStatus


def creations(actions: "tuple[Action, ...] | list[Action]") -> list[tuple[str, int]]:
    return sorted((action.role, action.index) for action in actions if isinstance(action, CreatePod))


def identities(tasks: tuple[TaskStatus, ...]) -> list[str | None]:
    return [task.instance_uid for task in tasks]


def test_deleted_task_in_the_spec_again_is_replaced_not_reused(running_world: NewWorld) -> None:
    """Statements 38 and 40: what a user has seen of a rescale is committed."""
    world = running_world(role(tasks=2))
    doomed = world.task(1)
    world.wait(1)
    world.edit(role(tasks=1))
    world.settle()
    world.edit(role(tasks=2))
    assert world.settle() == []
    assert world.task(1).instance_uid == doomed.instance_uid
    assert world.doomed() == [1]
    world.vanish()
    decision = world.step()
    assert creations(decision.actions) == [("worker", 1)]
    assert world.task(1).instance_uid not in (None, doomed.instance_uid)
    assert world.task(1).state is State.ATTEMPT_CREATION_PENDING
    assert world.task(1).attempt_status.id == 0
    assert world.task_code(1) is None
    assert world.doomed() == []


def test_deleted_task_in_the_middle_is_replaced_while_later_ones_terminate(running_world: NewWorld) -> None:
    """Statement 38: 4 → 1 → 2. Task 1 comes back as another; 2 and 3 go."""
    world = running_world(role(tasks=4))
    old = world.task(1)
    world.wait(1)
    world.edit(role(tasks=1))
    world.settle()
    world.edit(role(tasks=2))
    world.settle()
    world.vanish("job-worker-1")
    assert creations(world.settle()) == [("worker", 1)]
    assert world.task(1).instance_uid != old.instance_uid
    assert world.indices() == [0, 1, 2, 3]
    assert world.doomed() == [2, 3]
    world.finish()
    assert world.indices() == [0, 1]
    assert world.doomed() == []


@pytest.mark.parametrize("pause", [1, 0], ids=["seconds later", "within one instant"])
def test_replaced_task_is_a_new_instance(running_world: NewWorld, pause: int) -> None:
    """Statements 4 and 38, over the whole way: zero tasks, then two again. An identity is fresh on any clock."""
    world = running_world(role(tasks=2), role("ps", 1))
    seen = set(identities(world.role().task_statuses))
    for _ in range(3):
        world.edit(role(tasks=0), role("ps", 1))
        world.finish()
        assert world.roles() == ["worker", "ps"], "the spec still has the role"
        assert world.indices() == []
        assert world.state() is State.ATTEMPT_RUNNING
        world.wait(pause)
        world.edit(role(tasks=2), role("ps", 1))
        assert creations(world.settle()) == [("worker", 0), ("worker", 1)]
        fresh = set(identities(world.role().task_statuses))
        assert not fresh & seen
        seen |= fresh


def test_framework_scaled_to_nothing_waits(running_world: NewWorld) -> None:
    """Statement 17."""
    world = running_world(role(tasks=2))
    world.edit(role(tasks=0))
    world.finish()
    assert world.indices() == []
    assert world.state() is State.ATTEMPT_RUNNING
    assert world.code() is None
    assert world.decide().wake_at is None


def test_reverted_edit_that_was_not_observed_changes_nothing(running_world: NewWorld) -> None:
    """Statement 40: only what was stored is committed."""
    world = running_world(role(tasks=2))
    before = world.status
    world.edit(role(tasks=1))
    world.decide()
    world.edit(role(tasks=2))
    assert world.step().actions == ()
    assert world.status == before


def test_completed_task_in_the_spec_again_waits_for_its_pod_name(running_world: NewWorld) -> None:
    """Statements 38 and 40, A1: the ended pod of the old instance goes before the new one's is created."""
    world = running_world(role(tasks=3, min_failed=-1))
    world.end(1, 0)
    world.settle()
    old = world.task(1)
    world.edit(role(tasks=1, min_failed=-1))
    world.settle()
    world.edit(role(tasks=2, min_failed=-1))
    done = world.settle()
    assert world.task(1).instance_uid != old.instance_uid, "it had completed and was doomed"
    assert creations(done) == [], "its name is not free"
    assert world.pod(1).is_deleting
    world.vanish("job-worker-1")
    assert creations(world.settle()) == [("worker", 1)]
