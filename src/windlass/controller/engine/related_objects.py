"""The pods and the ConfigMap that carry one Framework's name as their label, and which of their UIDs are known."""

from collections.abc import Iterator

from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import FrameworkStatus

MAX_UNUSED_UIDS = 100
"""Number of UIDs of deleted objects that are kept before unused ones are removed."""

FrameworkName = tuple[str, str]
"""Namespace and name of a Framework. Frameworks of both groups share the names of their objects."""


def version(resource_version: str) -> int:
    """Return the resourceVersion as a number: Kubernetes orders the versions of all objects of one server."""
    return int(resource_version or 0)


def is_as_old(found: ObjectView | Framework, resource_version: str) -> bool:
    return version(found.metadata.resource_version) <= version(resource_version)


def is_in_scope(namespace: str, scope: str) -> bool:
    """Whether a list of `scope` (empty: all namespaces) contains objects of the namespace."""
    return scope in ("", namespace)


def framework_name(found: ObjectView) -> FrameworkName | None:
    """Return the Framework that the object belongs to by its label, which is also what the watches select by."""
    name = found.metadata.labels.framework_name
    return (found.metadata.namespace, name) if name else None


def framework_name_of_config_map(config_map: ConfigMapView) -> FrameworkName | None:
    """Return the Framework whose attempt the ConfigMap represents, or None for any other ConfigMap."""
    found = framework_name(config_map)
    is_attempt = found is not None and config_map.name == names.config_map_name(found[1])
    return found if is_attempt else None


class RelatedObjects:
    def __init__(self) -> None:
        self.config_map: ConfigMapView | None = None
        self.pods: dict[str, PodView] = {}
        self.known: set[str] = set()
        self.unconfirmed: set[str] = set()
        self.deleted_frameworks: dict[str, Framework] = {}
        """Deleted Frameworks of this name, by UID, that may have left objects."""

    @property
    def is_empty(self) -> bool:
        return self.config_map is None and not self.pods

    def is_newer(self, new: ObjectView, current: ObjectView | None) -> bool:
        """Whether `new` is newer than the recorded object. A UID that was deleted never comes back."""
        is_deleted = new.uid in self.known and (current is None or current.uid != new.uid)
        if is_deleted:
            return False
        if current is None:
            return True
        is_unconfirmed = current.uid in self.unconfirmed
        seen, now = version(current.metadata.resource_version), version(new.metadata.resource_version)
        return now > seen or (now == seen and is_unconfirmed)

    def confirm(self, found: ObjectView) -> None:
        """Record that a watch or a list has shown the object."""
        self.known.add(found.uid)
        self.unconfirmed.discard(found.uid)

    def record_answer(self, found: ObjectView) -> None:
        """Record an object from the answer to a request, which the watch may not have shown yet."""
        if found.uid not in self.known:
            self.unconfirmed.add(found.uid)
        self.known.add(found.uid)

    def pods_of_attempt(self, config_map_uid: str) -> dict[str, PodView]:
        return {pod.uid: pod for pod in self.pods.values() if pod.metadata.labels.attempt == config_map_uid}

    def prune_deleted_frameworks(self) -> None:
        """Forget the deleted Frameworks that have no objects left."""
        owners = {pod.metadata.annotations.framework_uid for pod in self.pods.values()}
        if self.config_map is not None and self.config_map.controller is not None:
            owners.add(self.config_map.controller.uid)
        for uid in self.deleted_frameworks.keys() - owners:
            del self.deleted_frameworks[uid]

    def prune_known(self, status: FrameworkStatus) -> None:
        """Forget UIDs of objects that neither exist nor are in the status, once there are many."""
        if len(self.known) < MAX_UNUSED_UIDS + 4 * len(self.pods):
            return
        used = {pod.uid for pod in self.pods.values()}
        used.update(uids_in(status, pods=True, config_maps=True))
        if self.config_map is not None:
            used.add(self.config_map.uid)
        self.known &= used


def uids_in(status: FrameworkStatus, *, pods: bool, config_maps: bool) -> Iterator[str]:
    attempt = status.attempt_status
    if config_maps and attempt.config_map_uid is not None:
        yield attempt.config_map_uid
    if pods:
        for role in attempt.roles:
            for task in role.task_statuses:
                if task.attempt_status.pod_uid is not None:
                    yield task.attempt_status.pod_uid
