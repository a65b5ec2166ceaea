"""Mapping of the controller's nine states to common words."""

from typing import Any

import builders
import msgspec
import pytest

from windlass.client import views
from windlass.client.views import JobState, TaskState
from windlass.decide import initial_status
from windlass.model import completion
from windlass.model.completion import CompletionCode
from windlass.model.framework import ExecutionType, Framework
from windlass.model.states import State
from windlass.model.status import Condition, ConditionType, FrameworkStatus
from windlass.wire import codec

NOW = builders.NOW


def framework(state: State | None = None, *, code: CompletionCode | None = None, **spec: Any) -> Framework:
    made = builders.framework("job", builders.role(tasks=2), **spec)
    if state is None:
        return made
    status = initial_status.framework_status(made, NOW)
    ended = None if code is None else completion.framework_completion(code, "because of it")
    attempt = msgspec.structs.replace(status.attempt_status, completion_status=ended)
    return made.with_status(msgspec.structs.replace(status, state=state, attempt_status=attempt))


def blocked(kind: ConditionType) -> Framework:
    found = framework(State.ATTEMPT_CREATION_PENDING)
    assert found.status is not None
    condition = Condition(type=kind, status="True", last_transition_time=NOW, message="it is so")
    status: FrameworkStatus = msgspec.structs.replace(found.status, conditions=(condition,))
    return found.with_status(status)


def deleting(found: Framework) -> Framework:
    metadata = msgspec.structs.replace(found.metadata, deletion_timestamp=NOW)
    return msgspec.structs.replace(found, metadata=metadata)


