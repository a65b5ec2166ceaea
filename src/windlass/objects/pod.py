"""The pod that stands for a task attempt (statements 3, 4, 6 to 9 and 52), with what its Framework has asked for.

A template in which something has another shape than Kubernetes gives it makes a pod that is as wrong: the API server
refuses that pod and says why, and the refusal is what the user gets to see.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.discovery import environment as discovery
from windlass.discovery import tf_server
from windlass.model import names, role_names
from windlass.model.base import Json
from windlass.model.feature_annotations import Barrier, Runtime, requested_features
from windlass.model.framework import Framework
from windlass.model.status import FrameworkAttemptStatus, TaskRoleStatus, TaskStatus
from windlass.objects import barrier, environment, owner, placeholders


class PodOptions(msgspec.Struct, frozen=True):
    """What a pod gets that neither its Framework nor its attempt says."""

    barrier_image: str = ""
    ports: Mapping[str, int] | None = None
    """Where pods share one network: by role, the port of its first task."""


DEFAULT_POD_OPTIONS = PodOptions()


def pod(framework: Framework, role: str, index: int, options: PodOptions = DEFAULT_POD_OPTIONS) -> Json:
    """The pod of one task. For many tasks of one Framework, a `PodFactory` does the same with less work."""
    return PodFactory(framework, options).pod(role, index)


class _Role(msgspec.Struct, frozen=True):
    """What the pods of a role are made from."""

    status: TaskRoleStatus
    template: Json
    places: placeholders.Places | None


class PodFactory:
    """Makes the pods of a Framework's current attempt. What the pods of a role have in common is found out once."""

    def __init__(self, framework: Framework, options: PodOptions = DEFAULT_POD_OPTIONS) -> None:
        self._framework = framework
        self._options = options
        self._features = requested_features(framework.metadata.annotations)
        self._peers = discovery.variables_of(framework, options.ports)
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
        discovered = self._discovered(role, index)
        # What a runtime calls the task comes before what its group does.
        own = environment.variables(self._framework.group, known)
        variables = [variable for variable in own if variable["name"] not in discovered]
        variables += ({"name": name, "value": value} for name, value in discovered.items())
        template = placeholders.fill(shared.template, shared.places, known)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata(template.get("metadata"), known),
            "spec": self._spec(template.get("spec"), role, index, variables),
        }

    def _discovered(self, role: str, index: int) -> dict[str, str]:
        """What the task is told of its peers, in every container."""
        variables = self._peers(role, index)
        if not self._features.uses_gang:
            return variables
        uid = self._attempt.config_map_uid or ""
        return {names.GANG_VARIABLE: names.gang_name(self._framework.name, uid), **variables}

    def _spec(self, users: Any, role: str, index: int, variables: list[Json]) -> Any:
        if not isinstance(users, dict):
            return users
        spec = _with_variables(users, variables)
        if self._features.runtime is Runtime.TENSORFLOW and role_names.is_member(role):
            spec = _with_a_server(spec)
        if self._features.uses_dns_names:
            spec = _with_a_name(spec, self._framework.name, role, index)
        if self._features.barrier is Barrier.INJECTED:
            spec = barrier.with_barrier(spec, self._options.barrier_image, variables)
        return spec

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


def _with_variables(spec: Json, variables: list[Json]) -> Json:
    filled = spec.copy()
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            filled[field] = [environment.with_variables(container, variables) for container in containers]
    return filled


def _with_a_server(spec: Json) -> Json:
    """A task of TensorFlow without a command is a server that others drive."""
    containers = spec.get("containers")
    first = containers[0] if isinstance(containers, list) and containers else None
    if (
        not isinstance(containers, list)
        or not isinstance(first, dict)
        or first.get("command")
        or first.get("args")
    ):
        return spec
    return {**spec, "containers": [{**first, "command": list(tf_server.COMMAND)}, *containers[1:]]}


def _with_a_name(spec: Json, framework: str, role: str, index: int) -> Json:
    """On the node's network the cluster's name servers are asked only by whoever says so."""
    named = {
        **spec,
        "hostname": names.host_name(role, index),
        "subdomain": names.service_name(framework),
    }
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        named["dnsPolicy"] = "ClusterFirstWithHostNet"
    return named
