"""Unexpected objects: deleted if ours, kept if foreign (statement 44, NameTaken)."""

from typing import Any

import builders
import msgspec
import pytest
from builders import at, role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import (
    Action,
    CreateConfigMap,
    CreatePod,
    DeleteAttemptPods,
    DeleteConfigMap,
    DeletePod,
    RelistObjects,
)
from windlass.model.framework import CompletedPods, ExecutionType, RetryPolicySpec
from windlass.model.pods import ObjectAnnotations, ObjectLabels, PodView
from windlass.model.states import State

OTHER_FRAMEWORK = "other-uid"


def pod_of(world: ObjectWorld, index: int, uid: str, **builder: Any) -> PodView:
    """A pod created for the current task attempt."""
    builder.setdefault("config_map_uid", world.config_map_uid)
    return builders.pod(world.framework, world.task(index), uid=uid, **builder)


def with_metadata(pod: PodView, **metadata: Any) -> PodView:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **metadata))


def orphan(pod: PodView) -> PodView:
    """A pod created by hand with the label of the Framework's name."""
    labels = ObjectLabels(framework_name=pod.metadata.labels.framework_name)
    return with_metadata(pod, owner_references=(), annotations=ObjectAnnotations(), labels=labels)


def of_other_framework(pod: PodView) -> PodView:
    """A pod of a Framework of the same name: of the other group, or deleted earlier."""
    annotations = msgspec.structs.replace(
        pod.metadata.annotations, framework_uid=OTHER_FRAMEWORK, config_map_uid="their-cm"
    )
    owner = msgspec.structs.replace(pod.metadata.owner_references[0], uid="their-cm")
    labels = msgspec.structs.replace(pod.metadata.labels, attempt="their-cm")
    return with_metadata(pod, annotations=annotations, owner_references=(owner,), labels=labels)


def of_older_config_map(pod: PodView) -> PodView:
    """A pod of an earlier attempt of the same Framework."""
    annotations = msgspec.structs.replace(pod.metadata.annotations, config_map_uid="cm-old")
    owner = msgspec.structs.replace(pod.metadata.owner_references[0], uid="cm-old")
    labels = msgspec.structs.replace(pod.metadata.labels, attempt="cm-old")
    return with_metadata(pod, annotations=annotations, owner_references=(owner,), labels=labels)


def of_older_task_attempt(pod: PodView) -> PodView:
    annotations = msgspec.structs.replace(pod.metadata.annotations, task_attempt_id="99")
    return with_metadata(pod, annotations=annotations)


def of_other_instance(pod: PodView) -> PodView:
    """A pod of a task that was deleted and replaced."""
    annotations = msgspec.structs.replace(pod.metadata.annotations, task_uid="another-task")
    return with_metadata(pod, annotations=annotations)


STRANGERS = [orphan, of_other_framework]
STRAYS = [of_older_config_map, of_older_task_attempt, of_other_instance]


def touched(actions: "tuple[Action, ...] | list[Action]", uid: str) -> bool:
    return any(
        uid in (getattr(action, "uid", ""), getattr(action, "config_map_uid", "")) for action in actions
    )


@pytest.fixture
def waiting_world(pending_world: NewWorld) -> ObjectWorld:
    """Task 0 has its pod; task 1 was added and stored, and its pod is missing."""
    world = pending_world(role(tasks=1))
    world.edit(role(tasks=2))
    world.step()
    return world


# Pods


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_pod_created_without_a_response_is_adopted(waiting_world: ObjectWorld, phase: str) -> None:
    """Statement 40: made for this very task attempt, so a second one would be one too many."""
    world = waiting_world
    world.put(pod_of(world, 1, "lost", phase=phase))
    assert world.step().actions == ()
    expected = State.ATTEMPT_RUNNING if phase == "Running" else State.ATTEMPT_PREPARING
    assert world.task(1).state is expected
    assert world.task(1).attempt_status.pod_uid == "lost"
    assert world.task(1).attempt_status.instance_uid == "0_lost"


def test_pod_that_ended_before_it_was_known_is_adopted(waiting_world: ObjectWorld) -> None:
    world = waiting_world
    world.put(pod_of(world, 1, "lost", phase="Succeeded", exit_code=0))
    assert world.settle() == []
    assert (world.task(1).state, world.task_code(1)) == (State.COMPLETED, 0)
    assert world.task(1).attempt_status.pod_uid == "lost"


@pytest.mark.parametrize("become", STRAYS)
def test_own_pod_with_the_name_of_a_missing_pod_is_deleted(waiting_world: ObjectWorld, become: Any) -> None:
    """The pod is not adopted; the task waits for the name."""
    world = waiting_world
    world.put(become(pod_of(world, 1, "stray", phase="Running")))
    assert world.settle() == [DeletePod("job-worker-1", "stray")]
    assert world.task(1).state is State.ATTEMPT_CREATION_PENDING
    assert world.task(1).attempt_status.pod_uid is None
    world.vanish()
    assert world.settle() == [CreatePod("worker", 1)]


