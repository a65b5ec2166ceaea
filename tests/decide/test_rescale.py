"""Rescaling a running Framework: tasks added, deleted and dropped (statements 36, 38, 40)."""

import pytest
from builders import role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import Action, CreateConfigMap, CreatePod, DeletePod, RelistObjects
from windlass.model.framework import ExecutionType, RetryBackoff, RetryPolicySpec
from windlass.model.states import State
from windlass.model.status import TaskStatus

DELETE_TASK_REQUESTED = -230


def creations(actions: "tuple[Action, ...] | list[Action]") -> list[tuple[str, int]]:
    return sorted((action.role, action.index) for action in actions if isinstance(action, CreatePod))


def deletions(actions: "tuple[Action, ...] | list[Action]") -> list[tuple[str, str, bool]]:
    found = (action for action in actions if isinstance(action, DeletePod))
    return sorted((action.name, action.uid, action.force) for action in found)


def identities(tasks: tuple[TaskStatus, ...]) -> list[str | None]:
    return [task.instance_uid for task in tasks]


# Up


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 5), (0, 1)])
def test_new_tasks_are_stored_by_the_decision_that_creates_their_pods(
    new_world: NewWorld, before: int, after: int
) -> None:
    """Statement 36: tasks are added in AttemptCreationPending; a decision's status is stored before it acts."""
    world = new_world(role(tasks=before))
    world.settle()
    old = world.role().task_statuses
    world.edit(role(tasks=after))
    decision = world.step()
    assert creations(decision.actions) == [("worker", index) for index in range(before, after)]
    assert len(decision.actions) == after - before
    assert world.indices() == list(range(after))
    assert world.role().task_statuses[:before] == old
    for task in world.role().task_statuses[before:]:
        assert task.state is State.ATTEMPT_CREATION_PENDING
        assert not task.deletion_pending
        assert task.start_time == task.transition_time == world.now
        assert task.attempt_status.pod_name == f"job-worker-{task.index}"
        assert task.attempt_status.pod_uid is None
    assert len(set(identities(world.role().task_statuses))) == after


def test_new_tasks_of_an_attempt_without_its_config_map_have_no_pods_yet(new_world: NewWorld) -> None:
    """Statement 36: the task is stored; its pod has to wait for its owner."""
    world = new_world(role(tasks=1))
    world.step()
    world.edit(role(tasks=2))
    decision = world.step()
    assert decision.actions == (CreateConfigMap(),)
    assert world.indices() == [0, 1]


def test_added_role_gets_its_tasks(running_world: NewWorld) -> None:
    """Statement 36: a role that appears in the spec is a role that is scaled up from nothing."""
    world = running_world(role(tasks=1))
    old = world.role()
    world.edit(role(tasks=1), role("ps", 2))
    decision = world.step()
    assert world.roles() == ["worker", "ps"]
    assert world.role() == old
    assert world.role("ps").instance_uid not in (None, "", old.instance_uid)
    assert creations(decision.actions) == [("ps", 0), ("ps", 1)]
    assert world.status.summary.tasks == 3


def test_role_added_before_another_keeps_the_order_of_the_status(running_world: NewWorld) -> None:
    """Statement 40: the order of the roles in the spec is of no matter to those that run."""
    world = running_world(role(tasks=2))
    old = world.role()
    world.edit(role("chief", 1), role(tasks=2))
    assert creations(world.step().actions) == [("chief", 0)]
    assert world.role() == old
    assert world.state() is State.ATTEMPT_RUNNING


# Down


@pytest.mark.parametrize(
    ("before", "after", "doomed"), [(4, 3, [3]), (4, 2, [2, 3]), (2, 0, [0, 1]), (1, 0, [0])]
)
def test_scale_down_deletes_highest_indexes_first(
    running_world: NewWorld, before: int, after: int, doomed: list[int]
) -> None:
    """Statements 36 and 41: marked with -230 and deleted by UID, by one decision, so stored before any delete."""
    world = running_world(role(tasks=before))
    world.edit(role(tasks=after))
    kept = world.role().task_statuses[:after]
    decision = world.step()
    assert world.doomed() == doomed
    assert deletions(decision.actions) == [
        (f"job-worker-{index}", world.pod(index).uid, False) for index in doomed
    ]
    assert len(decision.actions) == len(doomed)
    for index in doomed:
        assert world.task(index).state is State.ATTEMPT_DELETION_PENDING
        assert world.task_code(index) == DELETE_TASK_REQUESTED
    assert world.role().task_statuses[:after] == kept


