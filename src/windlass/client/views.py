"""A job and its tasks as people see them: a Framework in, a small typed value out. Pure.

The nine states of the controller become words that need no manual; the state itself stays in `framework_state`.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.model import states
from windlass.model.completion import CompletionCode, TaskAttemptCompletionStatus
from windlass.model.framework import ExecutionType, Framework
from windlass.model.states import State
from windlass.model.status import ConditionType, FrameworkStatus, TaskRoleStatus, TaskStatus
from windlass.wire.codec import Unreadable


class JobState(StrEnum):
    SUBMITTED = "Submitted"
    """No controller has said anything about it yet."""
    BLOCKED = "Blocked"
    """The controller cannot run it; the reason says why."""
    HELD = "Held"
    """Its executionType is Create: it waits to be started."""
    SUSPENDED = "Suspended"
    PENDING = "Pending"
    """None of its tasks has run in this attempt."""
    RUNNING = "Running"
    STOPPING = "Stopping"
    """How the attempt ended is decided, and its pods are on their way out."""
    RETRYING = "Retrying"
    """The attempt has ended, and perhaps another one follows."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    """Somebody asked for it."""
    DELETING = "Deleting"
    DELETED = "Deleted"
    """It is not there any more."""


class TaskState(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    RETRYING = "Retrying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ENDED = "Ended"
    """It ended because its job did, such as a parameter server, or because it was scaled away."""


_JOB_STATES: Mapping[State, JobState] = {
    states.CREATION_PENDING: JobState.PENDING,
    states.CREATION_REQUESTED: JobState.PENDING,
    states.PREPARING: JobState.PENDING,
    states.RUNNING: JobState.RUNNING,
    states.DELETION_PENDING: JobState.STOPPING,
    states.DELETION_REQUESTED: JobState.STOPPING,
    states.DELETING: JobState.STOPPING,
    states.ATTEMPT_COMPLETED: JobState.RETRYING,
}
_TASK_STATES: Mapping[State, TaskState] = {state: TaskState(word) for state, word in _JOB_STATES.items()}
_ENDED_BY_OTHERS = (CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, CompletionCode.DELETE_TASK_REQUESTED)
_BLOCKING = (ConditionType.INVALID, ConditionType.NAME_TAKEN, ConditionType.OTHER_CONTROLLER)


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    index: int
    state: TaskState
    attempt: int
    """From 0, as the task is told in FC_TASK_ATTEMPT_ID."""
    pod: str
    node: str = ""
    ip: str = ""
    has_run: bool = False
    """In this attempt."""
    code: int | None = None
    """How the attempt ended: 0, an exit code, or a completion code of the controller's. None: it has not."""
    reason: str = ""
    """The code in words."""

    @property
    def name(self) -> str:
        """As the command line has it: `worker-0`."""
        return f"{self.role}-{self.index}"


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was seen at one moment."""

    name: str
    namespace: str
    uid: str
    group: str
    state: JobState
    framework_state: str = ""
    """As the controller has it; empty before it has seen the job."""
    reason: str = ""
    """Why it is in that state, where there is something to say."""
    code: int | None = None
    """Of a completed job: 0, an exit code, or a completion code of the controller's."""
    attempt: int = 0
    """From 0, as tasks are told in FC_FRAMEWORK_ATTEMPT_ID."""
    created: datetime | None = None
    changed: datetime | None = None
    """When the state was entered."""
    completed: datetime | None = None
    roles: dict[str, int] = {}
    """How many tasks each role has, as it is wanted."""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    total: int = 0
    tasks: tuple[TaskView, ...] = ()

    @property
    def is_completed(self) -> bool:
        return self.framework_state == State.COMPLETED

    @property
    def has_succeeded(self) -> bool:
        return self.is_completed and self.code == CompletionCode.SUCCEEDED

    @property
    def have_all_tasks_run(self) -> bool:
        """In this attempt, which goes on: all that are wanted, those too that the controller has not heard of yet."""
        are_all_known = len(self.tasks) >= sum(self.roles.values()) > 0
        return self.state is JobState.RUNNING and are_all_known and all(task.has_run for task in self.tasks)

    def task(self, name: str) -> TaskView | None:
        return next((task for task in self.tasks if task.name == name), None)


