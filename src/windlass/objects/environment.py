"""The identity of a task: annotations of its pod, and environment variables of its containers.

The numbered statements are in docs/behaviours.md.
"""

from collections.abc import Collection
from typing import Any

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.status import FrameworkAttemptStatus, TaskRoleStatus, TaskStatus

_POD_UID: Json = {"name": names.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
"""The API server assigns the UID when the pod is created, so the kubelet has to fill it in."""

_LAUNCHER_VARIABLES = ("taskindex", "TASK_INDEX")
"""Variables that images for the API group launcher.microsoft.com read (statement 52)."""


def identity(
    framework: Framework, attempt: FrameworkAttemptStatus, role: TaskRoleStatus, task: TaskStatus
) -> dict[str, str]:
    """Return the thirteen values that identify a task (statement 6), in the order of the environment variables."""
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


def variables(api_group: str, identity_variables: dict[str, str]) -> list[Json]:
    """Return the variables of every container of a task (statement 7): the identity of the task, the UID of the pod,
    the instance UID of the task attempt and, in the group launcher.microsoft.com, the variables its images read."""
    environment: list[Json] = [{"name": name, "value": value} for name, value in identity_variables.items()]
    instance = f"{identity_variables[names.TASK_ATTEMPT_ID]}_$({names.POD_UID})"
    environment += _POD_UID, {"name": names.TASK_ATTEMPT_INSTANCE_UID, "value": instance}
    if api_group == names.LAUNCHER_GROUP:
        index = identity_variables[names.TASK_INDEX]
        environment += ({"name": name, "value": index} for name in _LAUNCHER_VARIABLES)
    return environment


def without_variables(container: Any, removed: Collection[str]) -> Any:
    """Return the container without variables of its own that have these names."""
    own = container.get("env") if isinstance(container, dict) else None
    if not isinstance(own, list):
        return container
    kept = [each for each in own if not isinstance(each, dict) or each.get("name") not in removed]
    return {**container, "env": kept}


def with_variables(container: Any, environment: list[Json]) -> Any:
    """Add the variables before the container's own, which may refer to them and override them. Also set the default of
    terminationMessagePolicy.

    A malformed container or `env` is not changed: the API server rejects it and reports the error.
    """
    if not isinstance(container, dict):
        return container
    own = container.get("env") or []
    return {
        **container,
        "env": environment + own if isinstance(own, list) else own,
        # Statement 8: the last lines of the log are better than an empty message.
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or "FallbackToLogsOnError",
    }
