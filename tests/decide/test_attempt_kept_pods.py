"""`completedPods: Keep` (A2): which objects are kept, and which texts of a pod the status keeps."""

import pytest
from builders import framework, role
from tests.decide.worlds import World

from windlass.decide.types import DeleteAttemptPods, DeleteConfigMap, DeleteFramework, DeletePod
from windlass.model.framework import CompletedPods, ExecutionType, RetryPolicySpec
from windlass.model.states import State

KEEP = CompletedPods.KEEP
DELETIONS = (DeletePod, DeleteAttemptPods, DeleteConfigMap)


@pytest.mark.parametrize(
    ("completed_pods", "kept"),
    [
        (CompletedPods.KEEP, ["job-worker-0", "job-worker-1"]),
        (CompletedPods.DELETE, []),
    ],
)
@pytest.mark.parametrize("exit_code", [0, 5])
def test_completed_pods_are_kept(completed_pods: CompletedPods, kept: list[str], exit_code: int) -> None:
    """A2: the pods and the ConfigMap of the last attempt."""
    world = World(framework("job", role(tasks=2, min_failed=2), completed_pods=completed_pods))
    world.start()
    for index in range(2):
        world.show_pod("Failed" if exit_code else "Succeeded", index=index, exit_code=exit_code)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, exit_code)
    assert sorted(world.pods) == kept
    assert (world.config_map is not None) == bool(kept)
    assert any(isinstance(action, DELETIONS) for action in world.actions) == (not kept)


def test_default_is_delete() -> None:
    """A2: "absent = Delete"."""
    world = World(framework("job", role()))
    world.start()
    world.succeed()
    world.settle()
    assert (world.state, world.pods, world.config_map) == (State.COMPLETED, {}, None)


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
def test_running_pods_are_deleted(phase: str) -> None:
    """A2: a ps is deleted, the workers are kept, and the Framework is Completed only when the ps is deleted."""
    world = World(framework("job", role("ps", 2), role("worker", 2, min_succeeded=2), completed_pods=KEEP))
    world.start()
    world.completes_deletions = False
    world.show_pod(phase, "ps", 0)
    for index in range(2):
        world.succeed(index=index)
    world.settle()
    assert world.code == 0
    assert not world.state.is_over
    assert {action.name for action in world.actions if isinstance(action, DeletePod)} == {
        "job-ps-0",
        "job-ps-1",
    }
    assert not any(isinstance(action, DeleteAttemptPods | DeleteConfigMap) for action in world.actions)

    world.remove_pod("ps", 1)
    world.settle()
    assert not world.state.is_over
    world.advance(30)
    world.remove_pod("ps", 0)
    world.settle()
    assert world.state is State.COMPLETED
    assert world.status.completion_time == world.now
    assert sorted(world.pods) == ["job-worker-0", "job-worker-1"]
    assert world.config_map is not None
    assert world.task_code("ps") == -220


def test_pod_that_ended_while_it_was_deleted_is_force_deleted() -> None:
    """A2 with statement 42: the node is lost, and the pod is Failed but not deleted (`Evicted`)."""
    world = World(framework("job", role(tasks=2, graceful_timeout=60), completed_pods=KEEP))
    world.start()
    world.completes_deletions = False
    world.show_pod_deleting(index=0)
    world.settle()
    world.show_pod("Failed", index=0, reason="Evicted")
    world.show_pod_deleting(index=0)
    world.fail(index=1)
    world.settle()
    assert not world.state.is_over
    world.advance(61)
    assert world.decide().actions == (DeletePod("job-worker-0", world.pod().uid, force=True),)
    world.remove_pod(index=0)
    world.settle()
    assert world.state is State.COMPLETED
    assert list(world.pods) == ["job-worker-1"]


def test_stopped_framework_keeps_completed_pods() -> None:
    """A2: Stop ends the last attempt too."""
    world = World(framework("job", role(tasks=2), completed_pods=KEEP))
    world.start()
    world.succeed(index=0)
    world.settle()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert list(world.pods) == ["job-worker-0"]
    assert world.config_map is not None


def test_framework_retry_deletes_the_earlier_pods() -> None:
    """A2: "since names are reused"; the pods of the last attempt are kept."""
    world = World(
        framework("job", role(tasks=2), completed_pods=KEEP, retry_policy=RetryPolicySpec(max_retry_count=1))
    )
    world.start()
    first = {pod.uid for pod in world.pods.values()}
    world.succeed(index=0)
    world.fail(index=1)
    world.settle()
    assert world.status.attempt_status.id == 1
    assert not first & {pod.uid for pod in world.pods.values()}
    world.run_pods()
    world.settle()
    world.fail(index=1)
    world.settle()
    assert world.state is State.COMPLETED
    assert list(world.pods) == ["job-worker-1"]
    assert world.config_map is not None
    assert world.config_map.uid == world.status.attempt_status.config_map_uid


