"""Rules of `completionPolicies` (statement B1): which rule completes the attempt, with which result."""

from typing import Any

import pytest
from builders import framework, role
from tests.decide.worlds import World

from windlass.model.completion import PERMANENT, TRANSIENT, CompletionCode, CompletionType
from windlass.model.failures import IntRange
from windlass.model.framework import CompletionRule, RetryPolicySpec
from windlass.model.pods import PodPhase
from windlass.model.states import State

RULE_FAILED = int(CompletionCode.COMPLETION_RULE_FAILED)
RETRY_ALL = RetryPolicySpec(max_retry_count=-1)
FANCY = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=5)


def world_with(*rules: CompletionRule, **roles: Any) -> World:
    """Return a started world with 3 workers and 2 ps whose own policies are disabled."""
    fields = {"min_failed": -1, "min_succeeded": -1, **roles}
    world = World(
        framework("job", role(tasks=3, **fields), role("ps", tasks=2, **fields), completion_policies=rules)
    )
    world.start()
    return world


def code_of(world: World) -> int | None:
    return world.code


def end(world: World, *ends: tuple[str, int, int]) -> None:
    for name, index, exit_code in ends:
        world.advance(10)
        if exit_code == 0:
            world.succeed(name, index)
        else:
            world.fail(name, index, exit_code)
        world.settle()


@pytest.mark.parametrize(
    ("rule", "ends", "code"),
    [
        ({"min_succeeded_task_count": 2}, [("worker", 0, 0)], None),
        ({"min_succeeded_task_count": 2}, [("worker", 0, 0), ("ps", 0, 0)], 0),
        ({"min_succeeded_task_count": 2, "task_roles": ("ps",)}, [("worker", 0, 0), ("ps", 0, 0)], None),
        ({"min_succeeded_task_count": 1, "task_indexes": "0"}, [("worker", 1, 0)], None),
        ({"min_succeeded_task_count": 1, "task_indexes": "0"}, [("worker", 0, 0)], 0),
        ({"min_failed_task_count": 2}, [("worker", 0, 3)], None),
        ({"min_failed_task_count": 2}, [("worker", 0, 3), ("ps", 1, 4)], RULE_FAILED),
        ({"min_failed_task_count": 1, "task_indexes": "1-2"}, [("worker", 0, 3)], None),
        ({"min_failed_task_count": 1, "task_indexes": "1-2"}, [("worker", 2, 3)], RULE_FAILED),
        ({"min_failed_task_count": 1, "code_ranges": (IntRange(5, 9),)}, [("worker", 0, 3)], None),
        ({"min_failed_task_count": 1, "code_ranges": (IntRange(5, 9),)}, [("worker", 0, 7)], RULE_FAILED),
        ({"min_failed_task_count": 1, "phrases": ("X",)}, [("worker", 0, 7)], None),
        (
            {"min_failed_task_count": 1, "phrases": ("X", "ContainerUnrecognizedFailed")},
            [("worker", 0, 7)],
            RULE_FAILED,
        ),
        ({"all_succeeded": True, "task_roles": ("ps",)}, [("ps", 0, 0)], None),
        ({"all_succeeded": True, "task_roles": ("ps",)}, [("ps", 0, 0), ("ps", 1, 0)], 0),
        ({"all_succeeded": True, "task_roles": ("ps",)}, [("ps", 0, 0), ("ps", 1, 1)], None),
        ({"all_succeeded": True, "task_indexes": "2"}, [("worker", 2, 0)], 0),
        # Ranges may overlap and be in any order, and may exceed the number of tasks.
        ({"all_succeeded": True, "task_indexes": "2-9,0-2,1", "task_roles": ("ps",)}, [("ps", 0, 0)], None),
        (
            {"all_succeeded": True, "task_indexes": "1-9,0-1,1", "task_roles": ("ps",)},
            [("ps", 0, 0), ("ps", 1, 0)],
            0,
        ),
        ({"min_failed_task_count": 2, "task_indexes": "0-1,1-2"}, [("worker", 1, 3)], None),
        ({"min_failed_task_count": 1, "task_roles": ("ps",), "after_all": True}, [("ps", 0, 1)], None),
        (
            {"min_failed_task_count": 1, "task_roles": ("ps",), "after_all": True},
            [("ps", 0, 1), ("ps", 1, 0)],
            RULE_FAILED,
        ),
        ({"min_failed_attempt_count": 2}, [("worker", 0, 1), ("ps", 0, 1)], RULE_FAILED),
    ],
)
def test_rule_is_met_by_the_selected_tasks(
    rule: dict[str, Any], ends: list[tuple[str, int, int]], code: int | None
) -> None:
    world = world_with(CompletionRule(**rule))
    end(world, *ends)
    assert code_of(world) == code


def test_first_rule_that_is_met_decides() -> None:
    failure = CompletionRule(name="failure", min_failed_task_count=1)
    success = CompletionRule(name="success", min_succeeded_task_count=1)
    for rules, code in (((failure, success), RULE_FAILED), ((success, failure), 0)):
        world = world_with(*rules)
        world.succeed("worker", 0)
        world.fail("worker", 1)
        world.settle()
        assert code_of(world) == code


def test_rules_precede_the_policies_of_roles() -> None:
    world = world_with(CompletionRule(min_succeeded_task_count=1), min_failed=1)
    world.succeed("worker", 1)
    world.fail("worker", 0)
    world.settle()
    assert code_of(world) == 0


