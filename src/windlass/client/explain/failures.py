"""Find the first failed task of an attempt. Only the status is read, since the task's pod may be deleted."""

from datetime import UTC, datetime

import msgspec

from windlass.client import views
from windlass.client.pods import Task
from windlass.model import verdict
from windlass.model.base import Json
from windlass.model.completion import (
    CompletionType,
    TaskAttemptCompletionStatus,
)
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus
from windlass.render.framework import pods

UNKNOWN = "unknown"
MEANINGS = {
    "Transient": "may succeed when retried",
    "Permanent": "would fail again when retried",
    UNKNOWN: "it is unknown whether a retry would help",
}
_SIGBUS, _BUS_ERROR_CODE = 7, 135
"""The signal and the exit code on Linux."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A failed attempt of a task."""

    task: str
    attempt: int
    code: int
    phrase: str
    message: str = ""
    """How the task failed, e.g. `worker-1 exited with code 3 after 12 s`."""
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
    hint: str = ""
    """What to do, or the probable cause; empty if that is unknown."""


def first_failure(framework: Framework) -> Failure | None:
    """Return the first failure of the current attempt; None if no task failed. Tasks that the controller ended or is
    deleting do not count."""
    failed = [
        (Task(role.name, status.index), status, ended)
        for role in (framework.status.attempt_status.roles if framework.status is not None else ())
        for status in role.task_statuses
        if (ended := status.attempt_status.completion_status) is not None
        and ended.type.is_failed
        and ended.code not in views.ENDED_BY_CONTROLLER
        and not status.deletion_pending
    ]
    if not failed:
        return None
    task, status, ended = min(failed, key=lambda each: _sort_key(framework, each[0], each[1]))
    return _failure(framework, task, status, ended)


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


def _failure(
    framework: Framework, task: Task, status: TaskStatus, ended: TaskAttemptCompletionStatus
) -> Failure:
    attempt = status.attempt_status
    container = verdict.failed_container(ended)
    lines = verdict.last_lines(ended)
    return Failure(
        task=str(task),
        attempt=attempt.id,
        code=ended.code,
        phrase=ended.phrase,
        message=verdict.describe_task_failure(str(task), attempt, ended),
        failure_class=class_of(ended.type),
        diagnostics=verdict.readable_diagnostics(ended.diagnostics),
        at=attempt.completion_time,
        node=attempt.pod_node_name or "",
        pod=attempt.pod_name,
        pod_uid=attempt.pod_uid or "",
        container=container.name if container is not None else "",
        container_reason=container.reason if container is not None else "",
        signal=container.signal if container is not None else 0,
        lines=lines,
        lines_from="status" if lines else "",
        hint=advice_on(framework, task, ended),
    )


def advice_on(framework: Framework, task: Task, ended: TaskAttemptCompletionStatus) -> str:
    """Return what to do about a container that could not start or ran out of memory; empty for other failures."""
    container = verdict.failed_container(ended)
    if container is None:
        return ""
    role = framework.spec.role(task.role)
    containers = ((role.task.pod.get("spec") or {}).get("containers") or ()) if role is not None else ()
    spec: Json = next((each for each in containers if each.get("name") == container.name), {})
    image = spec.get("image") or ""
    if error := verdict.start_error(ended, "" if image == pods.NO_IMAGE else image):
        return error.advice
    if container.reason != "OOMKilled":
        return ""
    limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
    return (
        f"Request more memory{f' than {limit}' if limit else ''}: `resources: {{memory: …}}` in the job file."
    )


def with_hint(failure: Failure, framework: Framework) -> Failure:
    """Add the hint. A data loader whose process had a bus error exits with another code, but reports it in its log."""
    if failure.hint:
        return failure
    is_bus_error = failure.code == _BUS_ERROR_CODE or failure.signal == _SIGBUS
    if not is_bus_error and not any("Bus error" in line for line in failure.lines):
        return failure
    size = _shared_memory_size(framework, failure)
    full = f"({size}) was full" if size else "was full (64Mi unless the pod mounts a volume there)"
    hint = (
        f"a bus error (SIGBUS), usually because /dev/shm {full}. Set a larger `shmSize` in the job file; in a "
        "Framework, mount a larger emptyDir with `medium: Memory` at /dev/shm."
    )
    return msgspec.structs.replace(failure, hint=hint)


def _shared_memory_size(framework: Framework, failure: Failure) -> str:
    """Return the sizeLimit of the volume at /dev/shm of the failed container; empty if it has none."""
    role = framework.spec.role(failure.task.rpartition("-")[0])
    spec = {} if role is None else role.task.pod.get("spec") or {}
    mounted = {
        mount.get("name")
        for container in spec.get("containers") or ()
        if container.get("name") == failure.container
        for mount in container.get("volumeMounts") or ()
        if mount.get("mountPath", "").rstrip("/") == "/dev/shm"  # noqa: S108 — in the container
    }
    limits = (
        (volume.get("emptyDir") or {}).get("sizeLimit")
        for volume in spec.get("volumes") or ()
        if volume.get("name") in mounted
    )
    return str(next(limits, None) or "")


def class_of(completion_type: CompletionType) -> str:
    return " ".join(completion_type.attributes) or UNKNOWN


def meaning_of(failure_class: str) -> str:
    return next((meaning for name, meaning in MEANINGS.items() if name in failure_class), "")
