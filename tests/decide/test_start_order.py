"""Start order of roles (statement B3): which pods wait, and what happens if they would wait forever."""

import msgspec
import pytest
from builders import framework, role
from tests.decide.worlds import World

from windlass.model.completion import CompletionCode
from windlass.model.framework import (
    CompletionRule,
    RetryPolicySpec,
    StartAfter,
    StartCondition,
    TaskRoleSpec,
)
from windlass.model.states import State

RUNNING, READY, SUCCEEDED = StartCondition.RUNNING, StartCondition.READY, StartCondition.SUCCEEDED


def after(*conditions: StartAfter) -> TaskRoleSpec:
    return msgspec.structs.replace(role(tasks=2), start_after=conditions)


def world_with(condition: StartCondition, min_task_count: int | None = None, **ps: object) -> World:
    """Return a settled world in which 2 workers wait for 2 ps."""
    first = role("ps", tasks=2, min_failed=-1, **ps)  # type: ignore[arg-type]
    start = StartAfter("ps", condition, min_task_count)
    world = World(framework("job", after(start), first))
    world.settle()
    return world


def workers(world: World) -> list[str]:
    return sorted(name for name in world.pods if "worker" in name)


@pytest.mark.parametrize("condition", StartCondition)
def test_pods_are_created_when_all_tasks_have_reached_the_condition(condition: StartCondition) -> None:
    world = world_with(condition)

    def reach(index: int) -> None:
        if condition is SUCCEEDED:
            world.succeed("ps", index)
        else:
            world.show_pod("Running", "ps", index, conditions=("Ready",) if condition is READY else ())

    world.settle()
    assert workers(world) == []
    reach(0)
    world.settle()
    assert workers(world) == []
    reach(1)
    world.settle()
    assert workers(world) == ["job-worker-0", "job-worker-1"]


@pytest.mark.parametrize(("condition", "is_enough"), [(RUNNING, True), (READY, False), (SUCCEEDED, False)])
def test_running_pods_are_enough_only_for_running(condition: StartCondition, is_enough: bool) -> None:
    world = world_with(condition)
    world.run_pods()
    world.settle()
    assert bool(workers(world)) == is_enough


@pytest.mark.parametrize("condition", StartCondition)
def test_success_reaches_every_condition(condition: StartCondition) -> None:
    world = world_with(condition)
    world.succeed("ps", 0)
    world.succeed("ps", 1)
    world.settle()
    assert len(workers(world)) == 2


def test_min_task_count_tasks_are_enough() -> None:
    world = world_with(RUNNING, min_task_count=1)
    world.run("ps", 1)
    world.settle()
    assert len(workers(world)) == 2


def test_started_role_does_not_wait_again() -> None:
    """Not even after a restart of the controller, when a task of it is retried and the other role is not ready."""
    world = world_with(READY)
    world.edit_role(
        "worker", task=msgspec.structs.replace(role().task, retry_policy=RetryPolicySpec(max_retry_count=1))
    )
    for index in range(2):
        world.show_pod("Running", "ps", index, conditions=("Ready",))
    world.settle()
    world.run_pods()
    world.settle()
    world.show_pod("Running", "ps", 0)
    world.restart()
    world.fail("worker", 0)
    world.settle()
    assert world.task("worker", 0).attempt_status.id == 1
    assert world.has_pod("worker", 0)


def test_scale_up_of_a_started_role_does_not_wait() -> None:
    world = world_with(READY)
    for index in range(2):
        world.show_pod("Running", "ps", index, conditions=("Ready",))
    world.settle()
    world.show_pod("Running", "ps", 0)
    world.edit_role("worker", task_number=3)
    world.settle()
    assert len(workers(world)) == 3


def test_role_waits_again_in_the_next_attempt() -> None:
    world = world_with(RUNNING)
    world.edit(retry_policy=RetryPolicySpec(max_retry_count=1))
    world.run_pods()
    world.settle()
    world.run_pods()
    world.settle()
    world.fail("worker", 0)
    world.settle()
    assert world.status.attempt_status.id == 1
    assert workers(world) == []


def test_retried_task_still_counts_as_having_run() -> None:
    world = world_with(RUNNING, retry=RetryPolicySpec(max_retry_count=1))
    world.run("ps", 0)
    world.settle()
    world.fail("ps", 0)
    world.settle()
    world.run("ps", 1)
    world.settle()
    assert len(workers(world)) == 2


def test_scale_up_delays_a_role_that_has_not_started() -> None:
    world = world_with(RUNNING)
    world.run("ps", 0)
    world.edit_role("ps", task_number=3)
    world.run("ps", 1)
    world.settle()
    assert workers(world) == []
    world.run("ps", 2)
    world.settle()
    assert len(workers(world)) == 2


def test_role_without_tasks_is_not_waited_for() -> None:
    world = World(framework("job", after(StartAfter("ps", SUCCEEDED)), role("ps", tasks=0)))
    world.settle()
    assert len(workers(world)) == 2


def test_unreachable_condition_ends_the_attempt() -> None:
    world = world_with(SUCCEEDED)
    world.fail("ps", 1)
    world.settle()
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.code == CompletionCode.START_CONDITION_UNREACHABLE
    assert ended.diagnostics == (
        "worker cannot start: it waits for ps to succeed (startAfter), but ps-1 has completed without"
    )


def test_condition_stays_reachable_while_enough_tasks_remain() -> None:
    world = world_with(SUCCEEDED, min_task_count=1)
    world.fail("ps", 1)
    world.settle()
    assert world.code is None
    world.succeed("ps", 0)
    world.settle()
    assert len(workers(world)) == 2


def test_policies_precede_an_unreachable_condition() -> None:
    rule = CompletionRule(min_failed_task_count=1)
    world = World(
        framework(
            "job",
            after(StartAfter("ps", SUCCEEDED)),
            role("ps", min_failed=-1),
            completion_policies=(rule,),
        )
    )
    world.settle()
    world.fail("ps")
    world.settle()
    assert world.code == CompletionCode.COMPLETION_RULE_FAILED


def test_pending_deadline_does_not_count_the_wait() -> None:
    world = world_with(READY)
    world.edit(pending_deadline_seconds=60)
    world.run_pods()
    world.settle()
    world.advance(3600)
    world.settle()
    assert world.code is None
    for index in range(2):
        world.show_pod("Running", "ps", index, conditions=("Ready",))
    world.settle()
    world.advance(61)
    world.settle()
    assert world.code == CompletionCode.PENDING_DEADLINE_EXCEEDED


def test_suspended_framework_starts_in_order_again() -> None:
    world = world_with(RUNNING)
    world.run_pods()
    world.settle()
    world.edit(suspend=True)
    world.settle()
    assert world.pods == {}
    world.edit(suspend=False)
    world.settle()
    assert world.state is State.ATTEMPT_PREPARING
    assert sorted(world.pods) == ["job-ps-0", "job-ps-1"]
