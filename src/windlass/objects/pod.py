"""The pod that stands for a task attempt (statements 3, 4, 6 to 9 and 52).

A template in which something has another shape than Kubernetes gives it makes a pod that is as wrong: the API server
refuses that pod and says why, and the refusal is what the user gets to see.
"""

from typing import Any

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.status import FrameworkAttemptStatus, TaskRoleStatus, TaskStatus
from windlass.objects import environment, owner, placeholders


def pod(framework: Framework, role: str, index: int) -> Json:
    """The pod of one task. For many tasks of one Framework, a `PodFactory` does the same with less work."""
    return PodFactory(framework).pod(role, index)


class _Role(msgspec.Struct, frozen=True):
    """What the pods of a role are made from."""

    status: TaskRoleStatus
    template: Json
    places: placeholders.Places | None


class PodFactory:
    """Makes the pods of a Framework's current attempt. What the pods of a role have in common is found out once."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._attempt = _attempt_of(framework)
        self._roles: dict[str, _Role] = {}
        self._owner = owner.controller(
            "v1", "ConfigMap", names.config_map_name(framework.name), self._attempt.config_map_uid or ""
        )

    def pod(self, role: str, index: int) -> Json:
        shared = self._roles.get(role)
        if shared is None:
            shared = self._roles[role] = self._role(role)
        task = _task_of(shared.status, index)
        known = environment.identity(self._framework, self._attempt, shared.status, task)
        variables = environment.variables(self._framework.group, known)
        template = placeholders.fill(shared.template, shared.places, known)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata(template.get("metadata"), known),
            "spec": _spec(template.get("spec"), variables),
        }

    def _role(self, name: str) -> _Role:
        spec = self._framework.spec.role(name)
        status = next((role for role in self._attempt.roles if role.name == name), None)
        if spec is None or status is None:
            raise LookupError(
                f"the Framework {self._framework.name} has no role {name} in its spec and its status"
            )
        return _Role(status, spec.task.pod, placeholders.find(spec.task.pod))

    def _metadata(self, users: Any, known: dict[str, str]) -> Json:
        """Of the user's metadata labels, annotations and finalizers: all else is ours or the API server's to set."""
        users = users if isinstance(users, dict) else {}
        labels = {
            names.FRAMEWORK_NAME: known[names.FRAMEWORK_NAME],
            names.TASKROLE_NAME: known[names.TASKROLE_NAME],
            names.TASK_INDEX: known[names.TASK_INDEX],
            names.ATTEMPT_LABEL: known[names.CONFIGMAP_UID],
        }
        metadata: Json = {
            "name": known[names.POD_NAME],
            "namespace": known[names.FRAMEWORK_NAMESPACE],
            "labels": _merged(users.get("labels"), labels),
            "annotations": _merged(users.get("annotations"), known),
            "ownerReferences": [self._owner],
        }
        if users.get("finalizers"):
            metadata["finalizers"] = users["finalizers"]
        return metadata


def _attempt_of(framework: Framework) -> FrameworkAttemptStatus:
    """The current attempt, which must have its ConfigMap: a pod without an owner would outlive its Framework."""
    if framework.status is None or not framework.status.attempt_status.config_map_uid:
        raise ValueError(
            f"the Framework {framework.namespace}/{framework.name} has no ConfigMap to own a pod"
        )
    return framework.status.attempt_status


def _task_of(role: TaskRoleStatus, index: int) -> TaskStatus:
    tasks = role.task_statuses
    if index < len(tasks) and tasks[index].index == index:
        return tasks[index]
    raise LookupError(f"the role {role.name} has no task {index} in its status")


def _merged(users: Any, ours: dict[str, str]) -> Any:
    """Both, and ours where the key is the same."""
    if users is None:
        return ours
    return {**users, **ours} if isinstance(users, dict) else users


def _spec(spec: Any, variables: list[Json]) -> Any:
    if not isinstance(spec, dict):
        return spec
    filled = spec.copy()
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            filled[field] = [environment.with_variables(container, variables) for container in containers]
    return filled