def job_view(found: Framework | Unreadable) -> JobView:
    metadata = found.metadata
    if isinstance(found, Unreadable):
        return JobView(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            group=found.api_version.partition("/")[0],
            state=JobState.BLOCKED,
            reason=found.error,
        )
    status = found.status
    seen = JobView(
        name=found.name,
        namespace=found.namespace,
        uid=found.uid,
        group=found.group,
        state=_state(found),
        created=metadata.creation_timestamp,
        roles={role.name: role.task_number for role in found.spec.task_roles},
        total=sum(role.task_number for role in found.spec.task_roles),
    )
    return seen if status is None else _with_status(seen, status)


def _with_status(seen: JobView, status: FrameworkStatus) -> JobView:
    attempt = status.attempt_status
    completion = attempt.completion_status
    is_completed = status.state is states.COMPLETED
    return msgspec.structs.replace(
        seen,
        framework_state=status.state.value,
        reason=_reason(seen.state, status),
        code=completion.code if is_completed and completion is not None else None,
        attempt=attempt.id,
        changed=status.transition_time,
        completed=status.completion_time,
        running=status.summary.running,
        succeeded=status.summary.succeeded,
        failed=status.summary.failed,
        total=status.summary.tasks,
        tasks=tuple(_tasks(attempt.roles)),
    )


def _state(framework: Framework) -> JobState:
    status = framework.status
    if framework.is_deleting:
        return JobState.DELETING
    if status is None:
        return JobState.SUBMITTED
    if status.state is states.COMPLETED:
        return _completed_state(status)
    if _blocking_message(status):
        return JobState.BLOCKED
    is_waiting = status.state is states.CREATION_PENDING
    if is_waiting and framework.spec.suspend:
        return JobState.SUSPENDED
    if is_waiting and framework.spec.execution_type is ExecutionType.CREATE:
        return JobState.HELD
    return _JOB_STATES[status.state]


def _completed_state(status: FrameworkStatus) -> JobState:
    completion = status.attempt_status.completion_status
    if completion is not None and not completion.type.is_failed:
        return JobState.SUCCEEDED
    is_stopped = completion is not None and completion.code == CompletionCode.STOP_FRAMEWORK_REQUESTED
    return JobState.STOPPED if is_stopped else JobState.FAILED


def _reason(state: JobState, status: FrameworkStatus) -> str:
    """Of the last attempt that ended, if there is nothing more pressing."""
    if state is JobState.BLOCKED:
        return _blocking_message(status)
    completion = status.attempt_status.completion_status
    if completion is None:
        return ""
    because = completion.trigger.message if completion.trigger is not None else completion.diagnostics
    how = f"{completion.phrase} ({completion.code})"
    return f"{how}: {because}" if because else how


def _blocking_message(status: FrameworkStatus) -> str:
    conditions = (status.condition(kind) for kind in _BLOCKING)
    return next((found.message or found.type for found in conditions if found and found.is_true), "")


def _tasks(roles: tuple[TaskRoleStatus, ...]) -> Iterator[TaskView]:
    for role in roles:
        for task in role.task_statuses:
            yield _task(role.name, task)


def _task(role: str, task: TaskStatus) -> TaskView:
    attempt = task.attempt_status
    completion = attempt.completion_status
    return TaskView(
        role=role,
        index=task.index,
        state=_task_state(task, completion),
        attempt=attempt.id,
        pod=attempt.pod_name,
        node=attempt.pod_node_name or "",
        ip=attempt.pod_ip or "",
        has_run=attempt.run_time is not None,
        code=completion.code if completion is not None else None,
        reason=completion.phrase if completion is not None else "",
    )


def _task_state(task: TaskStatus, completion: TaskAttemptCompletionStatus | None) -> TaskState:
    if not task.is_completed:
        return _TASK_STATES[task.state]
    if completion is not None and not completion.type.is_failed:
        return TaskState.SUCCEEDED
    is_of_others = completion is not None and completion.code in _ENDED_BY_OTHERS
    return TaskState.ENDED if is_of_others else TaskState.FAILED
