"""Deletion of pods, ConfigMaps and attempts (statements 41 and 42, with two requests)."""

from collections.abc import Callable

import msgspec
import pytest
from builders import at, role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import (
    Action,
    CreatePod,
    DeleteAttemptPods,
    DeleteConfigMap,
    DeletePod,
    RelistObjects,
)
from windlass.model.framework import CompletedPods, ExecutionType, RetryPolicySpec
from windlass.model.pods import ObjectLabels
from windlass.model.states import State


def removals(actions: "tuple[Action, ...] | list[Action]") -> list[Action]:
    return [
        action for action in actions if isinstance(action, DeleteAttemptPods | DeleteConfigMap | DeletePod)
    ]


def take_label(world: ObjectWorld, *names: str) -> None:
    """A pod without our label, as the reference creates it."""
    for name in names:
        pod = world.pods[name]
        labels = msgspec.structs.replace(pod.metadata.labels, attempt=ObjectLabels().attempt)
        metadata = msgspec.structs.replace(pod.metadata, labels=labels)
        world.pods[name] = msgspec.structs.replace(pod, metadata=metadata)


# By force


@pytest.mark.parametrize("grace", [0, 30, 3600])
@pytest.mark.parametrize(
    ("timeout", "waited", "is_forced"),
    [
        (100, 0, False),
        (100, 99.999, False),
        (100, 100, True),
        (100, 101, True),
        (0, 0, True),
        (None, 10**9, False),
    ],
)
def test_pod_that_keeps_terminating_is_force_deleted(
    running_world: NewWorld, timeout: int | None, waited: float, is_forced: bool, grace: int
) -> None:
    """Statement 42: counted from when its deletion began, which is deletionTimestamp less the grace."""
    world = running_world(role(tasks=2, graceful_timeout=timeout))
    uid = world.pod(1).uid
    world.begin_deletion("job-worker-1", grace)
    world.wait(waited)
    decision = world.step()
    forced = [action for action in decision.actions if isinstance(action, DeletePod) and action.force]
    assert forced == ([DeletePod("job-worker-1", uid, force=True)] if is_forced else [])
    assert world.task(1).state is State.ATTEMPT_DELETING
    if not is_forced:
        assert decision.wake_at == (None if timeout is None else at(timeout))


def test_force_deletion_is_requested_once(running_world: NewWorld) -> None:
    """Statement 42, core contract: with the outcome observed there is nothing left to do."""
    world = running_world(role(tasks=2, graceful_timeout=10))
    world.begin_deletion("job-worker-1")
    world.wait(10)
    uid = world.pod(1).uid
    assert world.step().actions == (DeletePod("job-worker-1", uid, force=True),)
    world.forced.add(uid)
    world.deletion_requested.add(uid)
    decision = world.step()
    assert decision.actions == ()
    assert decision.wake_at is None


def test_force_deletion_follows_graceful_deletion(running_world: NewWorld) -> None:
    """Statements 36, 39 and 42: the doomed task's pod hangs on a lost node."""
    world = running_world(role(tasks=2, graceful_timeout=10))
    world.edit(role(tasks=1, graceful_timeout=10))
    uid = world.pod(1).uid
    assert world.settle() == [DeletePod("job-worker-1", uid)]
    world.wait(10)
    assert world.settle() == [DeletePod("job-worker-1", uid, force=True)]
    assert world.indices() == [0]


def test_new_timeout_applies_to_terminating_pods(running_world: NewWorld) -> None:
    """Statement 39: the status has the new value in the very decision that uses it."""
    world = running_world(role(tasks=2))
    world.edit(role(tasks=1))
    world.settle()
    world.wait(50)
    assert world.settle() == []
    world.edit(role(tasks=1, graceful_timeout=20))
    decision = world.step()
    assert world.role().pod_graceful_deletion_timeout_sec == 20
    assert [(action.name, action.force) for action in decision.actions if isinstance(action, DeletePod)] == [
        ("job-worker-1", True)
    ]


def forced(actions: "tuple[Action, ...] | list[Action]") -> list[str]:
    return [action.name for action in actions if isinstance(action, DeletePod) and action.force]