def test_deleted_task_ends_before_it_is_dropped(running_world: NewWorld) -> None:
    """Statements 10 and 38: Pending, Requested, Deleting, then dropped from the tail."""
    world = running_world(role(tasks=2))
    world.edit(role(tasks=1))
    uid = world.pod(1).uid
    world.step()
    assert world.task(1).state is State.ATTEMPT_DELETION_PENDING
    world.deletion_requested.add(uid)
    assert world.step().actions == ()
    assert world.task(1).state is State.ATTEMPT_DELETION_REQUESTED
    world.begin_deletion("job-worker-1")
    assert world.step().actions == ()
    assert world.task(1).state is State.ATTEMPT_DELETING
    world.vanish()
    assert world.step().actions == ()
    assert world.indices() == [0]
    assert world.state() is State.ATTEMPT_RUNNING


@pytest.mark.parametrize(
    ("gone", "left"),
    [((), [0, 1, 2, 3]), ((2,), [0, 1, 2, 3]), ((3,), [0, 1, 2]), ((2, 3), [0, 1])],
    ids=["none", "not the tail", "the tail", "both"],
)
def test_completed_deleted_tasks_are_dropped_from_the_end_only(
    running_world: NewWorld, gone: tuple[int, ...], left: list[int]
) -> None:
    """Statement 38: an index never moves."""
    world = running_world(role(tasks=4))
    world.edit(role(tasks=2))
    world.settle()
    for index in gone:
        world.vanish(f"job-worker-{index}")
    world.settle()
    assert world.indices() == left


def test_deleted_task_without_a_pod_is_dropped_at_once(pending_world: NewWorld) -> None:
    """Statement 38. There is nothing to wait for: its pod could not be created for want of quota."""
    world = pending_world(role(tasks=1))
    world.edit(role(tasks=2))
    world.step()
    world.postponed["job-worker-1"] = world.now
    world.edit(role(tasks=1))
    assert world.settle() == []
    assert world.indices() == [0]


def test_deleted_task_with_an_uncertain_pod_is_listed_first(pending_world: NewWorld) -> None:
    """Statement 40: a task is deleted only when it is known that none of its pods runs."""
    world = pending_world(role(tasks=1))
    world.edit(role(tasks=2))
    world.step()
    task = world.task(1)
    world.uncertain.add("job-worker-1")
    world.edit(role(tasks=1))
    decision = world.step()
    assert RelistObjects() in decision.actions
    assert world.indices() == [0, 1]
    # It was created all the same.
    world.edit(role(tasks=2))
    world._create_pod("worker", 1)
    world.edit(role(tasks=1))
    world.created.clear()
    world.uncertain.clear()
    world.show()
    assert world.pod(1).metadata.annotations.task_uid == task.instance_uid
    assert [(name, uid) for name, uid, _ in deletions(world.step().actions)] == [
        ("job-worker-1", world.pod(1).uid)
    ]
    world.finish()
    assert world.indices() == [0]
    assert sorted(world.pods) == ["job-worker-0"]


def test_pod_that_appears_after_its_task_was_dropped_is_deleted(pending_world: NewWorld) -> None:
    """Statements 40 and 44: a pod of ours that no task asks for."""
    world = pending_world(role(tasks=1))
    world.edit(role(tasks=2))
    world.step()
    world._create_pod("worker", 1)
    late = world.pods.pop("job-worker-1")
    world.created.clear()
    world.known.discard(late.uid)
    world.show()
    world.edit(role(tasks=1))
    world.settle()
    assert world.indices() == [0]
    world.put(late)
    assert deletions(world.step().actions) == [("job-worker-1", late.uid, False)]


@pytest.mark.parametrize("exit_code", [0, 1])
def test_completed_deleted_task_keeps_its_completion(running_world: NewWorld, exit_code: int) -> None:
    """Statement 38: at the tail there is nothing to wait for, so it goes at once, and its ended pod with it (A1).

    Statement 16: where it is not at the tail it stays, and its completionStatus does not change.
    """
    world = running_world(role(tasks=4, min_failed=-1))
    world.end(1, exit_code)
    world.end(3, exit_code)
    world.settle()
    assert [world.task(index).state for index in (1, 3)] == [State.COMPLETED] * 2
    uids = [world.pod(index).uid for index in (1, 2, 3)]
    world.edit(role(tasks=1, min_failed=-1))
    decision = world.step()
    assert world.indices() == [0, 1, 2]
    assert world.doomed() == [1, 2]
    assert [world.task_code(index) for index in (1, 2)] == [exit_code, DELETE_TASK_REQUESTED]
    assert set(uids[1:]) <= {uid for _, uid, _ in deletions(decision.actions)}
    world.act(decision.actions)
    done = [*decision.actions, *world.finish()]
    assert [uid for _, uid, _ in deletions(done)] == uids, "each once"
    assert world.indices() == [0]
    assert sorted(world.pods) == ["job-worker-0"]


