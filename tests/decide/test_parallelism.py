"""Parallelism of a role (statement B4): how many pods exist at a time, and which."""

import msgspec
from builders import framework, role
from tests.decide.worlds import World

from windlass.decide import parallelism
from windlass.model.framework import RetryBackoff, RetryPolicySpec, TaskRoleSpec


def limited(limit: int, tasks: int = 5, retries: int = 0) -> TaskRoleSpec:
    spec = role(tasks=tasks, min_failed=-1, retry=RetryPolicySpec(max_retry_count=retries))
    return msgspec.structs.replace(spec, parallelism=limit)


def world_with(worker: TaskRoleSpec) -> World:
    world = World(framework("job", worker, role("ps", tasks=3, min_failed=-1)))
    world.start()
    return world


def live(world: World) -> list[int]:
    """Return the indexes of the workers whose pods have not ended."""
    pods = (pod for pod in world.pods.values() if not pod.is_terminal)
    labels = (pod.metadata.labels for pod in pods)
    return sorted(int(each.task_index) for each in labels if each.role_name == "worker")


def test_lowest_indexes_start_first() -> None:
    world = world_with(limited(2))
    assert live(world) == [0, 1]
    assert sum("ps" in name for name in world.pods) == 3


def test_ended_pod_makes_room_for_the_next_index() -> None:
    world = world_with(limited(2))
    world.succeed("worker", 0)
    world.settle()
    assert live(world) == [1, 2]
    world.fail("worker", 2)
    world.settle()
    assert live(world) == [1, 3]


def test_retried_task_comes_before_higher_indexes() -> None:
    world = world_with(limited(2, retries=1))
    world.fail("worker", 0)
    world.settle()
    assert live(world) == [0, 1]


def test_terminating_pod_still_takes_its_place() -> None:
    world = world_with(limited(2, retries=1))
    world.show_pod_deleting("worker", 0)
    world.settle()
    assert live(world) == [0, 1]
    world.remove_pod("worker", 0)
    world.settle()
    assert live(world) == [0, 1]


def test_task_that_waits_for_its_retry_keeps_its_place() -> None:
    spec = limited(2, retries=1)
    policy = msgspec.structs.replace(spec.task.retry_policy, retry_backoff=RetryBackoff(10, 10))
    world = world_with(
        msgspec.structs.replace(spec, task=msgspec.structs.replace(spec.task, retry_policy=policy))
    )
    world.fail("worker", 0)
    world.settle()
    assert live(world) == [1]
    world.wake()
    assert live(world) == [0, 1]


def test_all_tasks_run_in_the_end() -> None:
    world = world_with(limited(2))
    for index in range(5):
        assert len(live(world)) <= 2
        world.run_pods()
        world.settle()
        world.succeed("worker", index)
        world.settle()
    assert [world.task_code("worker", index) for index in range(5)] == [0] * 5


def test_raised_limit_creates_more_pods_and_lowered_limit_deletes_none() -> None:
    world = world_with(limited(2))
    world.edit_role("worker", parallelism=4)
    world.settle()
    assert live(world) == [0, 1, 2, 3]
    world.edit_role("worker", parallelism=1)
    world.settle()
    assert live(world) == [0, 1, 2, 3]


def test_pod_with_unknown_result_of_its_creation_comes_first() -> None:
    """It may exist although the cache does not have it: a lower index would be one pod too many."""
    pending = [
        each for each in world_with(limited(1, tasks=3)).status.attempt_status.roles if each.name == "worker"
    ]
    missing = list(pending[0].task_statuses[1:])
    allowed = parallelism.limit(limited(2, tasks=3), pending[0].task_statuses, missing, {"job-worker-2"})
    assert [task.index for task in allowed] == [2]


def test_waiting_tasks_do_not_exceed_the_pending_deadline() -> None:
    world = world_with(limited(1))
    world.edit(pending_deadline_seconds=10)
    world.advance(600)
    world.settle()
    assert world.code is None
