"""Conditions and the summary (A6)."""

from datetime import datetime

import pytest
from builders import at, role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.model.framework import CompletedPods, ExecutionType, RetryPolicySpec
from windlass.model.states import State
from windlass.model.status import ConditionType, Summary

COMPLETE, FAILED = ConditionType.COMPLETE, ConditionType.FAILED
SUSPENDED, NAME_TAKEN = ConditionType.SUSPENDED, ConditionType.NAME_TAKEN


def true_conditions(world: ObjectWorld) -> set[str]:
    return {condition.type for condition in world.status.conditions if condition.is_true}


def since(world: ObjectWorld, kind: ConditionType) -> datetime:
    condition = world.status.condition(kind)
    assert condition is not None
    return condition.last_transition_time


def assert_well_formed(world: ObjectWorld) -> None:
    types = [condition.type for condition in world.status.conditions]
    assert len(types) == len(set(types)), "one of each type"
    assert {condition.status for condition in world.status.conditions} <= {"True", "False"}


def test_running_framework_has_no_true_condition(running_world: NewWorld) -> None:
    assert true_conditions(running_world(role(tasks=1))) == set()


@pytest.mark.parametrize("completed_pods", list(CompletedPods))
@pytest.mark.parametrize(("exit_code", "expected"), [(0, COMPLETE), (1, FAILED)])
def test_completed_framework_has_complete_or_failed(
    running_world: NewWorld, completed_pods: CompletedPods, exit_code: int, expected: ConditionType
) -> None:
    """`kubectl wait --for=condition=Complete` returns for a success, and only when it is Completed."""
    world = running_world(role(tasks=1), completed_pods=completed_pods)
    world.wait(10)
    world.end(0, exit_code)
    world.settle()
    if world.state() is not State.COMPLETED:
        assert true_conditions(world) == set(), "its pods are still going"
    world.wait(10)
    world.finish()
    assert true_conditions(world) == {expected}
    assert since(world, expected) == world.status.completion_time
    assert_well_formed(world)


def test_stopped_framework_is_failed(running_world: NewWorld) -> None:
    """-210 is of type Failed (statement 18)."""
    world = running_world(role(tasks=1))
    world.edit(execution_type=ExecutionType.STOP)
    world.finish()
    assert true_conditions(world) == {FAILED}


def test_retried_attempt_does_not_set_failed(running_world: NewWorld) -> None:
    world = running_world(role(tasks=1), retry_policy=RetryPolicySpec(max_retry_count=1))
    world.end(0, 1)
    world.finish()
    assert world.status.attempt_status.id == 1
    assert true_conditions(world) == set()


def test_condition_of_a_completed_framework_keeps_its_time(running_world: NewWorld) -> None:
    world = running_world(role(tasks=1))
    world.end(0, 0)
    world.finish()
    before = world.status.conditions
    for seconds in (1, 100, 10_000):
        world.wait(seconds)
        world.edit(description=str(seconds))
        world.settle()
        assert world.status.conditions == before


def test_suspended_becomes_true_and_false(running_world: NewWorld) -> None:
    """A3: true while it waits without pods; lastTransitionTime changes only with the status."""
    world = running_world(role(tasks=1))
    world.wait(10)
    world.edit(suspend=True)
    world.finish()
    assert true_conditions(world) == {SUSPENDED}
    began = since(world, SUSPENDED)
    assert began == at(10)
    world.wait(100)
    world.edit(description="still")
    world.settle()
    assert since(world, SUSPENDED) == began
    world.wait(100)
    world.edit(suspend=False)
    world.settle()
    assert true_conditions(world) == set()
    resumed = world.status.condition(SUSPENDED)
    if resumed is not None:
        assert (resumed.status, resumed.last_transition_time) == ("False", at(210))
    world.wait(100)
    world.edit(suspend=True)
    world.finish()
    assert since(world, SUSPENDED) == at(310)
    assert_well_formed(world)


def test_framework_created_suspended(new_world: NewWorld) -> None:
    world = new_world(role(tasks=1), suspend=True)
    assert world.settle() == []
    assert true_conditions(world) == {SUSPENDED}
    assert world.state() is State.ATTEMPT_CREATION_PENDING