@pytest.mark.parametrize("become", STRAYS)
def test_completed_unclaimed_pod_completes_no_task(waiting_world: ObjectWorld, become: Any) -> None:
    world = waiting_world
    world.put(become(pod_of(world, 1, "stray", phase="Failed", exit_code=1)))
    world.settle()
    assert (world.code(), world.task_code(1)) == (None, None)
    assert world.state() is State.ATTEMPT_PREPARING


@pytest.mark.parametrize("become", STRANGERS)
@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_foreign_pod_with_the_name_of_a_missing_pod_is_kept(
    waiting_world: ObjectWorld, become: Any, phase: str
) -> None:
    """The task waits, and the creation is retried when it is due."""
    world = waiting_world
    world.put(become(pod_of(world, 1, "stranger", phase=phase, exit_code=0)))
    world.postponed["job-worker-1"] = at(10)
    world.uncertain.add("job-worker-1")
    decision = world.step()
    assert not touched(decision.actions, "stranger")
    assert CreatePod("worker", 1) not in decision.actions
    assert world.task(1).state is State.ATTEMPT_CREATION_PENDING
    assert world.task(1).attempt_status.pod_uid is None
    world.uncertain.clear()
    del world.pods["job-worker-1"]
    world.wait(10)
    assert world.step().actions == (CreatePod("worker", 1),)


def test_postponed_creation_is_retried_when_due(waiting_world: ObjectWorld) -> None:
    """A foreign pod without the label is not observed: only the error reveals it."""
    world = waiting_world
    world.postponed["job-worker-1"] = at(10)
    decision = world.step()
    assert (decision.actions, decision.wake_at) == ((), at(10))
    world.wait(9.999)
    assert world.step().actions == ()
    world.wait(0.001)
    assert world.step().actions == (CreatePod("worker", 1),)


@pytest.mark.parametrize("become", [*STRAYS, lambda pod: pod], ids=lambda become: become.__name__)
def test_pod_with_an_unexpected_uid_is_deleted(running_world: NewWorld, become: Any) -> None:
    """The pod in the status was deleted externally (-101); the other one is deleted, not adopted."""
    world = running_world(role(tasks=2, min_failed=-1))
    twin = become(pod_of(world, 1, "twin", phase="Running"))
    world.vanish("job-worker-1")
    world.put(twin)
    done = world.settle()
    assert done == [DeletePod("job-worker-1", "twin")]
    assert world.task_code(1) == -101
    assert world.task(1).attempt_status.pod_uid != "twin"
    assert world.task(1).state is State.COMPLETED


@pytest.mark.parametrize("become", STRANGERS)
def test_foreign_pod_with_the_name_of_a_former_pod_is_kept(running_world: NewWorld, become: Any) -> None:
    world = running_world(role(tasks=2, min_failed=-1))
    stranger = become(pod_of(world, 1, "stranger", phase="Running"))
    world.vanish("job-worker-1")
    world.put(stranger)
    assert world.settle() == []
    assert world.task_code(1) == -101


def test_unclaimed_own_pod_is_deleted(running_world: NewWorld) -> None:
    """Its name is beyond the tasks of the spec."""
    world = running_world(role(tasks=1))
    world.put(with_metadata(pod_of(world, 0, "beyond"), name="job-worker-7"))
    before = world.status
    assert world.settle() == [DeletePod("job-worker-7", "beyond")]
    assert world.status == before


@pytest.mark.parametrize("become", STRANGERS)
def test_foreign_pod_is_never_deleted(running_world: NewWorld, become: Any) -> None:
    """The end of the attempt does not wait for it."""
    world = running_world(role(tasks=1))
    world.put(become(with_metadata(pod_of(world, 0, "stranger", phase="Running"), name="job-debug")))
    assert world.settle() == []
    world.end(0, 0)
    done = world.finish()
    assert not touched(done, "stranger")
    assert not touched(done, "their-cm")
    assert world.state() is State.COMPLETED
    assert list(world.pods) == ["job-debug"]


@pytest.mark.parametrize("policy", list(CompletedPods))
def test_own_pod_that_appears_after_completion_is_deleted(
    running_world: NewWorld, policy: CompletedPods
) -> None:
    """Statement 40: none runs once its attempt completed. A2 keeps only what the status names."""
    world = running_world(role(tasks=1), completed_pods=policy)
    late = with_metadata(pod_of(world, 0, "late", phase="Running"), name="job-worker-1")
    world.end(0, 0)
    world.finish()
    assert world.state() is State.COMPLETED
    kept = list(world.pods)
    world.put(late)
    assert world.settle() == [DeletePod("job-worker-1", "late")]
    world.vanish()
    assert list(world.pods) == kept == (["job-worker-0"] if policy is CompletedPods.KEEP else [])


# ConfigMaps


def test_config_map_created_without_a_response_is_adopted(new_world: NewWorld) -> None:
    world = new_world(role(tasks=1))
    world.step()
    world.put_config_map(builders.config_map(world.framework, "lost"))
    decision = world.step()
    assert world.config_map_uid == "lost"
    assert world.status.attempt_status.instance_uid == "0_lost"
    assert world.state() is State.ATTEMPT_PREPARING
    assert decision.actions == (CreatePod("worker", 0),)


