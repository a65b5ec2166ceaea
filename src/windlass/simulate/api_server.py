"""A simulated API server in memory, with watches and a garbage collector.

Objects are the frozen values of `windlass.model`, without serialization, so that thousands of Frameworks are simulated
in seconds.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random
from typing import TypeVar

import msgspec

from windlass.controller.engine.api import (
    MAX_PODS_PER_DELETE,
    AlreadyExistsError,
    ConflictError,
    DeletedPods,
    Listed,
    NotFoundError,
    RefusedError,
)
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.model import names
from windlass.model.base import Json
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework
from windlass.model.gang import GangSpec
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import FrameworkStatus
from windlass.simulate.scenario import Occurrence
from windlass.simulate.virtual_time import Timeline

V = TypeVar("V", Framework, ConfigMapView, PodView)
Watched = Framework | ConfigMapView | PodView
GRACE_SECONDS = 30


class WatchEventType(StrEnum):
    """Windlass does not distinguish added from modified."""

    CHANGED = "changed"
    DELETED = "deleted"


class Propagation(StrEnum):
    FOREGROUND = "Foreground"
    BACKGROUND = "Background"


Watcher = Callable[[WatchEventType, Watched], None]


class ApiServer:
    def __init__(self, timeline: Timeline, random: Random) -> None:
        self._timeline = timeline
        self._random = random
        self._version = 0
        self._serial = 0
        self.frameworks: dict[FrameworkKey, Framework] = {}
        self.config_maps: dict[tuple[str, str], ConfigMapView] = {}
        self.pods: dict[tuple[str, str], PodView] = {}
        self.services: dict[tuple[str, str], str] = {}
        """UID of the owner of each Service, by namespace and name."""
        self._foreground_deleted: set[str] = set()
        """UIDs of objects that are removed after their dependents (foreground deletion)."""
        self._by_uid: dict[str, ObjectView | Framework] = {}
        self.pod_specs: dict[str, Json] = {}
        """The specs of pods as they were created, by UID."""
        self._creation_versions: dict[str, int] = {}
        """The resourceVersion at which each pod was created, by pod UID."""
        self._dependents: dict[str, set[tuple[str, str, str]]] = {}
        self._pods_of: dict[tuple[str, str], set[str]] = {}
        """Names of pods by namespace and the Framework name in their label."""
        self.max_pods_per_delete = MAX_PODS_PER_DELETE
        self._finalizers: set[str] = set()
        """UIDs of objects with a finalizer of another controller."""
        self._removed_when_finalized: set[str] = set()
        """UIDs of objects that are removed as soon as they have no finalizer."""
        self.terminating_namespaces: set[str] = set()
        self.forbidden: set[tuple[str, str]] = set()
        """Verbs and resources for which the controller has no permission."""
        self.has_final_rejection = False
        """Whether a creation was rejected for a reason that ends a task attempt, e.g. a terminating namespace."""
        self.clock_tolerance = timedelta()
        """Maximum difference between times that controllers write and the server's time."""
        self.occurred: set[Occurrence] = set()
        self.watchers: list[Watcher] = []
        self.on_pod_created: list[Callable[[PodView], None]] = []
        self.on_pod_deletion: list[Callable[[PodView, bool], None]] = []
        self.on_status_stored: list[Callable[[Framework, FrameworkStatus], None]] = []
        self.on_gang_published: list[Callable[[GangSpec], None]] = []

    @property
    def now(self) -> datetime:
        return self._timeline.now

    def find(self, uid: str) -> ObjectView | Framework | None:
        return self._by_uid.get(uid)

    @property
    def resource_version(self) -> str:
        return str(self._version)

    # Frameworks

    def create_framework(self, framework: Framework) -> Framework:
        key = key_of(framework)
        if key in self.frameworks:
            raise AlreadyExistsError(str(key))
        self._check_namespace(framework.namespace, f"frameworks {framework.name!r}")
        return self.put_framework(msgspec.structs.replace(self._created(framework, "fw"), status=None))

    def put_framework(self, framework: Framework) -> Framework:
        """Write a Framework without a precondition."""
        framework = self._versioned(framework)
        self.frameworks[key_of(framework)] = framework
        self._by_uid[framework.uid] = framework
        self._notify(WatchEventType.CHANGED, framework)
        return framework

    def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        key = key_of(framework)
        current = self.frameworks.get(key)
        if current is None or current.uid != framework.uid:
            raise NotFoundError(str(key))
        if current.metadata.resource_version != framework.metadata.resource_version:
            raise ConflictError(f"{current.metadata.resource_version} is newer")
        for listener in self.on_status_stored:
            listener(current, status)
        return self.put_framework(msgspec.structs.replace(current, status=status))

    def delete_framework(self, framework: Framework, propagation: Propagation) -> None:
        key = key_of(framework)
        current = self.frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return
        if propagation is Propagation.BACKGROUND:
            self._remove_framework(current)
            return
        self._foreground_deleted.add(current.uid)
        if not current.is_deleting:
            current = self._mark_deleting(current)
        self._collect_later(current.uid)

    # ConfigMaps

    def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView:
        view = msgspec.convert(manifest, ConfigMapView)
        if (namespace, view.name) in self.config_maps:
            raise AlreadyExistsError(f"configmaps {view.name!r} already exists")
        self._check_namespace(namespace, f"configmaps {view.name!r}")
        created = self._put_config_map(self._created(view, "cm"))
        self._collect_if_orphan(created)
        return created

    def delete_config_map(self, namespace: str, name: str, uid: str, propagation: Propagation) -> None:
        current = self.config_maps.get((namespace, name))
        if current is None or current.uid != uid:
            return
        if propagation is Propagation.BACKGROUND:
            self._remove_config_map(current)
            return
        self._foreground_deleted.add(uid)
        if not current.is_deleting:
            self._put_config_map(self._deleting(current, 0))
        self._collect_later(uid)

    # Services and gangs

    def create_service(self, framework: Framework, manifest: Json) -> None:
        """Create a Service, unless the Framework has it. It counts as deleted as soon as its owner is deleted."""
        key = framework.namespace, manifest["metadata"]["name"]
        owner = self.services.get(key, framework.uid)
        if owner != framework.uid and owner in self._by_uid:
            raise AlreadyExistsError(f"services {key[1]!r} already exists")
        self._check_namespace(framework.namespace, f"services {key[1]!r}")
        self.services[key] = framework.uid

    def publish_gang(self, manifest: Json) -> None:
        gang = msgspec.convert(manifest["spec"], GangSpec)
        for listener in self.on_gang_published:
            listener(gang)

    # Pods

    def create_pod(self, namespace: str, manifest: Json) -> PodView:
        view = msgspec.convert(manifest, PodView)
        if (namespace, view.name) in self.pods:
            raise AlreadyExistsError(f"pods {view.name!r} already exists")
        self._check_namespace(namespace, f"pods {view.name!r}")
        created = self.put_pod(self._created(view, "pod"))
        self.pod_specs[created.uid] = manifest["spec"]
        self._creation_versions[created.uid] = int(created.metadata.resource_version)
        for listener in self.on_pod_created:
            listener(created)
        self._collect_if_orphan(created)
        return created

    def put_pod(self, pod: PodView) -> PodView:
        pod = self._versioned(pod)
        self.pods[pod.metadata.namespace, pod.name] = pod
        key = (pod.metadata.namespace, pod.metadata.labels.framework_name)
        self._pods_of.setdefault(key, set()).add(pod.name)
        self._index(pod)
        self._notify(WatchEventType.CHANGED, pod)
        return pod

    def pod_of(self, uid: str) -> PodView | None:
        found = self._by_uid.get(uid)
        return found if isinstance(found, PodView) else None

    def delete_pod(self, namespace: str, name: str, uid: str, *, force: bool = False) -> PodView | None:
        """Delete a pod. Return the terminating pod, or None if it does not exist any more."""
        current = self.pods.get((namespace, name))
        if current is None or current.uid != uid:
            return None
        is_first_time = not current.is_deleting
        if is_first_time and not force:
            current = self.put_pod(self._deleting(current, GRACE_SECONDS))
        if is_first_time or force:
            for listener in self.on_pod_deletion:
                listener(current, force)
        if force or current.is_terminal:
            self.remove_pod(uid)
        return self.pod_of(uid)

    def remove_pod(self, uid: str) -> None:
        pod = self.pod_of(uid)
        if pod is None or self._is_kept_by_finalizer(pod):
            return
        del self.pods[pod.metadata.namespace, pod.name]
        self._pods_of[pod.metadata.namespace, pod.metadata.labels.framework_name].discard(pod.name)
        self._unindex(pod)
        self._notify(WatchEventType.DELETED, self._versioned(pod))
        owner = pod.controller
        if owner is not None and owner.uid in self._foreground_deleted:
            self._timeline.after(self._random.uniform(0, 0.05), lambda: self._collect(owner.uid))

    def delete_pods_of_attempt(
        self, namespace: str, config_map_uid: str, continue_token: str, not_older_than: str
    ) -> DeletedPods:
        """Delete a page of pods in the order of their names; the token is the last deleted name.

        With `not_older_than`, a list may be as old as that resourceVersion: ignore pods that were created after it.
        """
        owned = [
            pod
            for kind, space, name in sorted(self._dependents.get(config_map_uid, ()))
            if kind == "pod" and name > continue_token and (pod := self.pods.get((space, name))) is not None
        ]
        newest = int(not_older_than) if not_older_than else int(self.resource_version)
        found = [
            pod
            for pod in owned
            if pod.metadata.labels.attempt == config_map_uid
            and self._creation_versions.get(pod.uid, 0) <= newest
        ]
        first, rest = found[: self.max_pods_per_delete], found[self.max_pods_per_delete :]
        for pod in first:
            self.delete_pod(namespace, pod.name, pod.uid)
        return DeletedPods(tuple(first), first[-1].name if rest else "")

    def list_objects(self, framework: Framework) -> Listed:
        namespace = framework.namespace
        config_map = self.config_maps.get((namespace, names.config_map_name(framework.name)))
        pods = [
            self.pods[namespace, name] for name in sorted(self._pods_of.get((namespace, framework.name), ()))
        ]
        return Listed(self.resource_version, config_map, tuple(pods))

    # The garbage collector

    def _collect_later(self, uid: str) -> None:
        self._timeline.after(self._random.uniform(0.2, 5), lambda: self._collect(uid))

    def _collect_if_orphan(self, found: ObjectView) -> None:
        owner = found.controller
        if owner is None or owner.uid not in self._by_uid:
            self._collect_later(found.uid)

    def _collect(self, uid: str) -> None:
        found = self._by_uid.get(uid)
        if found is None:
            return
        if uid in self._foreground_deleted:
            dependents = self.dependents_of(uid)
            if not dependents:
                self._timeline.after(
                    self._random.uniform(0, 0.02), lambda: self._finish_foreground_deletion(found)
                )
                return
            for dependent in dependents:
                self._delete_as_collector(dependent)
            self._collect_later(uid)
            return
        owner = found.controller if isinstance(found, ObjectView) else None
        if owner is None or owner.uid not in self._by_uid:
            self._delete_as_collector(found)

    def _finish_foreground_deletion(self, found: ObjectView | Framework) -> None:
        """Remove an object whose dependents are removed. Like a real API server, remove a ConfigMap by name without
        comparing the UID: a new ConfigMap of the same name is removed too."""
        current: ObjectView | Framework | None
        match found:
            case ConfigMapView():
                current = self.config_maps.get((found.metadata.namespace, found.name))
            case _:
                current = self._by_uid.get(found.uid)
        if current is not None:
            self._remove(current)

    def _delete_as_collector(self, found: ObjectView | Framework) -> None:
        match found:
            case ConfigMapView():
                # It has the foreground finalizer, so its pods are deleted first.
                self.delete_config_map(
                    found.metadata.namespace, found.name, found.uid, Propagation.FOREGROUND
                )
            case PodView():
                self.delete_pod(found.metadata.namespace, found.name, found.uid)

    def dependents_of(self, uid: str) -> list[ObjectView]:
        keys = sorted(self._dependents.get(uid, ()))
        found = [
            self.pods.get((space, name)) if kind == "pod" else self.config_maps.get((space, name))
            for kind, space, name in keys
        ]
        return [dependent for dependent in found if dependent is not None]

    # Namespaces and finalizers

    def _check_namespace(self, namespace: str, subject: str) -> None:
        if namespace in self.terminating_namespaces:
            self.occurred.add(Occurrence.NAMESPACE_TERMINATING)
            self.has_final_rejection = True
            reason = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise RefusedError(ApiFailure(403, "Forbidden", f"{subject} is forbidden: {reason}"))

    def add_finalizer(self, uid: str) -> None:
        found = self._by_uid.get(uid)
        # The API server rejects new finalizers of an object that is being deleted.
        if found is not None and not found.is_deleting:
            self._finalizers.add(uid)

    def remove_finalizer(self, uid: str) -> None:
        self._finalizers.discard(uid)
        if uid in self._removed_when_finalized and uid in self._by_uid:
            self._remove(self._by_uid[uid])

    def _is_kept_by_finalizer(self, found: Watched) -> bool:
        """Return whether an object to remove has a finalizer. If so, it is only marked as being deleted."""
        if found.uid not in self._finalizers:
            self._removed_when_finalized.discard(found.uid)
            return False
        self._removed_when_finalized.add(found.uid)
        self.occurred.add(Occurrence.FINALIZER_DELAYED_REMOVAL)
        if not found.is_deleting:
            match found:
                case Framework():
                    self._mark_deleting(found)
                case ConfigMapView():
                    self._put_config_map(self._deleting(found, 0))
                case PodView():
                    self.put_pod(self._deleting(found, 0))
        return True

    # Helpers

    def _mark_deleting(self, framework: Framework) -> Framework:
        metadata = msgspec.structs.replace(framework.metadata, deletion_timestamp=self._timeline.now)
        return self.put_framework(msgspec.structs.replace(framework, metadata=metadata))

    def _notify(self, event_type: WatchEventType, found: Watched) -> None:
        for watcher in self.watchers:
            watcher(event_type, found)

    def _versioned(self, found: V) -> V:
        self._version += 1
        metadata = msgspec.structs.replace(found.metadata, resource_version=self.resource_version)
        return msgspec.structs.replace(found, metadata=metadata)

    def _created(self, new: V, uid_prefix: str) -> V:
        self._serial += 1
        metadata = msgspec.structs.replace(
            new.metadata, uid=f"{uid_prefix}-{self._serial}", creation_timestamp=self._timeline.now
        )
        return msgspec.structs.replace(new, metadata=metadata)

    def _deleting(self, found: V, grace: int) -> V:
        metadata = msgspec.structs.replace(
            found.metadata,
            deletion_timestamp=self._timeline.now + timedelta(seconds=grace),
            deletion_grace_period_seconds=grace,
        )
        return msgspec.structs.replace(found, metadata=metadata)

    def _put_config_map(self, config_map: ConfigMapView) -> ConfigMapView:
        config_map = self._versioned(config_map)
        self.config_maps[config_map.metadata.namespace, config_map.name] = config_map
        self._index(config_map)
        self._notify(WatchEventType.CHANGED, config_map)
        return config_map

    def _remove(self, found: ObjectView | Framework) -> None:
        match found:
            case Framework():
                self._remove_framework(found)
            case ConfigMapView():
                self._remove_config_map(found)
            case PodView():
                self.remove_pod(found.uid)

    def _remove_framework(self, framework: Framework) -> None:
        if self._is_kept_by_finalizer(framework):
            return
        del self.frameworks[key_of(framework)]
        del self._by_uid[framework.uid]
        self._foreground_deleted.discard(framework.uid)
        self._notify(WatchEventType.DELETED, self._versioned(framework))
        for dependent in self.dependents_of(framework.uid):
            self._collect_later(dependent.uid)

    def _remove_config_map(self, config_map: ConfigMapView) -> None:
        if self._is_kept_by_finalizer(config_map):
            return
        del self.config_maps[config_map.metadata.namespace, config_map.name]
        self._unindex(config_map)
        self._notify(WatchEventType.DELETED, self._versioned(config_map))
        for dependent in self.dependents_of(config_map.uid):
            self._collect_later(dependent.uid)

    def _dependent_key(self, found: ObjectView) -> tuple[str, str, str]:
        kind = "pod" if isinstance(found, PodView) else "config_map"
        return kind, found.metadata.namespace, found.name

    def _index(self, found: ObjectView) -> None:
        self._by_uid[found.uid] = found
        owner = found.controller
        if owner is not None:
            self._dependents.setdefault(owner.uid, set()).add(self._dependent_key(found))

    def _unindex(self, found: ObjectView) -> None:
        del self._by_uid[found.uid]
        self._creation_versions.pop(found.uid, None)
        self._foreground_deleted.discard(found.uid)
        owner = found.controller
        if owner is not None:
            self._dependents.get(owner.uid, set()).discard(self._dependent_key(found))