def test_deleted_task_is_not_retried(running_world: NewWorld) -> None:
    """Statements 24 and 37: neither a retry policy of -2 nor a retry that is due brings it back."""
    always = RetryPolicySpec(max_retry_count=-2, retry_backoff=RetryBackoff(initial_sec=50, max_sec=50))
    world = running_world(role(tasks=2, retry=always))
    world.end(1, 1)
    world.settle()
    assert world.task(1).state is State.ATTEMPT_COMPLETED
    world.edit(role(tasks=1, retry=always))
    world.finish()
    world.wait(1000)
    assert creations(world.finish()) == []
    assert world.indices() == [0]


def test_deleted_role_is_dropped_when_empty(running_world: NewWorld) -> None:
    """Statements 36 and 38: as if scaled to zero, and its status is gone with its last task."""
    world = running_world(role(tasks=2), role("ps", 2))
    world.edit(role(tasks=2))
    decision = world.step()
    assert world.doomed("ps") == [0, 1]
    assert [world.task_code(index, "ps") for index in (0, 1)] == [DELETE_TASK_REQUESTED] * 2
    assert [name for name, _, _ in deletions(decision.actions)] == ["job-ps-0", "job-ps-1"]
    world.settle()
    world.vanish("job-ps-1")
    world.settle()
    assert world.roles() == ["worker", "ps"]
    world.vanish("job-ps-0")
    world.settle()
    assert world.roles() == ["worker"]
    assert world.state() is State.ATTEMPT_RUNNING


def test_deleted_role_without_tasks_is_dropped_at_once(running_world: NewWorld) -> None:
    world = running_world(role(tasks=1), role("ps", 0))
    assert world.roles() == ["worker", "ps"]
    world.edit(role(tasks=1))
    assert world.step().actions == ()
    assert world.roles() == ["worker"]


# When


def test_rescale_together_with_other_edits(running_world: NewWorld) -> None:
    """Statement 40: one update scales, adds, deletes, and changes a template and a timeout."""
    world = running_world(role(tasks=3), role("ps", 1))
    kept = world.role().task_statuses[:1]
    world.edit(
        role(tasks=1, graceful_timeout=7, pod={"spec": {"containers": []}}, min_succeeded=1),
        role("evaluator", 1),
        description="smaller",
    )
    decision = world.step()
    assert world.role().pod_graceful_deletion_timeout_sec == 7
    assert world.role().task_statuses[:1] == kept
    assert (world.doomed(), world.doomed("ps")) == ([1, 2], [0])
    assert creations(decision.actions) == [("evaluator", 0)]
    assert [name for name, _, _ in deletions(decision.actions)] == [
        "job-ps-0",
        "job-worker-1",
        "job-worker-2",
    ]
    world.finish()
    assert {name: world.indices(name) for name in world.roles()} == {"worker": [0], "evaluator": [0]}


def _ending(world: ObjectWorld) -> None:
    world.end(0, 1)
    world.step()


def _completed(world: ObjectWorld) -> None:
    world.end(0, 1)
    world.finish()


@pytest.mark.parametrize("reach", [_ending, _completed], ids=["deletion pending", "completed"])
def test_ending_attempt_is_not_rescaled(running_world: NewWorld, reach: "object") -> None:
    """Statement 15."""
    assert callable(reach)
    world = running_world(role(tasks=2))
    reach(world)
    before = world.role()
    for tasks in (1, 4):
        world.edit(role(tasks=tasks))
        world.step()
        assert world.role() == before


def test_next_attempt_has_the_tasks_of_the_current_spec(running_world: NewWorld) -> None:
    """Statements 15 and 29: what was not taken up while the attempt ended is in the next one."""
    world = running_world(role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=1))
    seen = set(identities(world.role().task_statuses))
    world.end(0, 1)
    world.step()
    world.edit(role(tasks=3), role("ps", 1))
    world.finish()
    assert world.status.attempt_status.id == 1
    assert {name: world.indices(name) for name in world.roles()} == {"worker": [0, 1, 2], "ps": [0]}
    assert not seen & set(identities(world.role().task_statuses))


@pytest.mark.parametrize("tasks", [0, 1, 3])
def test_waiting_framework_has_the_tasks_of_its_spec(new_world: NewWorld, tasks: int) -> None:
    """Statements 35 and 36: all task statuses are present, whatever the spec has become."""
    world = new_world(role(tasks=2), execution_type=ExecutionType.CREATE)
    world.settle()
    world.edit(role(tasks=tasks))
    assert world.settle() == []
    assert world.indices() == list(range(tasks))
    assert world.status.summary.tasks == tasks
