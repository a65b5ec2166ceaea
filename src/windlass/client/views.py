"""Summaries of jobs and tasks for users, computed from the Framework alone.

The nine states of the controller are mapped to the states that users know; `framework_state` is the original state.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.model import states, verdict
from windlass.model.completion import CompletionCode, TaskAttemptCompletionStatus
from windlass.model.framework import ExecutionType, Framework, FrameworkSpec
from windlass.model.states import State
from windlass.model.status import ConditionType, FrameworkStatus, TaskAttemptStatus, TaskStatus
from windlass.wire.codec import InvalidFramework


class JobState(StrEnum):
    SUBMITTED = "Submitted"
    """No controller has processed the job yet."""
    BLOCKED = "Blocked"
    """The controller cannot run the job; see the reason."""
    HELD = "Held"
    """The executionType is Create, so the job does not start."""
    SUSPENDED = "Suspended"
    PENDING = "Pending"
    """No task was observed running in this attempt."""
    RUNNING = "Running"
    STOPPING = "Stopping"
    """The outcome of the attempt is decided, and its pods are being deleted."""
    RETRYING = "Retrying"
    """The attempt has ended, and another one may follow."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    """The job was stopped on request."""
    DELETING = "Deleting"
    DELETED = "Deleted"


class TaskState(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    RETRYING = "Retrying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ENDED = "Ended"
    """The task was ended with its job, e.g. a parameter server, or by scaling down."""


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
_TASK_STATES: Mapping[State, TaskState] = {state: TaskState(name) for state, name in _JOB_STATES.items()}
ENDED_BY_CONTROLLER = (CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, CompletionCode.DELETE_TASK_REQUESTED)
"""Codes of tasks that did not fail: the attempt of the job ended, or the task was removed by scaling."""
_BLOCKING = (ConditionType.INVALID, ConditionType.NAME_TAKEN, ConditionType.OTHER_CONTROLLER)


class TaskView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    role: str
    index: int
    state: TaskState
    attempt: int
    """Attempt of the task, counted from 0 as in FC_TASK_ATTEMPT_ID."""
    pod: str
    node: str = ""
    ip: str = ""
    has_run: bool = False
    """Whether the task has run in its current attempt."""
    code: int | None = None
    """0, an exit code, or a completion code of the controller; None before the outcome of the attempt is decided."""
    reason: str = ""
    """How the task failed or why it was ended, e.g. `exited with code 3 after 12 s`; empty for other tasks."""

    @property
    def name(self) -> str:
        """Role and index: `worker-0`."""
        return f"{self.role}-{self.index}"


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job at one moment."""

    name: str
    namespace: str
    uid: str
    group: str
    state: JobState
    framework_state: str = ""
    """State in the status of the Framework; empty before the controller has processed the job."""
    message: str = ""
    """The verdict in one sentence, e.g. `digits failed: worker-1 exited with code 3 after 12 s`."""
    reason: str = ""
    """Why the job is in that state: the cause in `message`; empty if there is nothing to explain."""
    code: int | None = None
    """0, an exit code, or a completion code of the controller; None before the job has completed."""
    attempt: int = 0
    """Attempt of the job, counted from 0 as in FC_FRAMEWORK_ATTEMPT_ID."""
    created: datetime | None = None
    changed: datetime | None = None
    """When `framework_state` was entered."""
    completed: datetime | None = None
    roles: dict[str, int] = {}
    """Number of tasks of each role in the spec."""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    total: int = 0
    tasks: tuple[TaskView, ...] = ()

    @property
    def verdict(self) -> str:
        """The state as the word that `message` uses, e.g. `failed`."""
        return self.state.lower()

    @property
    def is_completed(self) -> bool:
        return self.framework_state == State.COMPLETED

    @property
    def has_succeeded(self) -> bool:
        return self.is_completed and self.code == CompletionCode.SUCCEEDED

    @property
    def have_all_tasks_run(self) -> bool:
        """Whether the job is running and all of its tasks have run in their current attempts."""
        are_all_known = len(self.tasks) >= sum(self.roles.values()) > 0
        return self.state is JobState.RUNNING and are_all_known and all(task.has_run for task in self.tasks)

    @property
    def retrying(self) -> int:
        """Number of tasks that failed and are retried after a delay."""
        return sum(task.state is TaskState.RETRYING for task in self.tasks)

    def task(self, name: str) -> TaskView | None:
        return next((task for task in self.tasks if task.name == name), None)