def _finish(world: ObjectWorld) -> None:
    world.end(0, 1)


def _stop(world: ObjectWorld) -> None:
    world.edit(execution_type=ExecutionType.STOP)


def _lose_config_map(world: ObjectWorld) -> None:
    world.begin_config_map_deletion()


def _delete(world: ObjectWorld) -> None:
    world.delete_framework()


@pytest.mark.parametrize("completed_pods", CompletedPods)
@pytest.mark.parametrize("end", [_finish, _stop, _lose_config_map, _delete])
def test_new_timeout_applies_while_the_attempt_ends(
    running_world: NewWorld, end: Callable[[ObjectWorld], None], completed_pods: CompletedPods
) -> None:
    """Statement 39: the timeout is how a user gives up a pod on a lost node."""
    world = running_world(role(tasks=2), completed_pods=completed_pods)
    end(world)
    world.settle()
    if not world.pod(1).is_deleting:
        world.begin_deletion("job-worker-1")
    world.wait(50)
    assert forced(world.settle()) == []
    world.edit(role(tasks=2, graceful_timeout=60))
    assert forced(world.settle()) == []
    assert world.role().pod_graceful_deletion_timeout_sec == 60
    assert world.decide().wake_at == at(60)
    world.edit(role(tasks=2, graceful_timeout=20))
    decision = world.step()
    assert world.role().pod_graceful_deletion_timeout_sec == 20
    assert "job-worker-1" in forced(decision.actions)


def test_removed_role_keeps_its_last_timeout_while_the_attempt_ends(running_world: NewWorld) -> None:
    """Statement 39: the spec no longer has a timeout for its pods."""
    world = running_world(role(tasks=1, graceful_timeout=10), role("ps", 1, graceful_timeout=20))
    world.end(0, 1)
    world.settle()
    world.edit(role(tasks=1, graceful_timeout=10))
    world.settle()
    assert world.role("ps").pod_graceful_deletion_timeout_sec == 20
    world.wait(20)
    assert "job-ps-0" in forced(world.settle())


def test_timeout_is_copied_before_the_attempt_starts(new_world: NewWorld) -> None:
    world = new_world(role(tasks=1), execution_type=ExecutionType.CREATE)
    world.settle()
    world.edit(role(tasks=1, graceful_timeout=5))
    world.settle()
    assert (world.state(), world.role().pod_graceful_deletion_timeout_sec) == (
        State.ATTEMPT_CREATION_PENDING,
        5,
    )


def test_status_of_a_completed_framework_keeps_its_timeout(running_world: NewWorld) -> None:
    """Statement 39: "until the Framework is Completed"."""
    world = running_world(role(tasks=1))
    world.end(0, 0)
    world.finish()
    world.edit(role(tasks=1, graceful_timeout=5))
    world.settle()
    assert (world.state(), world.role().pod_graceful_deletion_timeout_sec) == (State.COMPLETED, None)


def test_wake_at_is_the_earliest_timeout(running_world: NewWorld) -> None:
    """Core contract: wake_at is the earliest deadline."""
    world = running_world(role(tasks=1, graceful_timeout=50), role("ps", 1, graceful_timeout=20))
    world.begin_deletion("job-worker-0")
    world.wait(1)
    world.begin_deletion("job-ps-0")
    assert world.step().wake_at == at(21)


def test_pods_of_a_deleted_attempt_are_force_deleted(running_world: NewWorld) -> None:
    """Statement 42: the attempt has ended and one of its pods hangs."""
    world = running_world(role(tasks=3, graceful_timeout=10))
    world.end(0, 1)
    world.settle()
    world.vanish("job-worker-0", "job-worker-1")
    uid = world.pod(2).uid
    decision = world.step()
    assert (removals(decision.actions), decision.wake_at) == ([], at(10))
    world.wait(10)
    assert removals(world.step().actions) == [DeletePod("job-worker-2", uid, force=True)]


# A finished attempt


