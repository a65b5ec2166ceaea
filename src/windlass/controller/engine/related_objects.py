"""The pods and the ConfigMap with one Framework's name as their label.

Known UIDs are those of all objects that a watch, a list, a response or a status has shown, including deleted ones.
"""

from collections.abc import Iterator, Sequence

from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import FrameworkStatus

MAX_UNUSED_UIDS = 100
"""Unused UIDs are removed when the number of known UIDs reaches this number plus four per pod."""

FrameworkName = tuple[str, str]
"""Namespace and name of a Framework. Frameworks of the same name in both API groups have equal pod names."""
RelatedObject = PodView | ConfigMapView
Kind = type[PodView] | type[ConfigMapView]


def version(resource_version: str) -> int:
    """Return the resourceVersion as a number: Kubernetes orders the versions of all objects of one server."""
    return int(resource_version or 0)


def is_not_newer(found: ObjectView | Framework, resource_version: str) -> bool:
    return version(found.metadata.resource_version) <= version(resource_version)


def is_in_scope(namespace: str, scope: str) -> bool:
    """Return whether a list of `scope` (empty: all namespaces) contains objects of the namespace."""
    return scope in ("", namespace)


def framework_name(found: RelatedObject) -> FrameworkName | None:
    """Return the Framework in the label by which the watches select objects; None without that label.

    Also return None for a ConfigMap whose name is not that of the Framework's ConfigMaps.
    """
    name = found.metadata.labels.framework_name
    is_other_config_map = isinstance(found, ConfigMapView) and found.name != names.config_map_name(name)
    return None if not name or is_other_config_map else (found.metadata.namespace, name)


class RelatedObjects:
    def __init__(self) -> None:
        self.config_map: ConfigMapView | None = None
        self.pods: dict[str, PodView] = {}
        self.known: set[str] = set()
        self.unconfirmed: set[str] = set()
        """UIDs of objects that only responses have shown so far."""
        self.deleted_frameworks: dict[str, Framework] = {}
        """Deleted Frameworks of this name, by UID, that may have left objects."""

    @property
    def is_empty(self) -> bool:
        return self.config_map is None and not self.pods

    def objects(self, kind: Kind) -> Sequence[RelatedObject]:
        if kind is PodView:
            return tuple(self.pods.values())
        return () if self.config_map is None else (self.config_map,)

    def current(self, found: RelatedObject) -> RelatedObject | None:
        """Return the recorded object of the same kind and name."""
        return self.pods.get(found.name) if isinstance(found, PodView) else self.config_map

    def put(self, found: RelatedObject) -> None:
        if isinstance(found, PodView):
            self.pods[found.name] = found
        else:
            self.config_map = found

    def remove(self, found: RelatedObject) -> None:
        """Record that the object was deleted. Another object of the same name is kept."""
        self.known.add(found.uid)
        current = self.current(found)
        if current is None or current.uid != found.uid:
            return
        if isinstance(found, PodView):
            del self.pods[found.name]
        else:
            self.config_map = None

    def should_record(self, new: RelatedObject) -> bool:
        """Return whether to record `new`: no object of its name is recorded, or an older one, or an unconfirmed one
        of the same version.

        An object whose UID was deleted is never recorded again.
        """
        current = self.current(new)
        is_deleted = new.uid in self.known and (current is None or current.uid != new.uid)
        if is_deleted:
            return False
        if current is None:
            return True
        is_unconfirmed = current.uid in self.unconfirmed
        old_version = version(current.metadata.resource_version)
        new_version = version(new.metadata.resource_version)
        return new_version > old_version or (new_version == old_version and is_unconfirmed)

    def confirm(self, found: ObjectView) -> None:
        """Record that a watch or a list has shown the object."""
        self.known.add(found.uid)
        self.unconfirmed.discard(found.uid)

    def mark_unconfirmed(self, found: ObjectView) -> None:
        """Record that a response contains the object. Unless it is known, the watch has not shown it yet."""
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
        objects = (*self.objects(PodView), *self.objects(ConfigMapView))
        self.known &= {*(found.uid for found in objects), *uids_in(status, PodView, ConfigMapView)}


def uids_in(status: FrameworkStatus, *kinds: Kind) -> Iterator[str]:
    """Yield the UIDs of the objects of these kinds that the status names."""
    attempt = status.attempt_status
    if ConfigMapView in kinds and attempt.config_map_uid is not None:
        yield attempt.config_map_uid
    if PodView in kinds:
        for role in attempt.roles:
            for task in role.task_statuses:
                if task.attempt_status.pod_uid is not None:
                    yield task.attempt_status.pod_uid
