"""The pod of a task attempt (statements 3, 4, 6 to 9 and 52 of docs/behaviours.md), with the features that its
Framework requests.

A malformed template results in a malformed pod: the API server rejects it, and the user sees its error.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from windlass.discovery import environment as discovery
from windlass.discovery import placeholders, tf_server
from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.model.feature_annotations import ALL, NONE, Barrier, requested_features
from windlass.model.framework import Framework
from windlass.model.status import FrameworkAttemptStatus, TaskRoleStatus, TaskStatus
from windlass.objects import barrier, environment
from windlass.objects.attempt import owner_reference


class PodOptions(msgspec.Struct, frozen=True):
    """Pod options that are not stored in the Framework."""

    barrier_image: str = ""
    has_entrypoints: bool = True
    """Whether a container without a command runs the entrypoint of its image. An embedded cluster pulls no images:
    there, such a container of TensorFlow runs an idle server even if the Framework does not say so."""
    ports: Mapping[str, int] | None = None
    """Port of the first task of each role if pods share one network."""


DEFAULT_POD_OPTIONS = PodOptions()

_ADDRESSES = frozenset(
    {
        *(
            "TF_CONFIG",
            "MASTER_ADDR",
            "MASTER_PORT",
            "PET_MASTER_ADDR",
            "PET_MASTER_PORT",
            "PET_RDZV_ENDPOINT",
        ),
        *("COORDINATOR_ADDRESS", "COORDINATOR_PORT"),
    }
)
"""Variables with addresses that converted jobs set in the form of their system."""


def pod(framework: Framework, role: str, index: int, options: PodOptions = DEFAULT_POD_OPTIONS) -> Json:
    """Return the pod of one task. For many tasks of a Framework, use a `PodFactory`."""
    return PodFactory(framework, options).pod(role, index)


class _Role(msgspec.Struct, frozen=True):
    """The parts that the pods of a role share."""

    status: TaskRoleStatus
    template: Json
    places: placeholders.Places | None


class PodFactory:
    """Creates the pods of a Framework's current attempt. The parts that the pods of a role share are computed once."""

    def __init__(self, framework: Framework, options: PodOptions = DEFAULT_POD_OPTIONS) -> None:
        self._framework = framework
        self._options = options
        self._features = requested_features(framework.metadata.annotations)
        self._discovery_variables = discovery.variables_of(framework, options.ports)
        self._attempt = _attempt_of(framework)
        self._roles: dict[str, _Role] = {}
        self._owner = owner_reference(
            "v1", "ConfigMap", names.config_map_name(framework.name), self._attempt.config_map_uid or ""
        )

    def pod(self, role: str, index: int) -> Json:
        shared = self._roles.get(role)
        if shared is None:
            shared = self._roles[role] = self._role(role)
        task = _task_of(shared.status, index)
        identity = environment.identity(self._framework, self._attempt, shared.status, task)
        peer_variables = self._peer_variables(role, index)
        # Variables of the runtime override those of the API group.
        identity_variables = environment.variables(self._framework.group, identity)
        variables = [variable for variable in identity_variables if variable["name"] not in peer_variables]
        variables += ({"name": name, "value": value} for name, value in peer_variables.items())
        template = placeholders.fill(shared.template, shared.places, identity)
        metadata = self._metadata(template.get("metadata"), identity)
        return manifest("v1", "Pod", metadata, spec=self._spec(template.get("spec"), role, index, variables))

    def _peer_variables(self, role: str, index: int) -> dict[str, str]:
        """Return the variables with peer information, for every container."""
        variables = self._discovery_variables(role, index)
        if not self._features.uses_gang:
            return variables
        uid = self._attempt.config_map_uid or ""
        return {names.GANG_VARIABLE: names.gang_name(self._framework.name, uid), **variables}

    def _spec(self, user_spec: Any, role: str, index: int, variables: list[Json]) -> Any:
        if not isinstance(user_spec, dict):
            return user_spec
        spec = _with_variables(self._without_fixed_addresses(user_spec, variables), variables)
        if self._features.is_idle_server(role, default=NONE if self._options.has_entrypoints else ALL):
            spec = _with_tensorflow_server(spec)
        if self._features.uses_dns_names:
            spec = _with_dns_name(spec, self._framework.name, role, index)
        if self._features.barrier is Barrier.INJECTED:
            spec = barrier.with_barrier(spec, self._options.barrier_image, variables)
        return spec

    def _without_fixed_addresses(self, spec: Json, variables: list[Json]) -> Json:
        """Remove the addresses that a converted job sets, if they are not those of its tasks: on a shared network each
        task has a port of its own."""
        if (
            self._options.ports is None
            or names.CONVERTED_ANNOTATION not in self._framework.metadata.annotations
        ):
            return spec
        replaced = _ADDRESSES & {variable["name"] for variable in variables}
        return _without_variables(spec, replaced)

    def _role(self, name: str) -> _Role:
        spec = self._framework.spec.role(name)
        status = next((role for role in self._attempt.roles if role.name == name), None)
        if spec is None or status is None:
            raise LookupError(
                f"the role {name} is not in both the spec and the status of the Framework {self._framework.name}"
            )
        return _Role(status, spec.task.pod, placeholders.find(spec.task.pod))

    def _metadata(self, user_metadata: Any, identity: dict[str, str]) -> Json:
        """Take labels, annotations and finalizers from the user's metadata. Windlass or the API server sets all other
        fields."""
        user_metadata = user_metadata if isinstance(user_metadata, dict) else {}
        labels = {
            names.FRAMEWORK_NAME: identity[names.FRAMEWORK_NAME],
            names.TASKROLE_NAME: identity[names.TASKROLE_NAME],
            names.TASK_INDEX: identity[names.TASK_INDEX],
            names.ATTEMPT_LABEL: identity[names.CONFIGMAP_UID],
        }
        metadata: Json = {
            "name": identity[names.POD_NAME],
            "namespace": identity[names.FRAMEWORK_NAMESPACE],
            "labels": _merged(user_metadata.get("labels"), labels),
            "annotations": _merged(user_metadata.get("annotations"), identity),
            "ownerReferences": [self._owner],
        }
        if user_metadata.get("finalizers"):
            metadata["finalizers"] = user_metadata["finalizers"]
        return metadata


