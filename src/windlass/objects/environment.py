"""By what a task knows itself: the annotations of its pod, and the environment of its containers."""

from typing import Any

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.status import FrameworkAttemptStatus, TaskRoleStatus, TaskStatus

_POD_UID: Json = {"name": names.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
"""The API server chooses it when the pod is created, so only the kubelet can fill it in."""

_LAUNCHER_NAMES = ("taskindex", "TASK_INDEX")
"""What the images of the old launcher read (statement 52)."""


def identity(
    framework: Framework, attempt: FrameworkAttemptStatus, role: TaskRoleStatus, task: TaskStatus
) -> dict[str, str]:
    """The thirteen names of statement 6, in the order in which containers get them."""
    config_map_uid = attempt.config_map_uid or ""
    return {
        names.FRAMEWORK_NAMESPACE: framework.namespace,
        names.FRAMEWORK_NAME: framework.name,
        names.TASKROLE_NAME: role.name,
        names.TASK_INDEX: str(task.index),
        names.CONFIGMAP_NAME: names.config_map_name(framework.name),
        names.POD_NAME: names.pod_name(framework.name, role.name, task.index),
        names.FRAMEWORK_UID: framework.uid,
        names.FRAMEWORK_ATTEMPT_ID: str(attempt.id),
        names.FRAMEWORK_ATTEMPT_INSTANCE_UID: names.instance_uid(attempt.id, config_map_uid),
        names.CONFIGMAP_UID: config_map_uid,
        names.TASKROLE_UID: role.instance_uid or "",
        names.TASK_UID: task.instance_uid or "",
        names.TASK_ATTEMPT_ID: str(task.attempt_status.id),
    }


def variables(group: str, known: dict[str, str]) -> list[Json]:
    """What every container of a task starts with (statement 7): its identity, then the names of this very pod."""
    environment: list[Json] = [{"name": name, "value": value} for name, value in known.items()]
    instance = f"{known[names.TASK_ATTEMPT_ID]}_$({names.POD_UID})"
    environment += _POD_UID, {"name": names.TASK_ATTEMPT_INSTANCE_UID, "value": instance}
    if group == names.LAUNCHER_GROUP:
        index = known[names.TASK_INDEX]
        environment += ({"name": name, "value": index} for name in _LAUNCHER_NAMES)
    return environment


def with_variables(container: Any, environment: list[Json]) -> Any:
    """The container with these variables before its own: its own may refer to them, and win where a name is the same.

    What does not have the shape of a container stays as it is: the API server refuses it, and says why.
    """
    if not isinstance(container, dict):
        return container
    own = container.get("env") or []
    return {
        **container,
        "env": environment + own if isinstance(own, list) else own,
        # Statement 8: the last lines of the log say more than an empty message.
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or "FallbackToLogsOnError",
    }