def test_config_map_of_an_earlier_attempt_is_deleted(running_world: NewWorld) -> None:
    """The second attempt waits for the name, and adopts nothing."""
    world = running_world(role(tasks=1), retry_policy=RetryPolicySpec(max_retry_count=1))
    world.end(0, 1)
    world.settle()
    world.vanish()
    world.settle()
    world.vanish_config_map()
    world.step()
    assert (world.state(), world.status.attempt_status.id) == (State.ATTEMPT_CREATION_PENDING, 1)
    world.put_config_map(builders.config_map(world.framework, "old", attempt_id=0))
    done = world.settle()
    assert DeleteConfigMap("old") in done
    assert CreateConfigMap() not in done
    assert world.status.attempt_status.config_map_uid is None
    world.vanish_config_map()
    assert world.settle()[0] == CreateConfigMap()


def test_config_map_with_an_unexpected_uid_ends_the_attempt(running_world: NewWorld) -> None:
    """The ConfigMap in the status was deleted externally (-100); the other one is deleted, not adopted."""
    world = running_world(role(tasks=1))
    world.vanish_config_map()
    world.put_config_map(builders.config_map(world.framework, "twin"))
    done = world.finish()
    assert DeleteConfigMap("twin") in done
    assert CreateConfigMap() not in done
    assert (world.state(), world.code()) == (State.COMPLETED, -100)
    assert (world.pods, world.config_map) == ({}, None)


def test_config_map_that_appears_after_completion_is_deleted(new_world: NewWorld) -> None:
    """Its creation had no response, and the Framework was stopped meanwhile."""
    world = new_world(role(tasks=1))
    world.step()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert world.state() is State.COMPLETED
    world.put_config_map(builders.config_map(world.framework, "late"))
    assert DeleteConfigMap("late") in world.settle()


# Two Frameworks of one name


@pytest.fixture
def second_world(new_world: NewWorld) -> ObjectWorld:
    """A Framework whose ConfigMap name is used by a Framework of the other group with one running pod."""
    world = new_world(role(tasks=1))
    world.step()
    theirs = builders.config_map(world.framework, "their-cm", owner_uid=OTHER_FRAMEWORK)
    world.put_config_map(with_config_map_owner(theirs))
    pod = builders.pod(world.framework, world.task(0), uid="their-pod", phase="Running")
    world.put(of_other_framework(pod))
    world.name_taken_message = "ConfigMap job-attempt already exists"
    world.postponed["job-attempt"] = at(10)
    return world


def with_config_map_owner(theirs: Any) -> Any:
    annotations = msgspec.structs.replace(theirs.metadata.annotations, framework_uid=OTHER_FRAMEWORK)
    metadata = msgspec.structs.replace(theirs.metadata, annotations=annotations)
    return msgspec.structs.replace(theirs, metadata=metadata)


def test_second_framework_of_the_same_name_waits(second_world: ObjectWorld) -> None:
    """The ConfigMap and pods of the first Framework are kept."""
    world = second_world
    for _ in range(3):
        decision = world.step()
        assert decision.actions in ((), (CreateConfigMap(),))
        assert world.state() is State.ATTEMPT_CREATION_PENDING
        assert world.status.attempt_status.config_map_uid is None
        assert world.task(0).state is State.ATTEMPT_CREATION_PENDING
        world.wait(10)
        world.postponed["job-attempt"] = world.now


def test_second_framework_starts_when_the_name_is_free(second_world: ObjectWorld) -> None:
    world = second_world
    world.step()
    world.vanish_config_map()
    world.vanish("job-worker-0")
    world.wait(10)
    world.postponed.clear()
    world.name_taken_message = ""
    assert world.settle() == [CreateConfigMap(), CreatePod("worker", 0)]
    assert world.state() is State.ATTEMPT_PREPARING


def test_second_framework_can_be_stopped(second_world: ObjectWorld) -> None:
    world = second_world
    world.step()
    world.edit(execution_type=ExecutionType.STOP)
    assert world.settle() == []
    assert (world.state(), world.code()) == (State.COMPLETED, -210)


def test_second_framework_can_be_deleted(second_world: ObjectWorld) -> None:
    world = second_world
    world.step()
    world.delete_framework()
    assert [action for action in world.settle() if action != RelistObjects()] == []


def test_first_framework_ends_without_the_second_ones_pods(running_world: NewWorld) -> None:
    """A foreign pod with the same label does not block the deletion."""
    world = running_world(role(tasks=1))
    pod = with_metadata(pod_of(world, 0, "their-pod", phase="Running"), name="job-ps-0")
    world.put(of_other_framework(pod))
    world.end(0, 0)
    assert world.finish() == [DeleteAttemptPods("cm-0"), DeleteConfigMap("cm-0")]
    assert world.state() is State.COMPLETED
