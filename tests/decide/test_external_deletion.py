"""Objects deleted by another client (statements 11 and 34, codes -100 and -101)."""

import pytest
from builders import at, framework, role
from tests.decide.worlds import World

from windlass.decide.types import CreateConfigMap, CreatePod
from windlass.model.framework import RetryPolicySpec
from windlass.model.states import State

RETRY_IF_FAILED = RetryPolicySpec(max_retry_count=-1)


# Pods.


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
@pytest.mark.parametrize("is_seen_deleting", [True, False], ids=["deleting", "gone"])
def test_externally_deleted_pod_ends_its_task_attempt(phase: str, is_seen_deleting: bool) -> None:
    """Statement 18: -101 PodExternalDeleted, Transient; final only when the pod is deleted (statement 40)."""
    world = World(framework("job", role(tasks=2)))
    world.settle()
    world.show_pod(phase)
    world.settle()
    if is_seen_deleting:
        world.show_pod_deleting()
        world.settle()
        assert world.task().state is State.ATTEMPT_DELETING
        assert world.code is None
        world.advance(20)
    world.remove_pod()
    world.settle()
    ended = world.task().attempt_status.completion_status
    assert ended is not None
    assert (ended.code, ended.phrase) == (-101, "PodExternalDeleted")
    assert (ended.type.name, tuple(ended.type.attributes)) == ("Failed", ("Transient",))
    assert (world.state, world.code) == (State.COMPLETED, -101)
    assert world.task_code(index=1) == -220


@pytest.mark.parametrize(
    ("policy", "accountable"),
    [(RetryPolicySpec(fancy_retry_policy=True), 0), (RETRY_IF_FAILED, 1)],
    ids=["fancy", "if-failed"],
)
def test_externally_deleted_pod_is_recreated(policy: RetryPolicySpec, accountable: int) -> None:
    """Statements 18 and 25: -101 is Transient. The new pod is created when the old one is deleted."""
    world = World(framework("job", role(tasks=2, retry=policy)))
    world.start()
    old = world.pod().uid
    world.show_pod_deleting()
    world.settle()
    assert world.actions.count(CreatePod("worker", 0)) == 1
    world.remove_pod()
    world.settle()
    task = world.task()
    assert (task.attempt_status.id, task.retry_policy_status.accountable_retried_count) == (1, accountable)
    assert world.pod().uid != old
    assert world.state is State.ATTEMPT_RUNNING


@pytest.mark.parametrize("exit_code", [0, 5])
def test_pod_that_ended_before_its_deletion_keeps_its_code(exit_code: int) -> None:
    """Statement 13 and A1: the exit code counts, although the pod is first seen ended when it is being deleted.

    It ended long before, because the times come from two clocks.
    """
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.start()
    world.advance(60)
    world.show_pod("Failed" if exit_code else "Succeeded", exit_code=exit_code, finished_at=at(5))
    world.show_pod_deleting()
    world.settle()
    assert world.task_code() == exit_code
    world.remove_pod()
    world.settle()
    assert (world.task().state, world.task_code()) == (State.COMPLETED, exit_code)


@pytest.mark.parametrize(("phase", "exit_code"), [("Failed", 143), ("Failed", 137), ("Succeeded", 0)])
def test_pod_ended_by_its_deletion_is_externally_deleted(phase: str, exit_code: int) -> None:
    """Statement 18: the deletion ended its container; the code is -101, whatever the exit code."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.start()
    world.advance(10)
    world.show_pod_deleting()
    world.settle()
    world.advance(10)
    pod = world.pod()
    world.show_pod(phase, exit_code=exit_code, finished_at=at(20))
    assert world.pod().metadata.deletion_timestamp == pod.metadata.deletion_timestamp
    world.settle()
    world.remove_pod()
    world.settle()
    assert (world.task().state, world.task_code()) == (State.COMPLETED, -101)


@pytest.mark.parametrize("has_times", [True, False], ids=["ended later", "unknown time"])
@pytest.mark.parametrize(("phase", "exit_code"), [("Failed", 143), ("Succeeded", 0)])
def test_pod_first_seen_terminating_and_ended(phase: str, exit_code: int, has_times: bool) -> None:
    """Statement 18: as above, in one observation; only a container that ended before the deletion counts."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.start()
    world.advance(10)
    world.show_pod_deleting()
    world.advance(10)
    world.show_pod(phase, exit_code=exit_code if has_times else None, finished_at=at(15))
    world.settle()
    assert not world.task().state.is_over
    world.remove_pod()
    world.settle()
    assert (world.task().state, world.task_code()) == (State.COMPLETED, -101)


@pytest.mark.parametrize("ends", ["deleting", "gone"])
def test_deleted_pod_of_a_completed_task_changes_nothing(ends: str) -> None:
    """Statement 16: its completed pod may be deleted (A1), and nothing changes."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.succeed()
    world.settle()
    before = world.task()
    if ends == "deleting":
        world.show_pod_deleting()
    else:
        world.remove_pod()
    decision = world.settle()
    assert decision.actions == ()
    assert world.task() == before


def test_externally_deleted_pod_of_an_ending_framework() -> None:
    """Statements 16 and 33: -220 was decided first."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.completes_deletions = False
    world.fail(index=0)
    world.step()
    assert world.task_code(index=1) == -220
    world.remove_pod(index=1)
    world.settle()
    assert (world.task(index=1).state, world.task_code(index=1)) == (State.COMPLETED, -220)


