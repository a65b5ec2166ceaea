"""Log lines with complete objects, written when an object is deleted or its status is reset.

This is statement 49 of docs/behaviours.md.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from windlass.model.base import Json, Sparse, manifest
from windlass.model.framework import FIELDS_WITHOUT_STORED_DEFAULT, Framework, TaskSpec
from windlass.model.settings import LogObjectSnapshot
from windlass.model.status import TaskStatus


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
"""JSON allows these characters in strings, but some log readers treat them as line ends."""


def snapshot_line(message: str, trigger: SnapshotTrigger, obj: Framework | Json | bytes) -> str:
    """Return a line with the message, the trigger, the mark and the object as JSON."""
    # Log collectors would find a mark in the message first.
    text = " ".join(message.splitlines()).replace(MARK, " ObjectSnapshot ")
    return f"{text}: {trigger}{MARK}{_compact_json(obj).translate(_LINE_SEPARATORS)}"


def task_snapshot(framework: Framework, role: str, task: TaskStatus, annotations: Mapping[str, str]) -> Json:
    """Return the task as an object of the kind Task, which exists only in snapshots."""
    role_spec = framework.spec.role(role)
    metadata = {
        "name": task.attempt_status.pod_name,
        "namespace": framework.namespace,
        "uid": task.instance_uid,
        "creationTimestamp": task.start_time,
        "annotations": annotations,
    }
    spec = _with_defaults(TaskSpec() if role_spec is None else role_spec.task)
    return manifest(framework.api_version, "Task", metadata, spec=spec, status=task)


def _with_defaults(value: Any) -> Any:
    """Return a JSON value with all fields: FrameworkController does not omit defaults."""
    if isinstance(value, Sparse):
        fields = msgspec.structs.fields(value)
        return {
            field.encode_name: _with_defaults(field_value)
            for field in fields
            if (field_value := getattr(value, field.name)) or field.name not in FIELDS_WITHOUT_STORED_DEFAULT
        }
    if isinstance(value, tuple):
        return [_with_defaults(item) for item in value]
    return value


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
        return msgspec.json.encode(_with_defaults(obj)).decode()
    try:
        return msgspec.json.format(obj, indent=-1).decode()
    except RecursionError:
        # Too deep to decode. In JSON, line breaks occur only between tokens.
        return obj.decode().replace("\r", " ").replace("\n", " ")