def test_create_overrides_suspend(new_world: NewWorld) -> None:
    """A3: with Create, it does not start when it is resumed."""
    world = new_world(role(tasks=1), suspend=True, execution_type=ExecutionType.CREATE)
    assert world.settle() == []
    world.edit(suspend=False)
    assert world.settle() == []
    assert true_conditions(world) == set()
    assert world.state() is State.ATTEMPT_CREATION_PENDING


def test_stop_clears_suspended(running_world: NewWorld) -> None:
    """A3: Stop overrides suspend."""
    world = running_world(role(tasks=1))
    world.edit(suspend=True)
    world.finish()
    world.wait(10)
    world.edit(execution_type=ExecutionType.STOP)
    world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, -210)
    assert true_conditions(world) == {FAILED}


def test_suspend_does_not_change_a_completed_framework(running_world: NewWorld) -> None:
    world = running_world(role(tasks=1))
    world.end(0, 0)
    world.finish()
    world.edit(suspend=True)
    world.wait(10)
    world.settle()
    assert true_conditions(world) == {COMPLETE}


def test_name_taken_becomes_true_and_false(new_world: NewWorld) -> None:
    """The condition has the error of the API server, and becomes false when the name is free."""
    world = new_world(role(tasks=1))
    world.step()
    assert true_conditions(world) == set()
    world.name_taken_message = "ConfigMap job-attempt already exists"
    world.postponed["job-attempt"] = at(5)
    decision = world.step()
    assert decision.wake_at == at(5)
    assert true_conditions(world) == {NAME_TAKEN}
    condition = world.status.condition(NAME_TAKEN)
    assert condition is not None
    assert "job-attempt" in condition.message
    assert condition.last_transition_time == at(0)
    world.wait(5)
    world.postponed["job-attempt"] = at(15)
    world.step()
    assert since(world, NAME_TAKEN) == at(0), "still taken"
    world.wait(10)
    world.postponed.clear()
    world.name_taken_message = ""
    world.settle()
    assert true_conditions(world) == set()
    assert world.state() is State.ATTEMPT_PREPARING
    assert_well_formed(world)


def test_name_taken_is_reported_once(new_world: NewWorld) -> None:
    """One event, not one per try."""
    world = new_world(role(tasks=1))
    world.step()
    world.name_taken_message = "ConfigMap job-attempt already exists"
    world.postponed["job-attempt"] = at(5)
    first = [reason.kind for reason in world.step().reasons]
    assert first == ["NameTaken"]
    world.wait(1)
    assert world.step().reasons == ()


# Summary


def test_summary_follows_the_tasks(new_world: NewWorld) -> None:
    world = new_world(role(tasks=4, min_failed=-1), role("ps", 1))
    world.step()
    assert world.status.summary == Summary(tasks=5)
    world.settle()
    assert world.status.summary == Summary(tasks=5)
    world.run(0, 1, 2)
    world.settle()
    assert world.status.summary == Summary(tasks=5, running=3)
    world.end(0, 0)
    world.end(1, 1)
    world.settle()
    assert world.status.summary == Summary(tasks=5, running=1, succeeded=1, failed=1)


def test_summary_of_a_completed_framework(running_world: NewWorld) -> None:
    """Tasks that ended with the attempt (-220) neither succeeded nor failed."""
    world = running_world(role(tasks=3, min_succeeded=1))
    world.end(0, 0)
    world.finish()
    assert world.code() == 0
    assert world.status.summary == Summary(tasks=3, running=0, succeeded=1, failed=0)


def test_summary_restarts_with_a_new_attempt(running_world: NewWorld) -> None:
    world = running_world(role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=1))
    world.end(0, 1)
    world.finish()
    assert world.status.attempt_status.id == 1
    assert world.status.summary == Summary(tasks=2)


def test_task_with_a_terminating_pod_is_not_running(running_world: NewWorld) -> None:
    """Only AttemptRunning is running."""
    world = running_world(role(tasks=2))
    world.begin_deletion("job-worker-1")
    world.step()
    assert world.task(1).state is State.ATTEMPT_DELETING
    assert world.status.summary == Summary(tasks=2, running=1)
