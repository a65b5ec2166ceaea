"""Find the first failed task of an attempt. Only the status is read, since the task's pod may be deleted."""

from datetime import UTC, datetime

import msgspec

from windlass.client import tasks, views
from windlass.client.pods import Task
from windlass.model.completion import (
    CompletionType,
    ContainerCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus

UNKNOWN = "unknown"
MEANINGS = {
    "Transient": "may succeed when retried",
    "Permanent": "would fail again when retried",
    UNKNOWN: "it is unknown whether a retry would help",
}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A failed attempt of a task."""

    task: str
    attempt: int
    code: int
    phrase: str
    failure_class: str = msgspec.field(name="class")
    """Attributes of the completion type, e.g. Transient or Permanent; or unknown."""
    diagnostics: str = ""
    at: datetime | None = None
    node: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""
    """The failed container; empty if none failed."""
    container_reason: str = ""
    """Reason of the container status, e.g. OOMKilled."""
    signal: int = 0
    lines: tuple[str, ...] = ()
    """Last lines of the container's log, or of the message of the container or the pod."""
    lines_from: str = ""
    """Source of the lines: `log`, or `status` if the log has none or cannot be read; empty without lines."""


def first_failure(framework: Framework) -> Failure | None:
    """Return the first failure of the current attempt; None if no task failed. Tasks that the controller ended or is
    deleting do not count."""
    failed = [
        (task, status, ended)
        for task, status in tasks.statuses(framework)
        if (ended := status.attempt_status.completion_status) is not None
        and ended.type.is_failed
        and ended.code not in views.ENDED_BY_CONTROLLER
        and not status.deletion_pending
    ]
    if not failed:
        return None
    task, status, ended = min(failed, key=lambda each: _sort_key(framework, each[0], each[1]))
    return _failure(task, status, ended)


def _sort_key(framework: Framework, task: Task, status: TaskStatus) -> tuple[datetime, bool]:
    """Return when the task ended, in whole seconds, and False only for the task that completed the job's attempt."""
    attempt = None if framework.status is None else framework.status.attempt_status
    ended = None if attempt is None else attempt.completion_status
    trigger = None if ended is None else ended.trigger
    is_trigger = trigger is not None and (trigger.task_role_name, trigger.task_index) == (
        task.role,
        task.index,
    )
    return status.attempt_status.completion_time or status.transition_time or _LONG_AGO, not is_trigger


def _failure(task: Task, status: TaskStatus, ended: TaskAttemptCompletionStatus) -> Failure:
    attempt = status.attempt_status
    container = failed_container(ended)
    message = container.message if container is not None else ""
    lines = _lines(message or (ended.pod.message if ended.pod is not None else ""))
    return Failure(
        task=str(task),
        attempt=attempt.id,
        code=ended.code,
        phrase=ended.phrase,
        failure_class=class_of(ended.type),
        diagnostics=ended.diagnostics,
        at=attempt.completion_time,
        node=attempt.pod_node_name or "",
        pod=attempt.pod_name,
        pod_uid=attempt.pod_uid or "",
        container=container.name if container is not None else "",
        container_reason=container.reason if container is not None else "",
        signal=container.signal if container is not None else 0,
        lines=lines,
        lines_from="status" if lines else "",
    )


def failed_container(ended: TaskAttemptCompletionStatus) -> ContainerCompletionStatus | None:
    """Return the container whose exit code is the completion code, else the first failed one; None if none failed."""
    failed = [each for each in (ended.pod.containers if ended.pod is not None else ()) if each.code]
    return next((each for each in failed if each.code == ended.code), next(iter(failed), None))


def class_of(completion_type: CompletionType) -> str:
    return " ".join(completion_type.attributes) or UNKNOWN


def meaning_of(failure_class: str) -> str:
    return next((meaning for name, meaning in MEANINGS.items() if name in failure_class), "")


def _lines(message: str) -> tuple[str, ...]:
    return tuple(message.rstrip("\n").split("\n")) if message.strip() else ()