def test_policies_of_roles_apply_while_no_rule_is_met() -> None:
    world = world_with(CompletionRule(min_succeeded_task_count=1), min_failed=1)
    end(world, ("worker", 0, 9))
    assert code_of(world) == 9


def test_trigger_is_the_task_that_met_the_rule() -> None:
    world = world_with(CompletionRule(name="limit", min_failed_task_count=2))
    end(world, ("worker", 2, 3), ("ps", 1, 4))
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.trigger is not None
    assert (ended.trigger.task_role_name, ended.trigger.task_index) == ("ps", 1)
    assert ended.trigger.message == "limit: 2 tasks have failed (minFailedTaskCount)"


def test_failed_attempts_are_summed_over_retries_of_all_tasks() -> None:
    """The attempt ends before the failed task is retried, so that its failure remains in the status."""
    world = world_with(CompletionRule(min_failed_attempt_count=3), retry=RETRY_ALL)
    for name, index in (("worker", 0), ("ps", 1)):
        end(world, (name, index, 1))
        world.run_pods()
        world.settle()
    end(world, ("worker", 0, 5))
    assert code_of(world) == RULE_FAILED
    assert world.task_code("worker", 0) == 5
    assert world.task("worker", 0).retry_policy_status.total_retried_count == 1


def test_uncounted_retries_are_no_failed_attempts() -> None:
    world = world_with(CompletionRule(min_failed_attempt_count=1), retry=FANCY)
    end(world, ("worker", 0, 200))
    assert code_of(world) is None
    assert world.task("worker", 0).retry_policy_status.total_retried_count == 1
    end(world, ("worker", 1, 1))
    assert code_of(world) == RULE_FAILED


def test_failed_attempt_that_waits_for_its_retry_counts_once() -> None:
    policy = RetryPolicySpec(max_retry_count=-1, retry_backoff=None)
    world = world_with(CompletionRule(min_failed_attempt_count=2), retry=policy)
    end(world, ("worker", 0, 1))
    world.settle()
    assert code_of(world) is None


def test_container_restarts_are_summed_over_pods() -> None:
    world = world_with(CompletionRule(min_container_restart_count=3, phases=(PodPhase.RUNNING,)))
    world.show_pod("Running", "worker", 0, restarts=2)
    world.show_pod("Pending", "ps", 0, restarts=5)
    world.settle()
    assert code_of(world) is None
    world.show_pod("Running", "ps", 1, restarts=1)
    world.settle()
    assert code_of(world) == RULE_FAILED
    ended = world.status.attempt_status.completion_status
    assert ended is not None
    assert ended.diagnostics == "containers have restarted 3 times (minContainerRestartCount 3)"


def test_container_restarts_are_known_to_the_next_controller() -> None:
    world = world_with(CompletionRule(min_container_restart_count=2))
    world.show_pod("Running", "worker", 0, restarts=1)
    world.settle()
    world.restart()
    world.show_pod("Running", "worker", 1, restarts=1)
    world.settle()
    assert code_of(world) == RULE_FAILED


def test_restarts_of_a_replaced_pod_do_not_count() -> None:
    world = world_with(CompletionRule(min_container_restart_count=2), retry=RETRY_ALL)
    world.show_pod("Failed", "worker", 0, exit_code=1, restarts=1)
    world.settle()
    world.show_pod("Running", "worker", 0, restarts=1)
    world.settle()
    assert code_of(world) is None


@pytest.mark.parametrize(
    ("rule_type", "exit_code", "is_retried"),
    [
        (None, 1, True),
        (None, 210, False),
        (PERMANENT, 1, False),
        (CompletionType(), 210, True),
        (TRANSIENT, 210, True),
    ],
)
def test_type_of_a_rule_decides_whether_the_framework_is_retried(
    rule_type: CompletionType | None, exit_code: int, is_retried: bool
) -> None:
    rule = CompletionRule(min_failed_task_count=1, type=rule_type)
    world = World(framework("job", role(min_failed=-1), completion_policies=(rule,), retry_policy=FANCY))
    world.start()
    world.fail(exit_code=exit_code)
    world.settle()
    retries = world.status.retry_policy_status
    assert (retries.total_retried_count == 1) == is_retried
    assert (retries.accountable_retried_count == 1) == (is_retried and rule_type is not TRANSIENT)


def test_all_succeeded_waits_for_tasks_of_a_scale_up() -> None:
    world = world_with(CompletionRule(all_succeeded=True, task_roles=("ps",)))
    end(world, ("ps", 0, 0))
    world.edit_role("ps", task_number=3)
    end(world, ("ps", 1, 0))
    assert code_of(world) is None
    world.run_pods()
    end(world, ("ps", 2, 0))
    assert code_of(world) == 0


def test_tasks_of_a_scale_down_do_not_count() -> None:
    world = world_with(CompletionRule(min_failed_task_count=1, min_failed_attempt_count=None))
    world.completes_deletions = False
    world.edit_role("worker", task_number=2)
    world.settle()
    world.fail("worker", 2)
    world.settle()
    assert code_of(world) is None
    assert world.state is State.ATTEMPT_RUNNING


def test_no_rule_is_met_by_an_empty_selection() -> None:
    world = world_with(CompletionRule(all_succeeded=True, task_indexes="7"))
    end(world, ("worker", 0, 0))
    assert code_of(world) is None