CASES: dict[str, tuple[Framework, JobState, str]] = {
    "no status": (framework(), JobState.SUBMITTED, ""),
    "held": (
        framework(State.ATTEMPT_CREATION_PENDING, execution_type=ExecutionType.CREATE),
        JobState.HELD,
        "",
    ),
    "suspended": (framework(State.ATTEMPT_CREATION_PENDING, suspend=True), JobState.SUSPENDED, ""),
    "about to be suspended": (framework(State.ATTEMPT_RUNNING, suspend=True), JobState.RUNNING, ""),
    "wanted": (framework(State.ATTEMPT_CREATION_PENDING), JobState.PENDING, ""),
    "prepared": (framework(State.ATTEMPT_PREPARING), JobState.PENDING, ""),
    "running": (framework(State.ATTEMPT_RUNNING), JobState.RUNNING, ""),
    "ending": (
        framework(State.ATTEMPT_DELETING, code=CompletionCode.POD_EXTERNAL_DELETED),
        JobState.STOPPING,
        "because of it",
    ),
    "between two attempts": (
        framework(State.ATTEMPT_COMPLETED, code=CompletionCode.POD_EXTERNAL_DELETED),
        JobState.RETRYING,
        "because of it",
    ),
    "succeeded": (
        framework(State.COMPLETED, code=CompletionCode.SUCCEEDED),
        JobState.SUCCEEDED,
        "",
    ),
    "failed": (
        framework(State.COMPLETED, code=CompletionCode.CONTAINER_PERMANENT_FAILED),
        JobState.FAILED,
        "because of it",
    ),
    "stopped": (
        framework(State.COMPLETED, code=CompletionCode.STOP_FRAMEWORK_REQUESTED),
        JobState.STOPPED,
        "",
    ),
    "name taken": (blocked(ConditionType.NAME_TAKEN), JobState.BLOCKED, "it is so"),
    "invalid spec": (blocked(ConditionType.INVALID), JobState.BLOCKED, "it is so"),
    "other controller": (blocked(ConditionType.OTHER_CONTROLLER), JobState.BLOCKED, "it is so"),
    "going": (deleting(framework(State.ATTEMPT_RUNNING)), JobState.DELETING, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_state_of_a_job(case: str) -> None:
    found, state, reason = CASES[case]
    view = views.job_view(found)
    assert (view.state, view.reason) == (state, reason)
    assert view.is_completed == (found.status is not None and found.status.state is State.COMPLETED)
    assert (view.code is not None) == view.is_completed


def test_every_controller_state_is_mapped() -> None:
    for state in State:
        code = CompletionCode.SUCCEEDED if state.is_over else None
        assert views.job_view(framework(state, code=code)).framework_state == state


def ran(found: Framework) -> Framework:
    """Return the job after each of its tasks has run."""
    assert found.status is not None
    (role,) = found.status.attempt_status.roles
    tasks = tuple(
        msgspec.structs.replace(
            task, attempt_status=msgspec.structs.replace(task.attempt_status, run_time=NOW)
        )
        for task in role.task_statuses
    )
    role = msgspec.structs.replace(role, task_statuses=tasks)
    attempt = msgspec.structs.replace(found.status.attempt_status, task_role_statuses=(role,))
    return found.with_status(msgspec.structs.replace(found.status, attempt_status=attempt))


def scaled(found: Framework, tasks: int) -> Framework:
    """Return the scaled job before the controller has processed the change."""
    return msgspec.structs.replace(found, spec=builders.framework("job", builders.role(tasks=tasks)).spec)


RUNNING: dict[str, tuple[Framework, bool]] = {
    "all tasks run": (ran(framework(State.ATTEMPT_RUNNING)), True),
    "no task has run": (framework(State.ATTEMPT_RUNNING), False),
    "pods are being deleted": (ran(framework(State.ATTEMPT_DELETING)), False),
    "between two attempts": (ran(framework(State.ATTEMPT_COMPLETED)), False),
    "job is being deleted": (deleting(ran(framework(State.ATTEMPT_RUNNING))), False),
    "scaled up": (scaled(ran(framework(State.ATTEMPT_RUNNING)), 3), False),
    "scaled down": (scaled(ran(framework(State.ATTEMPT_RUNNING)), 1), True),
    "scaled to 0": (scaled(ran(framework(State.ATTEMPT_RUNNING)), 0), False),
}


@pytest.mark.parametrize("case", RUNNING)
def test_have_all_tasks_run(case: str) -> None:
    found, is_so = RUNNING[case]
    assert views.job_view(found).have_all_tasks_run == is_so


ENDS = {
    CompletionCode.SUCCEEDED: TaskState.SUCCEEDED,
    CompletionCode.CONTAINER_TRANSIENT_FAILED: TaskState.FAILED,
    CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION: TaskState.ENDED,
    CompletionCode.DELETE_TASK_REQUESTED: TaskState.ENDED,
}


@pytest.mark.parametrize("code", ENDS)
def test_states_of_completed_tasks(code: CompletionCode) -> None:
    found = framework(State.ATTEMPT_RUNNING)
    assert found.status is not None
    (role,) = found.status.attempt_status.roles
    first, second = role.task_statuses
    ended = msgspec.structs.replace(
        first.attempt_status,
        completion_status=completion.task_completion(code, "it ended"),
        pod_ip="10.0.0.1",
    )
    first = msgspec.structs.replace(first, state=State.COMPLETED, attempt_status=ended)
    role = msgspec.structs.replace(role, task_statuses=(first, second))
    attempt = msgspec.structs.replace(found.status.attempt_status, task_role_statuses=(role,))
    view = views.job_view(found.with_status(msgspec.structs.replace(found.status, attempt_status=attempt)))
    assert [(task.name, task.state, task.code) for task in view.tasks] == [
        ("worker-0", ENDS[code], int(code)),
        ("worker-1", TaskState.PENDING, None),
    ]
    assert view.task("worker-0") == view.tasks[0]
    assert view.task("worker-9") is None


def test_invalid_framework_is_blocked() -> None:
    body = b'{"apiVersion": "launcher.microsoft.com/v1", "metadata": {"name": "odd", "uid": "u"}, "spec": 7}'
    view = views.job_view(codec.read_framework(body))
    assert (view.name, view.state, view.group) == ("odd", JobState.BLOCKED, "launcher.microsoft.com")
    assert "spec" in view.reason