def test_pod_deleted_before_the_watch_reports_it() -> None:
    """Statements 11 and 18: created with a response, then deleted."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.shows_creations = False
    world.settle()
    world.confirm()
    world.settle()
    assert world.task().state is State.ATTEMPT_CREATION_REQUESTED
    world.remove_pod()
    world.settle()
    assert (world.task().state, world.task_code()) == (State.COMPLETED, -101)


# The ConfigMap (statement 34).


def test_externally_deleted_config_map_ends_the_attempt() -> None:
    """Statement 34: first seen terminating; its pods are deleted first, since the deletion is in the foreground."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.completes_deletions = False
    world.show_config_map_deleting()
    world.settle()
    assert (world.state, world.code) == (State.ATTEMPT_DELETING, -100)
    for index in range(2):
        world.remove_pod(index=index)
        world.settle()
        assert not world.state.is_over
    world.remove_config_map()
    world.settle()
    assert world.state is State.COMPLETED
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert (ended.code, ended.phrase) == (-100, "ConfigMapExternalDeleted")
    assert (ended.type.name, tuple(ended.type.attributes)) == ("Failed", ("Transient",))
    assert {world.task_code(index=index) for index in range(2)} <= {-101, -220}
    assert all(world.task(index=index).state is State.COMPLETED for index in range(2))


def test_vanished_config_map_ends_the_attempt() -> None:
    """Statement 34: the ConfigMap and its pods were deleted unobserved."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.remove_config_map(and_pods=True)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -100)
    assert {world.task_code(index=index) for index in range(2)} <= {-101, -220}


@pytest.mark.parametrize("first", ["pods", "ConfigMap"])
def test_config_map_and_pods_vanish_in_any_order(first: str) -> None:
    """Statement 34: the pods of a deleted ConfigMap are deleted with it; no task policy recreates one meanwhile."""
    world = World(framework("job", role(tasks=2, retry=RETRY_IF_FAILED)))
    world.start()
    world.completes_deletions = False
    world.show_config_map_deleting()
    if first == "pods":
        world.remove_pod(index=0)
        world.remove_pod(index=1)
    world.settle()
    assert world.code == -100
    world.remove_config_map()
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -100)
    assert world.actions.count(CreatePod("worker", 0)) == 1


@pytest.mark.parametrize(
    ("policy", "accountable"),
    [(RetryPolicySpec(fancy_retry_policy=True), 0), (RETRY_IF_FAILED, 1)],
    ids=["fancy", "if-failed"],
)
@pytest.mark.parametrize("is_seen_deleting", [True, False], ids=["deleting", "gone"])
def test_external_deletion_is_retried(
    policy: RetryPolicySpec, accountable: int, is_seen_deleting: bool
) -> None:
    """Statements 25, 26 and 34: -100 is Transient."""
    world = World(framework("job", role(tasks=2), retry_policy=policy))
    world.start()
    assert world.config_map is not None
    old = world.config_map.uid
    if is_seen_deleting:
        world.completes_deletions = False
        world.show_config_map_deleting()
        world.settle()
        assert world.actions.count(CreateConfigMap()) == 1
    world.remove_config_map()
    world.settle()
    ended = world.attempt(0).completion_status
    assert ended is not None
    assert ended.code == -100
    retries = world.status.retry_policy_status
    assert (world.status.attempt_status.id, retries.accountable_retried_count) == (1, accountable)
    assert world.config_map.uid != old
    assert len(world.pods) == 2


def test_remaining_pods_of_a_deleted_config_map_are_deleted() -> None:
    """Statements 34 and 40: after a forced deletion, no new attempt starts while a pod of the old one exists."""
    world = World(framework("job", role(tasks=2), retry_policy=RETRY_IF_FAILED))
    world.start()
    old = {pod.uid for pod in world.pods.values()}
    world.completes_deletions = False
    world.remove_config_map(and_pods=False)
    world.settle()
    assert world.actions.count(CreateConfigMap()) == 1
    assert world.status.attempt_status.id == 0
    assert not world.state.is_over
    world.completes_deletions = True
    world.finish_deletions()
    world.pods = {name: pod for name, pod in world.pods.items() if pod.uid not in old}
    world.settle()
    assert world.status.attempt_status.id == 1
    assert world.actions.count(CreateConfigMap()) == 2
    ended = world.attempt(0).completion_status
    assert ended is not None
    assert ended.code == -100


@pytest.mark.parametrize("exit_code", [0, 5])
def test_completed_tasks_keep_their_code(exit_code: int) -> None:
    """Statements 16 and 34."""
    world = World(framework("job", role(tasks=3, min_failed=-1)))
    world.start()
    world.show_pod("Failed" if exit_code else "Succeeded", exit_code=exit_code)
    world.settle()
    world.remove_config_map()
    world.settle()
    assert (world.code, world.task_code(index=0)) == (-100, exit_code)
    assert {world.task_code(index=index) for index in (1, 2)} <= {-101, -220}


def test_externally_deleted_config_map_of_an_ending_framework() -> None:
    """Statements 11 and 16: the completion was decided before."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.completes_deletions = False
    world.fail(exit_code=7)
    world.settle()
    world.show_config_map_deleting()
    world.settle()
    assert (world.state, world.code) == (State.ATTEMPT_DELETING, 7)
    world.remove_config_map()
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, 7)