def test_attempt_is_deleted_with_two_requests(running_world: NewWorld) -> None:
    """The pods by one request, then, when none is left, the ConfigMap. Statement 14: stored first."""
    world = running_world(role(tasks=3))
    uid = world.config_map_uid
    world.end(0, 1)
    first = world.step()
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETION_PENDING, 1)
    assert first.actions == (DeleteAttemptPods(uid),)
    world.act(first.actions)
    assert world.settle() == []
    world.vanish("job-worker-0", "job-worker-1")
    assert world.settle() == [], "one pod is still there"
    world.vanish("job-worker-2")
    second = world.step()
    assert second.actions == (DeleteConfigMap(uid),)
    world.act(second.actions)
    assert world.settle() == []
    world.vanish_config_map()
    assert world.settle() == []
    assert world.state() is State.COMPLETED


def test_deletion_of_pods_is_repeated_until_there_is_a_response(running_world: NewWorld) -> None:
    """Core contract: the same actions as long as no outcome is known."""
    world = running_world(role(tasks=2))
    world.end(0, 1)
    for _ in range(3):
        assert world.step().actions == (DeleteAttemptPods(world.config_map_uid),)


def test_framework_states_while_its_config_map_is_deleted(running_world: NewWorld) -> None:
    """Statement 10: Pending until the answer, Requested until seen, Deleting until gone."""
    world = running_world(role(tasks=1))
    uid = world.config_map_uid
    world.end(0, 0)
    world.settle()
    world.vanish()
    assert world.step().actions == (DeleteConfigMap(uid),)
    assert world.state() is State.ATTEMPT_DELETION_PENDING
    world.deletion_requested.add(uid)
    assert world.step().actions == ()
    assert world.state() is State.ATTEMPT_DELETION_REQUESTED
    world.begin_config_map_deletion()
    assert world.step().actions == ()
    assert world.state() is State.ATTEMPT_DELETING
    assert world.status.completion_time is None
    world.vanish_config_map()
    world.step()
    assert world.state() is State.COMPLETED


def test_pod_observed_after_the_deletion_request_is_deleted_too(running_world: NewWorld) -> None:
    """ "A pod that came to light since is not covered": its creation was under way."""
    world = running_world(role(tasks=1), role("ps", 1))
    late = world.pods.pop("job-ps-0")
    world.end(0, 1)
    world.step()
    world.act([DeleteAttemptPods(world.config_map_uid)])
    world.settle()
    world.put(late)
    decision = world.step()
    assert removals(decision.actions) in (
        [DeletePod("job-ps-0", late.uid)],
        [DeleteAttemptPods(world.config_map_uid)],
    )
    world.finish()
    assert (world.pods, world.config_map, world.state()) == ({}, None, State.COMPLETED)


def test_config_map_is_kept_while_the_status_names_a_pod(running_world: NewWorld) -> None:
    """ "When neither the watch nor the status knows a pod of it": one has to look first."""
    world = running_world(role(tasks=2))
    hidden = world.pods["job-worker-1"]
    world.end(0, 1)
    world.step()
    world.act([DeleteAttemptPods(world.config_map_uid)])
    del world.pods["job-worker-1"]
    world.known.discard(hidden.uid)
    world.vanish()
    decision = world.step()
    assert decision.actions == (RelistObjects(),)
    world.act(decision.actions)
    assert world.step().actions == (DeleteConfigMap(world.config_map_uid),)


def test_config_map_is_kept_while_a_creation_is_uncertain(running_world: NewWorld) -> None:
    """Statement 40: none runs once its attempt completed. The pod may have been created all the same."""
    world = running_world(role(tasks=2))
    world.edit(role(tasks=3))
    world.step()
    world.uncertain.add("job-worker-2")
    world.end(0, 1)
    world.step()
    world.act([DeleteAttemptPods(world.config_map_uid)])
    world.vanish()
    decision = world.step()
    assert RelistObjects() in decision.actions
    assert DeleteConfigMap(world.config_map_uid) not in decision.actions


