"""Deleted tasks do not count (statement 37)."""

import pytest
from builders import role
from tests.decide.object_world import NewWorld

from windlass.model.framework import TaskRoleSpec
from windlass.model.states import State
from windlass.model.status import Summary


@pytest.mark.parametrize("exit_code", [1, 137])
def test_failure_of_a_deleted_task_does_not_fail_the_attempt(running_world: NewWorld, exit_code: int) -> None:
    world = running_world(role(tasks=2, min_failed=1))
    world.edit(role(tasks=1, min_failed=1))
    world.settle()
    world.end(1, exit_code)
    world.finish()
    assert world.state() is State.ATTEMPT_RUNNING
    assert world.code() is None
    assert world.indices() == [0]


def test_success_of_a_deleted_task_does_not_complete_the_attempt(running_world: NewWorld) -> None:
    world = running_world(role(tasks=3, min_succeeded=1))
    world.edit(role(tasks=2, min_succeeded=1))
    world.settle()
    world.end(2, 0)
    world.finish()
    assert world.state() is State.ATTEMPT_RUNNING
    assert world.code() is None


def test_earlier_failure_of_a_deleted_task_does_not_count(running_world: NewWorld) -> None:
    world = running_world(role(tasks=3, min_failed=2))
    world.end(2, 1)
    world.settle()
    world.edit(role(tasks=2, min_failed=2))
    world.finish()
    world.end(1, 1)
    world.finish()
    assert world.state() is State.ATTEMPT_RUNNING, "one failure of those that count, and two are needed"
    world.end(0, 1)
    world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, 1)


@pytest.mark.parametrize(
    "smaller",
    [(role(tasks=1),), (role(tasks=1), role("ps", 0))],
    ids=["the role is deleted", "the role is scaled to zero"],
)
def test_attempt_does_not_wait_for_deleted_tasks(
    running_world: NewWorld, smaller: tuple[TaskRoleSpec, ...]
) -> None:
    """Statements 32 and 37: all tasks that count have completed. Those that went keep -230, and get no -220."""
    world = running_world(role(tasks=1), role("ps", 1))
    world.end(0, 0)
    world.settle()
    world.edit(*smaller)
    world.settle()
    assert world.code() == 0
    assert world.task_code(0, "ps") == -230
    assert world.state().is_ending
    world.finish()
    assert world.state() is State.COMPLETED
    assert world.pods == {}


def test_running_deleted_task_does_not_make_the_framework_run(pending_world: NewWorld) -> None:
    """Statements 12 and 37."""
    world = pending_world(role(tasks=2))
    world.edit(role(tasks=1))
    world.step()
    world.run(1)
    world.step()
    assert world.state() is State.ATTEMPT_PREPARING
    assert world.status.run_time is None
    world.run(0)
    world.step()
    assert world.state() is State.ATTEMPT_RUNNING


def test_framework_stays_running_when_its_running_tasks_are_deleted(pending_world: NewWorld) -> None:
    """Statement 12: never back."""
    world = pending_world(role(tasks=2))
    world.run(1)
    world.settle()
    assert world.state() is State.ATTEMPT_RUNNING
    world.edit(role(tasks=1))
    world.finish()
    assert world.state() is State.ATTEMPT_RUNNING


def test_summary_excludes_deleted_tasks(running_world: NewWorld) -> None:
    """A6 and statement 37."""
    world = running_world(role(tasks=5, min_failed=-1))
    world.end(3, 0)
    world.end(4, 1)
    world.settle()
    assert world.status.summary == Summary(tasks=5, running=3, succeeded=1, failed=1)
    world.edit(role(tasks=2, min_failed=-1))
    world.step()
    assert world.status.summary == Summary(tasks=2, running=2, succeeded=0, failed=0)


def test_deleted_task_has_no_pending_deadline(pending_world: NewWorld) -> None:
    """A4 and statement 37: the pending deadline does not apply to deleted tasks."""
    world = pending_world(role(tasks=2), pending_deadline_seconds=60)
    world.run(0)
    world.settle()
    world.edit(role(tasks=1), pending_deadline_seconds=60)
    world.settle()
    assert world.decide().wake_at is None
    world.wait(61)
    world.settle()
    assert world.code() is None


@pytest.mark.parametrize(("before", "after"), [(None, 5), (5, None), (5, 0), (5, 9)])
def test_graceful_timeout_follows_the_spec(
    running_world: NewWorld, before: int | None, after: int | None
) -> None:
    """Statement 39: copied into the role's status, by a decision of its own if need be."""
    world = running_world(role(tasks=1, graceful_timeout=before))
    assert world.role().pod_graceful_deletion_timeout_sec == before
    world.edit(role(tasks=1, graceful_timeout=after))
    assert world.step().actions == ()
    assert world.role().pod_graceful_deletion_timeout_sec == after


def test_completed_task_below_a_terminating_one_does_not_fail_the_attempt(running_world: NewWorld) -> None:
    world = running_world(role(tasks=3, min_failed=1))
    world.edit(role(tasks=1, min_failed=1))
    world.settle()
    world.vanish("job-worker-1")
    world.settle()
    assert world.task(1).state is State.COMPLETED
    assert world.indices() == [0, 1, 2]
    assert (world.state(), world.code()) == (State.ATTEMPT_RUNNING, None)


def test_attempt_waits_for_the_replacement_of_a_deleted_task(running_world: NewWorld) -> None:
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