def _attempt_of(framework: Framework) -> FrameworkAttemptStatus:
    """Return the current attempt, which must have its ConfigMap: a pod without an owner would never be deleted."""
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


def _merged(user_values: Any, own_values: dict[str, str]) -> Any:
    """Merge labels or annotations; those of Windlass override those of the user."""
    if user_values is None:
        return own_values
    return {**user_values, **own_values} if isinstance(user_values, dict) else user_values


def _with_variables(spec: Json, variables: list[Json]) -> Json:
    changed = spec.copy()
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            changed[field] = [environment.with_variables(container, variables) for container in containers]
    return changed


def _without_variables(spec: Json, removed: Collection[str]) -> Json:
    containers = spec.get("containers")
    if not removed or not isinstance(containers, list):
        return spec
    return {**spec, "containers": [environment.without_variables(each, removed) for each in containers]}


def _with_tensorflow_server(spec: Json) -> Json:
    """Run a server in a TensorFlow task that has neither a command nor arguments."""
    match spec.get("containers"):
        case [dict(first), *others] if not first.get("command") and not first.get("args"):
            return {**spec, "containers": [{**first, "command": list(tf_server.COMMAND)}, *others]}
    return spec


def _with_dns_name(spec: Json, framework: str, role: str, index: int) -> Json:
    """Set hostname and subdomain, unless the template does (see `discovery.peers`). A pod on the host network also
    needs a DNS policy to resolve names of Services."""
    hostname = spec.get("hostname") or names.host_name(role, index)
    changed = {
        **spec,
        "hostname": hostname,
        "subdomain": spec.get("subdomain") or names.service_name(framework),
    }
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        changed["dnsPolicy"] = "ClusterFirstWithHostNet"
    return changed