def job_view(framework: Framework | InvalidFramework) -> JobView:
    metadata = framework.metadata
    if isinstance(framework, InvalidFramework):
        return JobView(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            group=framework.api_version.partition("/")[0],
            state=JobState.BLOCKED,
            message=f"{metadata.name} is blocked: {framework.error}",
            reason=framework.error,
        )
    status = framework.status
    view = JobView(
        name=framework.name,
        namespace=framework.namespace,
        uid=framework.uid,
        group=framework.group,
        state=_state(framework),
        created=metadata.creation_timestamp,
        roles={role.name: role.task_number for role in framework.spec.task_roles},
        total=sum(role.task_number for role in framework.spec.task_roles),
    )
    if status is None:
        return msgspec.structs.replace(view, message=f"{view.name} is {view.verdict}")
    attempt = status.attempt_status
    completion = attempt.completion_status
    view = msgspec.structs.replace(
        view,
        framework_state=status.state.value,
        reason=_reason(view.state, framework.spec, status),
        code=completion.code if status.state is states.COMPLETED and completion is not None else None,
        attempt=attempt.id,
        changed=status.transition_time,
        completed=status.completion_time,
        running=status.summary.running,
        succeeded=status.summary.succeeded,
        failed=status.summary.failed,
        total=status.summary.tasks,
        tasks=tuple(_task(role.name, task) for role in attempt.roles for task in role.task_statuses),
    )
    return msgspec.structs.replace(view, message=f"{view.name} {_message(view, framework.spec, status)}")


def _message(view: JobView, spec: FrameworkSpec, status: FrameworkStatus) -> str:
    if view.is_completed and view.state is not JobState.DELETING:
        return verdict.describe_completion(spec, status) or view.verdict
    message = f"is {view.verdict}"
    if view.state is JobState.RUNNING and view.total:
        attempt = verdict.describe_attempt(status.retry_policy_status, spec.retry_policy)
        message = f"{message}: {view.running} of {verdict.count('task', view.total)}"
        message += attempt if view.attempt else ""
    return f"{message}: {view.reason}" if view.reason else message


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


def _reason(state: JobState, spec: FrameworkSpec, status: FrameworkStatus) -> str:
    """Return why the job is blocked, or the cause of the end of its current attempt; empty if neither applies."""
    if state is JobState.BLOCKED:
        return _blocking_message(status)
    completion = status.attempt_status.completion_status
    if completion is None or not completion.type.is_failed or state is JobState.STOPPED:
        return ""
    return verdict.describe_failure(spec, status, completion)


def _blocking_message(status: FrameworkStatus) -> str:
    conditions = (status.condition(each) for each in _BLOCKING)
    return next((found.message or found.type for found in conditions if found and found.is_true), "")


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
        reason=task_reason(attempt, completion),
    )


def task_reason(attempt: TaskAttemptStatus, completion: TaskAttemptCompletionStatus | None) -> str:
    """Return how an attempt of a task failed or why it was ended; empty for a success."""
    if completion is None or not completion.type.is_failed:
        return ""
    if completion.code in ENDED_BY_CONTROLLER:
        return completion.diagnostics
    return verdict.describe_task_failure("", attempt, completion).strip()


def _task_state(task: TaskStatus, completion: TaskAttemptCompletionStatus | None) -> TaskState:
    return ended_state(completion) if task.is_completed else _TASK_STATES[task.state]


def ended_state(completion: TaskAttemptCompletionStatus | None) -> TaskState:
    """Return the state of a task, or of an attempt of it, that has ended."""
    if completion is not None and not completion.type.is_failed:
        return TaskState.SUCCEEDED
    is_ended_by_controller = completion is not None and completion.code in ENDED_BY_CONTROLLER
    return TaskState.ENDED if is_ended_by_controller else TaskState.FAILED