@pytest.mark.parametrize(
    "unlabelled", [(0, 1, 2), (1,), (0, 2)], ids=["all of them", "the middle one", "two of them"]
)
def test_pods_without_the_label_are_deleted_one_by_one(
    running_world: NewWorld, unlabelled: tuple[int, ...]
) -> None:
    """The reference made them. Statement 41: each by its UID, and each once."""
    world = running_world(role(tasks=3))
    uids = {index: world.pod(index).uid for index in unlabelled}
    take_label(world, *(f"job-worker-{index}" for index in unlabelled))
    world.end(0, 1)
    actions = world.settle()
    pods = [action for action in actions if isinstance(action, DeletePod)]
    assert pods == [DeletePod(f"job-worker-{index}", uids[index]) for index in unlabelled]
    if len(unlabelled) < 3:
        assert actions.count(DeleteAttemptPods(world.config_map_uid)) == 1
    assert DeleteConfigMap(world.config_map_uid) not in actions
    assert all(pod.is_deleting for pod in world.pods.values())
    world.vanish()
    assert world.settle() == [DeleteConfigMap(world.config_map_uid)]


def test_attempt_without_pods_needs_only_its_config_map_deleted(new_world: NewWorld) -> None:
    """The pods could not be created, so no pod is deleted."""
    world = new_world(role(tasks=1))
    world.settle(is_shown=False)
    world.show()
    world.edit(execution_type=ExecutionType.STOP)
    done = world.finish()
    assert DeleteConfigMap("cm-0") in done
    assert not any(isinstance(action, CreatePod) for action in done)
    assert (world.state(), world.code()) == (State.COMPLETED, -210)


def test_retry_waits_until_the_old_attempt_is_deleted(running_world: NewWorld) -> None:
    """Statement 40: at most one running instance of a Framework."""
    world = running_world(role(tasks=1), retry_policy=RetryPolicySpec(max_retry_count=1))
    world.end(0, 1)
    assert [type(action) for action in world.settle()] == [DeleteAttemptPods]
    assert world.status.attempt_status.id == 0
    world.vanish()
    world.settle()
    assert world.status.attempt_status.id == 0, "the ConfigMap is still deleting"
    world.vanish_config_map()
    world.settle()
    assert world.status.attempt_status.id == 1
    assert world.config_map_uid == "cm-1"


def test_config_map_deleted_by_another_client_is_left_to_the_collector(running_world: NewWorld) -> None:
    """Statement 34. Of two that delete it, the slower one would hit the next attempt's, which has its name."""
    policy = RetryPolicySpec(fancy_retry_policy=True)
    world = running_world(role(tasks=1), retry_policy=policy)
    world.begin_config_map_deletion()
    assert world.settle() == [DeleteAttemptPods("cm-0")]
    world.vanish()
    assert world.settle() == []
    assert (world.state(), world.status.attempt_status.id) == (State.ATTEMPT_DELETING, 0)
    world.vanish_config_map()
    world.settle()
    assert (world.status.attempt_status.id, world.config_map_uid) == (1, "cm-1")


# A Framework that is deleted


@pytest.mark.parametrize("has_run", [True, False])
def test_objects_of_a_deleted_framework_are_deleted(pending_world: NewWorld, has_run: bool) -> None:
    """Its pods and ConfigMap are deleted like those of a completed attempt."""
    world = pending_world(role(tasks=2))
    if has_run:
        world.run()
        world.settle()
    world.delete_framework()
    assert world.step().actions == (DeleteAttemptPods("cm-0"),)
    done = world.finish()
    assert done == [DeleteAttemptPods("cm-0"), DeleteConfigMap("cm-0")]
    assert (world.pods, world.config_map) == ({}, None)


@pytest.mark.parametrize("has_run", [True, False])
def test_deleted_framework_ends_its_attempt_before_its_pods_are_deleted(
    pending_world: NewWorld, has_run: bool
) -> None:
    """Statement 34: a snapshot of the deletion has the state AttemptDeleting and -100, as in the reference."""
    world = pending_world(role(tasks=2))
    if has_run:
        world.run()
        world.settle()
    world.delete_framework()
    decision = world.step()
    assert not decision.may_wait
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETING, -100)
    assert {world.task(index).state for index in range(2)} == {State.ATTEMPT_DELETION_PENDING}
    world.finish()
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETING, -100)
    assert [(world.task(index).state, world.task_code(index)) for index in range(2)] == [
        (State.COMPLETED, -220)
    ] * 2
    assert world.status.summary.running == 0


