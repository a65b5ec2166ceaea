"""Whole copies of objects for the log, taken when history is about to be lost (statement 49).

Makes the lines; somebody else writes them.
"""

from enum import StrEnum

import msgspec

from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.settings import LogObjectSnapshot
from windlass.model.status import TaskRoleStatus, TaskStatus
from windlass.wire import codec


class SnapshotTrigger(StrEnum):
    """What is about to happen to the object."""

    FRAMEWORK_RETRY = "OnFrameworkRetry"
    FRAMEWORK_DELETION = "OnFrameworkDeletion"
    TASK_RETRY = "OnTaskRetry"
    TASK_DELETION = "OnTaskDeletion"
    POD_DELETION = "OnPodDeletion"


MARK = ": ObjectSnapshot: "
"""Log collectors find a snapshot by the expression `: ObjectSnapshot: (.+)`."""

_LINE_BREAKS_OF_OTHERS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""JSON lets these stand in a string, and some readers of logs end a line at them."""


def snapshot_line(message: str, trigger: SnapshotTrigger, obj: Framework | Json | bytes) -> str:
    """One line without its end: the message, the trigger, the mark, the object as JSON."""
    # A mark inside the message would be found first.
    said = " ".join(message.splitlines()).replace(MARK, " ObjectSnapshot ")
    return f"{said}: {trigger}{MARK}{_compact_json(obj).translate(_LINE_BREAKS_OF_OTHERS)}"


def task_snapshot(framework: Framework, role: str, task: TaskStatus) -> Framework:
    """The Framework with nothing of its roles but that one's spec and that one task's status, as it was."""
    task_roles = tuple(spec for spec in framework.spec.task_roles if spec.name == role)
    spec = msgspec.structs.replace(framework.spec, task_roles=task_roles)
    status = framework.status
    if status is not None:
        kept = next(
            (found for found in codec.expand_status(status).attempt_status.roles if found.name == role),
            TaskRoleStatus(name=role),
        )
        attempt = msgspec.structs.replace(
            status.attempt_status,
            task_role_statuses=(msgspec.structs.replace(kept, task_statuses=(task,)),),
            task_role_statuses_compressed=msgspec.UNSET,
        )
        status = msgspec.structs.replace(status, attempt_status=attempt)
    return msgspec.structs.replace(framework, spec=spec, status=status)


def is_enabled(trigger: SnapshotTrigger, wanted: LogObjectSnapshot) -> bool:
    match trigger:
        case SnapshotTrigger.FRAMEWORK_RETRY:
            return wanted.framework.on_framework_retry
        case SnapshotTrigger.FRAMEWORK_DELETION:
            return wanted.framework.on_framework_deletion
        case SnapshotTrigger.TASK_RETRY:
            return wanted.task.on_task_retry
        case SnapshotTrigger.TASK_DELETION:
            return wanted.task.on_task_deletion
        case SnapshotTrigger.POD_DELETION:
            return wanted.pod.on_pod_deletion


def _compact_json(obj: Framework | Json | bytes) -> str:
    if not isinstance(obj, bytes):
        return msgspec.json.encode(obj).decode()
    try:
        return msgspec.json.format(obj, indent=-1).decode()
    except RecursionError:
        # Too deep to be looked through. A line break in JSON stands between two tokens.
        return obj.decode().replace("\r", " ").replace("\n", " ")
