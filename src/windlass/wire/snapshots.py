"""Log lines with complete objects, written before an object is deleted or its status is reset.

This is statement 49 of docs/behaviours.md.
"""

from enum import StrEnum

import msgspec

from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.settings import LogObjectSnapshot
from windlass.model.status import TaskRoleStatus, TaskStatus
from windlass.wire import codec


class SnapshotTrigger(StrEnum):
    """The event that causes a snapshot."""

    FRAMEWORK_RETRY = "OnFrameworkRetry"
    FRAMEWORK_DELETION = "OnFrameworkDeletion"
    TASK_RETRY = "OnTaskRetry"
    TASK_DELETION = "OnTaskDeletion"
    POD_DELETION = "OnPodDeletion"


MARK = ": ObjectSnapshot: "
"""Log collectors find a snapshot by the expression `: ObjectSnapshot: (.+)`."""

_LINE_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""JSON allows these in strings, but some log readers treat them as line ends."""


def snapshot_line(message: str, trigger: SnapshotTrigger, obj: Framework | Json | bytes) -> str:
    """Return a line with the message, the trigger, the mark and the object as JSON."""
    # Log collectors would find a mark in the message first.
    text = " ".join(message.splitlines()).replace(MARK, " ObjectSnapshot ")
    return f"{text}: {trigger}{MARK}{_compact_json(obj).translate(_LINE_SEPARATORS)}"


def task_snapshot(framework: Framework, role: str, task: TaskStatus) -> Framework:
    """Return the Framework with only one role and the status of one task."""
    task_roles = tuple(spec for spec in framework.spec.task_roles if spec.name == role)
    spec = msgspec.structs.replace(framework.spec, task_roles=task_roles)
    status = framework.status
    if status is not None:
        role_status = next(
            (found for found in codec.expand_status(status).attempt_status.roles if found.name == role),
            TaskRoleStatus(name=role),
        )
        attempt = msgspec.structs.replace(
            status.attempt_status,
            task_role_statuses=(msgspec.structs.replace(role_status, task_statuses=(task,)),),
            task_role_statuses_compressed=msgspec.UNSET,
        )
        status = msgspec.structs.replace(status, attempt_status=attempt)
    return msgspec.structs.replace(framework, spec=spec, status=status)


def is_enabled(trigger: SnapshotTrigger, settings: LogObjectSnapshot) -> bool:
    match trigger:
        case SnapshotTrigger.FRAMEWORK_RETRY:
            return settings.framework.on_framework_retry
        case SnapshotTrigger.FRAMEWORK_DELETION:
            return settings.framework.on_framework_deletion
        case SnapshotTrigger.TASK_RETRY:
            return settings.task.on_task_retry
        case SnapshotTrigger.TASK_DELETION:
            return settings.task.on_task_deletion
        case SnapshotTrigger.POD_DELETION:
            return settings.pod.on_pod_deletion


def _compact_json(obj: Framework | Json | bytes) -> str:
    if not isinstance(obj, bytes):
        return msgspec.json.encode(obj).decode()
    try:
        return msgspec.json.format(obj, indent=-1).decode()
    except RecursionError:
        # Too deep to decode. In JSON, line breaks occur only between tokens.
        return obj.decode().replace("\r", " ").replace("\n", " ")