def test_delayed_retry_deletes_the_earlier_pods() -> None:
    """A2 with statement 27: at the latest when the retry is made."""
    world = World(
        framework("job", role(), completed_pods=KEEP, retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    )
    world.start()
    first = world.pod().uid
    world.fail(exit_code=201)
    world.settle()
    world.wake()
    assert world.status.attempt_status.id == 1
    assert world.pod().uid != first


def test_task_retry_deletes_the_earlier_pod() -> None:
    """A2 with A1: `Keep` keeps the pod of a task's last attempt only."""
    world = World(framework("job", role(retry=RetryPolicySpec(max_retry_count=1)), completed_pods=KEEP))
    world.start()
    first = world.pod().uid
    world.fail()
    world.settle()
    second = world.pod().uid
    assert second != first
    world.run()
    world.settle()
    world.fail()
    world.settle()
    assert world.state is State.COMPLETED
    assert world.pod().uid == second


def test_externally_deleted_kept_pods_change_nothing() -> None:
    """A2 with statement 10: Completed is final, even if kept objects are deleted."""
    world = World(framework("job", role(tasks=2), completed_pods=KEEP))
    world.start()
    for index in range(2):
        world.succeed(index=index)
    world.settle()
    before = world.status
    world.remove_pod(index=0)
    assert world.settle().actions == ()
    world.show_config_map_deleting()
    world.settle()
    world.remove_config_map()
    assert world.settle().actions == ()
    assert (world.state, world.code) == (before.state, 0)
    assert world.status.completion_time == before.completion_time


@pytest.mark.parametrize(("ttl", "lasts"), [(100, 100), (None, 30 * 24 * 3600)])
def test_kept_pods_remain_until_the_ttl(ttl: int | None, lasts: int) -> None:
    """A2, A4 and statement 45: then the Framework is deleted, and everything with it."""
    world = World(framework("job", role(), completed_pods=KEEP, ttl_seconds_after_finished=ttl))
    world.start()
    world.succeed()
    world.settle()
    world.advance(lasts - 1)
    assert world.settle().actions == ()
    assert world.has_pod()
    world.advance(1)
    assert DeleteFramework(world.framework.uid) in world.step().actions


# Texts of deleted pods


def messages(world: World, tasks: int) -> list[str]:
    found = []
    for index in range(tasks):
        ended = world.task(index=index).attempt_status.completion_status
        assert ended is not None
        assert ended.pod is not None
        found.append(ended.pod.containers[0].message)
    return found


@pytest.mark.parametrize("seen", ["at once", "one by one"])
@pytest.mark.parametrize("completed_pods", list(CompletedPods))
def test_ten_termination_messages_are_not_truncated(seen: str, completed_pods: CompletedPods) -> None:
    """A2: "ten whole per attempt, the rest cut to 200 bytes"."""
    world = World(framework("job", role(tasks=13, min_failed=-1), completed_pods=completed_pods))
    world.start()
    texts = [f"{index:02} " + "x" * 1000 for index in range(13)]
    for index, text in enumerate(texts):
        world.fail(index=index, message=text)
        if seen == "one by one":
            world.settle()
    world.settle()
    assert world.state is State.COMPLETED
    kept = messages(world, 13)
    whole = [message for message, text in zip(kept, texts, strict=True) if message == text]
    cut = [message for message, text in zip(kept, texts, strict=True) if message != text]
    assert (len(whole), len(cut)) == (10, 3)
    assert all(0 < len(message.encode()) <= 200 for message in cut)
    assert [message[:3] for message in kept] == [text[:3] for text in texts]


def test_message_limit_applies_per_attempt() -> None:
    """A2: "per attempt"."""
    world = World(
        framework("job", role(tasks=10, min_failed=10), retry_policy=RetryPolicySpec(max_retry_count=1))
    )
    for _ in range(2):
        world.start()
        for index in range(10):
            world.fail(index=index, message="y" * 1000)
        world.settle()
    assert (world.state, world.status.attempt_status.id) == (State.COMPLETED, 1)
    assert [len(message) for message in messages(world, 10)] == [1000] * 10


def test_stopped_retry_keeps_no_pods_of_the_earlier_attempt() -> None:
    """A2 with statement 28: the last attempt is the one that ended with -210, and it never had a pod."""
    world = World(
        framework("job", role(), completed_pods=KEEP, retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    )
    world.start()
    world.fail(exit_code=201)
    world.settle()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert (world.pods, world.config_map) == ({}, None)
