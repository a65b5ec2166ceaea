"""Which statuses must be stored before acting, and which may be stored later."""

from collections.abc import Sequence

import builders
import msgspec
import pytest
from builders import NOW

from windlass.decide import initial_status, write_coalescing
from windlass.decide.types import (
    Action,
    CreateConfigMap,
    CreatePod,
    CreateService,
    DeleteAttemptPods,
    DeletePod,
)
from windlass.model.framework import Framework, StartAfter, StartCondition, TaskRoleSpec
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus

replace = msgspec.structs.replace


def started(tasks: int = 3) -> Framework:
    """Return a Framework whose ConfigMap exists and is stored."""
    return started_with(builders.role("worker", tasks))


def started_with(*roles: TaskRoleSpec) -> Framework:
    made = builders.framework("job", *roles)
    status = initial_status.framework_status(made, NOW)
    attempt = replace(status.attempt_status, config_map_uid="cm-1")
    return made.with_status(replace(status, state=State.ATTEMPT_PREPARING, attempt_status=attempt))


JOB = started()


def with_roles(framework: Framework, *tasks: tuple[TaskStatus, ...]) -> FrameworkStatus:
    status = framework.status
    assert status is not None
    roles = tuple(
        replace(role, task_statuses=each)
        for role, each in zip(status.attempt_status.roles, tasks, strict=True)
    )
    return replace(status, attempt_status=replace(status.attempt_status, task_role_statuses=roles))


def with_tasks(framework: Framework, *tasks: TaskStatus) -> FrameworkStatus:
    return with_roles(framework, tasks)


def tasks_of(framework: Framework, role: int = 0) -> tuple[TaskStatus, ...]:
    assert framework.status is not None
    return framework.status.attempt_status.roles[role].task_statuses


FIRST, SECOND, THIRD = tasks_of(JOB)
SHOWN = replace(FIRST, state=State.ATTEMPT_PREPARING)
"""The status to store after the first pod was created."""
PROGRESS = with_tasks(JOB, SHOWN, SECOND, THIRD)
REST = (CreatePod("worker", 1), CreatePod("worker", 2))


@pytest.mark.parametrize(
    ("framework", "wanted", "actions", "expected"),
    [
        pytest.param(JOB, PROGRESS, REST, True, id="the rest of the gang"),
        pytest.param(JOB, PROGRESS, (), True, id="nothing to do"),
        pytest.param(JOB, replace(PROGRESS, state=State.COMPLETED), (), False, id="the end"),
        pytest.param(replace(JOB, status=None), PROGRESS, REST, False, id="nothing stored yet"),
        pytest.param(JOB, PROGRESS, (*REST, DeletePod("x", "uid")), False, id="something is deleted too"),
        pytest.param(JOB, PROGRESS, (CreateConfigMap(),), True, id="what says whose it is"),
        pytest.param(
            replace(JOB, status=None), PROGRESS, (CreateService(),), True, id="also at the beginning"
        ),
        pytest.param(JOB, PROGRESS, (DeleteAttemptPods("cm-1"),), False, id="another act"),
        pytest.param(JOB, PROGRESS, (CreatePod("worker", 0),), False, id="a task that is not stored so"),
        pytest.param(
            JOB,
            with_tasks(JOB, FIRST, SECOND, THIRD, THIRD),
            (CreatePod("worker", 3),),
            False,
            id="a task that is not stored",
        ),
        pytest.param(JOB, PROGRESS, (CreatePod("ps", 0),), False, id="a role that is not stored"),
        pytest.param(
            JOB,
            replace(PROGRESS, attempt_status=replace(PROGRESS.attempt_status, config_map_uid="cm-2")),
            REST,
            False,
            id="another attempt",
        ),
    ],
)
def test_may_wait_if_no_action_needs_the_stored_status(
    framework: Framework, wanted: FrameworkStatus, actions: Sequence[Action], expected: bool
) -> None:
    assert write_coalescing.may_wait(framework, wanted, actions) is expected


@pytest.mark.parametrize("condition", list(StartCondition))
def test_start_condition_is_stored_before_the_first_pod_of_the_waiting_role(
    condition: StartCondition,
) -> None:
    waiting = replace(builders.role("worker", 2), start_after=(StartAfter("driver", condition),))
    framework = started_with(builders.role("driver", 1), waiting)
    driver, (first, second) = tasks_of(framework), tasks_of(framework, 1)
    done = (replace(driver[0], state=State.COMPLETED),)
    pods = (CreatePod("worker", 0), CreatePod("worker", 1))
    assert not write_coalescing.may_wait(framework, with_roles(framework, done, (first, second)), pods)
    assert write_coalescing.may_wait(framework, with_roles(framework, driver, (first, second)), pods)
    run = replace(first, state=State.ATTEMPT_RUNNING)
    has_started = framework.with_status(with_roles(framework, driver, (run, second)))
    assert write_coalescing.may_wait(has_started, with_roles(has_started, done, (run, second)), pods[1:])


def test_equal_task_is_not_the_stored_task() -> None:
    """A task with the same IDs is not sufficient: the created task must be the stored one."""
    reborn = with_tasks(JOB, SHOWN, replace(SECOND), THIRD)
    assert not write_coalescing.may_wait(JOB, reborn, REST)
