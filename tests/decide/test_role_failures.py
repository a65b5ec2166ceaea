"""Failure classes of a role (statement B2): which failures they match, and how these are retried."""

import msgspec
import pytest
from builders import framework, role
from tests.decide.worlds import World

from windlass.model.completion import PERMANENT, TRANSIENT, CompletionType
from windlass.model.failures import ApiFailure, ContainerPattern, IntRange, PodPattern, TaskFailureClass
from windlass.model.framework import RetryPolicySpec, TaskRoleSpec

FANCY = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=1)


def worker(*classes: TaskFailureClass) -> TaskRoleSpec:
    spec = role(min_failed=-1, retry=FANCY)
    return msgspec.structs.replace(spec, task=msgspec.structs.replace(spec.task, pod_failure_spec=classes))


def world_with(*classes: TaskFailureClass) -> World:
    world = World(framework("job", worker(*classes), role("ps", min_failed=-1)))
    world.start()
    return world


def exit_codes(low: int, high: int, name: str = "") -> tuple[PodPattern, ...]:
    return (PodPattern(containers=(ContainerPattern(name_regex=name, code_range=IntRange(low, high)),)),)


def attributes(world: World) -> tuple[str, ...]:
    """Return the attributes of the failure as announced with the retry or stored in the status."""
    ended = world.task().attempt_status.completion_status
    if ended is None:
        announced = [each.task for decision in world.decisions for each in decision.reasons if each.task]
        ended = announced[-1].attempt_status.completion_status
    assert ended is not None
    return ended.type.attributes


@pytest.mark.parametrize(
    ("failure", "exit_code", "expected"),
    [
        (TaskFailureClass(type=TRANSIENT), 1, ("Transient",)),
        (TaskFailureClass(type=TRANSIENT, pod_patterns=exit_codes(1, 127)), 127, ("Transient",)),
        (TaskFailureClass(type=TRANSIENT, pod_patterns=exit_codes(1, 127)), 128, ()),
        (TaskFailureClass(type=TRANSIENT, pod_patterns=exit_codes(1, 127, "^main$")), 3, ("Transient",)),
        (TaskFailureClass(type=TRANSIENT, pod_patterns=exit_codes(1, 127, "^other$")), 3, ()),
        (TaskFailureClass(type=PERMANENT, code_ranges=(IntRange(200, 200),)), 200, ("Permanent",)),
        (TaskFailureClass(type=TRANSIENT, code_ranges=(IntRange(210, 210),)), 210, ("Transient",)),
        (TaskFailureClass(code_ranges=(IntRange(210, 210),)), 210, ()),
        (TaskFailureClass(type=PERMANENT, condition_types=("DisruptionTarget",)), 1, ()),
    ],
)
def test_class_matches_if_all_its_fields_match(
    failure: TaskFailureClass, exit_code: int, expected: tuple[str, ...]
) -> None:
    """Also exit codes that no configuration of the controller can override."""
    world = world_with(failure)
    world.fail(exit_code=exit_code)
    world.settle()
    assert attributes(world) == expected


def test_class_matches_pod_conditions() -> None:
    world = world_with(TaskFailureClass(type=PERMANENT, condition_types=("Ready", "DisruptionTarget")))
    world.show_pod("Failed", exit_code=1, conditions=("DisruptionTarget",))
    world.settle()
    assert attributes(world) == ("Permanent",)


def test_first_class_that_matches_decides() -> None:
    world = world_with(
        TaskFailureClass(code=1000, phrase="First", type=PERMANENT, code_ranges=(IntRange(3, 3),)),
        TaskFailureClass(code=1001, phrase="Second", type=PERMANENT),
    )
    world.fail(exit_code=3)
    world.settle()
    ended = world.task().attempt_status.completion_status
    assert ended is not None
    assert (ended.code, ended.phrase) == (1000, "First")


def test_class_without_code_keeps_code_and_phrase() -> None:
    world = world_with(TaskFailureClass(type=PERMANENT))
    world.fail(exit_code=3)
    world.settle()
    ended = world.task().attempt_status.completion_status
    assert ended is not None
    assert (ended.code, ended.phrase, ended.type) == (3, "ContainerUnrecognizedFailed", PERMANENT)


def test_class_matches_deleted_pods_by_their_code() -> None:
    world = world_with(TaskFailureClass(type=PERMANENT, code_ranges=(IntRange(-101, -101),)))
    world.remove_pod()
    world.settle()
    assert world.task().is_completed
    assert attributes(world) == ("Permanent",)


def test_class_matches_the_conditions_of_a_pod_that_is_being_deleted() -> None:
    world = world_with(TaskFailureClass(type=PERMANENT, condition_types=("DisruptionTarget",)))
    world.show_pod("Running", conditions=("DisruptionTarget",))
    world.show_pod_deleting()
    world.settle()
    assert attributes(world) == ("Permanent",)


def test_class_matches_rejected_pods_by_their_code() -> None:
    world = World(framework("job", worker(TaskFailureClass(phrase="Rejected")), role("ps", min_failed=-1)))
    world.refusals["job-worker-0"] = ApiFailure(422, "Invalid", "no")
    world.start()
    ended = world.task().attempt_status.completion_status
    assert ended is not None
    assert (ended.code, ended.phrase) == (-200, "Rejected")


def test_classes_of_a_role_do_not_apply_to_other_roles_and_successes() -> None:
    world = world_with(TaskFailureClass(code=1000, type=PERMANENT))
    world.succeed()
    world.fail("ps", exit_code=3)
    world.settle()
    assert (world.task_code(), world.task_code("ps")) == (0, 3)


def test_tasks_that_end_with_the_attempt_keep_their_code() -> None:
    world = world_with(TaskFailureClass(code=1000, type=CompletionType()))
    world.edit(suspend=True)
    world.settle()
    world.edit_role("worker", task_number=1)
    codes = {
        task.attempt_status.completion_status.code
        for status in world.history
        for each in status.attempt_status.roles
        for task in each.task_statuses
        if task.attempt_status.completion_status is not None
    }
    assert codes == {-220}