def test_deletion_keeps_the_completion_status_of_an_ending_attempt(running_world: NewWorld) -> None:
    """Statement 16."""
    world = running_world(role(tasks=2))
    world.end(0, 7)
    world.step()
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETION_PENDING, 7)
    world.delete_framework()
    world.finish()
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETING, 7)


def test_deletion_does_not_change_the_status_of_a_framework_without_an_attempt(
    new_world: NewWorld,
) -> None:
    world = new_world(role(tasks=1), execution_type=ExecutionType.CREATE)
    world.settle()
    before = world.status
    world.delete_framework()
    assert world.finish() == []
    assert world.status == before


def test_deleted_framework_creates_no_attempt(new_world: NewWorld) -> None:
    world = new_world(role(tasks=2))
    world.delete_framework()
    decision = world.step()
    assert (decision.status, decision.actions) == (None, ())


def test_deleted_framework_creates_no_pods(new_world: NewWorld) -> None:
    """Neither missing pods nor those of a rescale are created."""
    world = new_world(role(tasks=1))
    world.step()
    world.act(world.decide().actions)
    world.step()
    world.show()
    world.edit(role(tasks=2))
    world.delete_framework()
    done = world.finish()
    assert not any(isinstance(action, CreatePod) for action in done)
    assert (world.pods, world.config_map) == ({}, None)


def test_deleted_framework_deletes_its_late_config_map(new_world: NewWorld) -> None:
    """The ConfigMap was created, and the Framework deleted before the status was stored."""
    world = new_world(role(tasks=1))
    world.act(world.step().actions)
    world.delete_framework()
    done = world.finish()
    assert DeleteConfigMap("cm-0") in done
    assert world.config_map is None


def test_hanging_pod_of_a_deleted_framework_is_force_deleted(running_world: NewWorld) -> None:
    """Statement 42, with the timeout that the status holds."""
    world = running_world(role(tasks=1, graceful_timeout=10))
    world.delete_framework()
    world.settle()
    assert world.decide().wake_at == at(10)
    world.wait(10)
    assert DeletePod("job-worker-0", "pod-1", force=True) in world.settle()


def test_unlabelled_pods_of_a_deleted_framework_are_deleted(running_world: NewWorld) -> None:
    world = running_world(role(tasks=2))
    take_label(world, "job-worker-1")
    world.delete_framework()
    done = world.finish()
    assert DeletePod("job-worker-1", "pod-2") in done
    assert (world.pods, world.config_map) == ({}, None)


def test_completed_framework_with_kept_pods_is_deleted(running_world: NewWorld) -> None:
    """A2: they are kept until the Framework is deleted."""
    world = running_world(role(tasks=1), completed_pods=CompletedPods.KEEP)
    world.end(0, 0)
    world.finish()
    assert (world.state(), sorted(world.pods)) == (State.COMPLETED, ["job-worker-0"])
    world.delete_framework()
    world.finish()
    assert (world.pods, world.config_map) == ({}, None)


def test_hanging_pod_is_force_deleted_once_when_kept_pods_are_deleted(running_world: NewWorld) -> None:
    """Statement 42 and A2: completedPods goes from Keep to Delete while a kept pod hangs in its deletion."""
    world = running_world(role(tasks=2, graceful_timeout=10), completed_pods=CompletedPods.KEEP)
    world.end(0, 0)
    world.end(1, 0)
    world.finish()
    assert (world.state(), len(world.pods)) == (State.COMPLETED, 2)
    world.begin_deletion("job-worker-0")
    world.wait(10)
    world.edit(completed_pods=CompletedPods.DELETE)
    actions = world.decide().actions
    forced = [action for action in actions if isinstance(action, DeletePod) and action.force]
    assert forced == [DeletePod("job-worker-0", "pod-1", force=True)]
