"""Instance UIDs of attempts, roles and tasks (statement 4)."""

import uuid

from builders import framework, role
from tests.decide.worlds import World

from windlass.decide.types import CreateConfigMap
from windlass.model.framework import RetryPolicySpec

ALWAYS = RetryPolicySpec(max_retry_count=-2)


def test_instance_uids_consist_of_attempt_and_object() -> None:
    """Statement 4, over a retry of a task and one of the Framework."""
    retry = RetryPolicySpec(max_retry_count=1)
    world = World(framework("job", role(retry=retry), retry_policy=retry))
    seen = []
    for _ in range(3):
        world.start()
        assert world.config_map is not None
        attempt, task_attempt = world.status.attempt_status, world.task().attempt_status
        assert attempt.instance_uid == f"{attempt.id}_{world.config_map.uid}"
        assert task_attempt.instance_uid == f"{task_attempt.id}_{world.pod().uid}"
        seen.append((attempt.id, task_attempt.id))
        world.fail()
        world.settle()
    assert seen == [(0, 0), (0, 1), (1, 0)]
    assert world.actions.count(CreateConfigMap()) == 2


def test_roles_and_tasks_have_new_uuids() -> None:
    """Statement 4: different for every role, task, Framework attempt and Framework."""
    found = []
    for uid in ("one", "two"):
        world = World(framework("job", role("ps", 2), role("worker", 2), uid=uid, retry_policy=ALWAYS))
        for _ in range(2):
            world.start()
            for status in world.status.attempt_status.roles:
                found += [status.instance_uid, *(task.instance_uid for task in status.task_statuses)]
            world.fail()
            world.settle()
    assert len(found) == 2 * 2 * 6
    assert len({str(uuid.UUID(item)) for item in found}) == len(found)
