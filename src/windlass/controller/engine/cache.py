"""The controller's view of Frameworks, pods and ConfigMaps: from watches, lists and the answers to its own requests.

The answer to a request is the newest state of an object: it enters at once, and older watch events are ignored. A UID
that was seen and is not here any more is deleted for good. An answer for a Framework that was deleted or created again
meanwhile is ignored. A deleted Framework is kept while objects of it are left, so that they can be deleted.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from windlass.controller.engine.expectations import Expectations
from windlass.controller.engine.framework_cache import FrameworkCache
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.port import DeletedPods
from windlass.controller.engine.related_objects import (
    FrameworkName,
    RelatedObjects,
    framework_name,
    framework_name_of_config_map,
    is_as_old,
    is_in_scope,
    uids_in,
    version,
)
from windlass.decide.types import CreatedPod, Observed
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView


class Cache:
    def __init__(self) -> None:
        self._frameworks = FrameworkCache()
        self._related: dict[FrameworkName, RelatedObjects] = {}
        self._pod_framework: dict[str, FrameworkName] = {}
        """The Framework under which a pod is recorded, by the pod's UID: its label may be changed."""
        self._expectations: dict[FrameworkKey, Expectations] = {}
        self._other_controllers: dict[FrameworkKey, str] = {}
        """The name of another controller that writes the status of a Framework."""
        self._reported_other_controllers: set[FrameworkKey] = set()
        """Frameworks whose status was stored since another controller was seen."""
        # A watch continues from a list: events that are not newer than the list are ignored.
        self._pods_listed: dict[str, str] = {}
        """The resourceVersion of the last list by namespace ("" for all)."""
        self._config_maps_listed: dict[str, str] = {}

    def keys(self) -> Iterator[FrameworkKey]:
        return self._frameworks.keys()

    def framework(self, key: FrameworkKey) -> Framework | None:
        return self._frameworks.get(key)

    def observe(self, key: FrameworkKey, now: datetime, monotonic: float) -> Observed:
        """Return a view that is valid until the cache changes."""
        related = self._related_to((key.namespace, key.name))
        if related.deleted_frameworks:
            related.prune_deleted_frameworks()
        return Observed(
            config_map=related.config_map,
            pods=related.pods,
            known=related.known,
            unconfirmed=related.unconfirmed,
            previous_uids=related.deleted_frameworks.keys(),
            other_controller=self._other_controllers.get(key, ""),
            is_other_controller_reported=key in self._reported_other_controllers,
            outcomes=self._expectations_of(key).outcomes(now, monotonic),
        )

    def deleted_framework(self, key: FrameworkKey) -> Framework | None:
        """Return a deleted Framework of that key whose objects are not all deleted."""
        related = self._related.get((key.namespace, key.name))
        if related is None or not related.deleted_frameworks:
            return None
        related.prune_deleted_frameworks()
        return next((found for found in related.deleted_frameworks.values() if key_of(found) == key), None)

    def expectations_for(self, framework: Framework) -> Expectations | None:
        """Return where the outcomes of its actions are recorded, or None if the Framework is forgotten."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is not None:
            return self._expectations_of(key) if current.uid == framework.uid else None
        related = self._related.get((key.namespace, key.name))
        is_left = related is not None and framework.uid in related.deleted_frameworks
        return self._expectations_of(key) if is_left else None

    # Frameworks

    def put_framework(self, framework: Framework) -> bool:
        """Record a Framework from a watch, a list or an answer. Return False if a newer one is known."""
        is_recorded, replaced = self._frameworks.put(framework)
        if replaced is not None:
            self._record_deleted(replaced)
        return is_recorded

    def set_other_controller(self, key: FrameworkKey, name: str) -> None:
        """Record that another controller writes the Framework's status."""
        self._other_controllers[key] = name

    def invalidate(self, key: FrameworkKey) -> None:
        """Record that the Framework exists and cannot be decoded any more."""
        self._frameworks.invalidate(key)
        self._expectations.pop(key, None)

    def remove_invalid(self, key: FrameworkKey) -> bool:
        """Record the deletion of an invalid Framework. Return False if it was never valid, or is valid again."""
        framework = self._frameworks.pop_invalid(key)
        if framework is None:
            return False
        self._record_deleted(framework)
        return True

    def remove_framework(self, framework: Framework) -> bool:
        """Record a deletion, which has a resourceVersion of its own. Return False if it is known already."""
        return self._remove_framework(framework, framework.metadata.resource_version)

    def replace_frameworks(
        self,
        frameworks: Iterable[Framework],
        resource_version: str,
        namespace: str = "",
        group: str = "",
        invalid: Collection[FrameworkKey] = (),
    ) -> set[FrameworkKey]:
        """Record a list of one namespace and one group (empty: all). Return the keys that are new or deleted."""
        listed = {key_of(framework): framework for framework in frameworks}
        changed = {key for key, framework in listed.items() if self.put_framework(framework)}
        for framework in self._frameworks.missing(listed, resource_version, namespace, group):
            self._remove_framework(framework, resource_version)
            changed.add(key_of(framework))
        for key in self._frameworks.missing_invalid(invalid, namespace, group):
            self.remove_invalid(key)
            changed.add(key)
        return changed

    def _remove_framework(self, framework: Framework, as_of: str) -> bool:
        removed = self._frameworks.remove(framework, version(as_of))
        if removed is None:
            return False
        self._record_deleted(removed)
        return True

    def _record_deleted(self, framework: Framework) -> None:
        key, name = key_of(framework), (framework.namespace, framework.name)
        self._related_to(name).deleted_frameworks[framework.uid] = framework
        self._expectations.pop(key, None)
        self._other_controllers.pop(key, None)
        self._reported_other_controllers.discard(key)
        self._forget_if_empty(name)

    # Pods and ConfigMaps

    def put_pod(self, pod: PodView) -> set[FrameworkKey]:
        """Record a pod from a watch. Return the keys that it concerns; none if a newer state is known."""
        return set() if _was_listed(pod, self._pods_listed) else self._put_pod(pod)

    def _put_pod(self, pod: PodView) -> set[FrameworkKey]:
        name = framework_name(pod)
        changed = self._remove_from_old_framework(pod, name)
        if name is None:
            return changed
        related = self._related_to(name)
        current = related.pods.get(pod.name)
        if not related.is_newer(pod, current):
            return changed
        if current is not None and current.uid != pod.uid:
            self._forget_uid(name, related, current.uid)
        related.pods[pod.name] = pod
        self._pod_framework[pod.uid] = name
        related.confirm(pod)
        return changed | self._keys_of(name)

    def _remove_from_old_framework(self, pod: PodView, name: FrameworkName | None) -> set[FrameworkKey]:
        """Treat a pod whose label was changed as deleted under its old label."""
        old = self._pod_framework.get(pod.uid)
        if old is None or old == name:
            return set()
        return self._remove_pod_of(old, pod)

    def remove_pod(self, pod: PodView) -> set[FrameworkKey]:
        name = self._pod_framework.get(pod.uid) or framework_name(pod)
        return set() if name is None else self._remove_pod_of(name, pod)

    def _remove_pod_of(self, name: FrameworkName, pod: PodView) -> set[FrameworkKey]:
        related = self._related_to(name)
        related.known.add(pod.uid)
        current = related.pods.get(pod.name)
        if current is not None and current.uid == pod.uid:
            del related.pods[pod.name]
        self._forget_uid(name, related, pod.uid)
        return self._keys_of(name)

    def put_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        """Record a ConfigMap from a watch, like `put_pod`."""
        is_old = _was_listed(config_map, self._config_maps_listed)
        return set() if is_old else self._put_config_map(config_map)

    def _put_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        name = framework_name_of_config_map(config_map)
        if name is None:
            return set()
        related = self._related_to(name)
        current = related.config_map
        if not related.is_newer(config_map, current):
            return set()
        if current is not None and current.uid != config_map.uid:
            self._forget_uid(name, related, current.uid)
        related.config_map = config_map
        related.confirm(config_map)
        return self._keys_of(name)

    def remove_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        name = framework_name_of_config_map(config_map)
        if name is None:
            return set()
        related = self._related_to(name)
        related.known.add(config_map.uid)
        if related.config_map is not None and related.config_map.uid == config_map.uid:
            related.config_map = None
        self._forget_uid(name, related, config_map.uid)
        return self._keys_of(name)

    def replace_pods(
        self, pods: Iterable[PodView], resource_version: str, namespace: str = ""
    ) -> set[FrameworkKey]:
        """Record a list of one namespace (empty: all). Pods older than the list and not in it are deleted."""
        changed: set[FrameworkKey] = set()
        listed: set[str] = set()
        for pod in pods:
            listed.add(pod.uid)
            changed |= self._put_pod(pod)
        for related in self._related_in(namespace):
            for pod in tuple(related.pods.values()):
                if pod.uid not in listed and is_as_old(pod, resource_version):
                    changed |= self.remove_pod(pod)
        self._record_listed_uids(resource_version, namespace, pods=True)
        self._pods_listed[namespace] = resource_version
        return changed

    def replace_config_maps(
        self, config_maps: Iterable[ConfigMapView], resource_version: str, namespace: str = ""
    ) -> set[FrameworkKey]:
        """Record a list of ConfigMaps, like `replace_pods`."""
        changed: set[FrameworkKey] = set()
        listed: set[str] = set()
        for config_map in config_maps:
            listed.add(config_map.uid)
            changed |= self._put_config_map(config_map)
        for related in self._related_in(namespace):
            found = related.config_map
            if found is not None and found.uid not in listed and is_as_old(found, resource_version):
                changed |= self.remove_config_map(found)
        self._record_listed_uids(resource_version, namespace, config_maps=True)
        self._config_maps_listed[namespace] = resource_version
        return changed

    def _related_in(self, namespace: str) -> list[RelatedObjects]:
        return [related for name, related in self._related.items() if is_in_scope(name[0], namespace)]

    def _record_listed_uids(
        self, resource_version: str, namespace: str, *, pods: bool = False, config_maps: bool = False
    ) -> None:
        """Record the UIDs in statuses that are not newer than the list: such an object was created before the list,
        so it is deleted if the list does not contain it."""
        for framework in self._frameworks:
            is_older = is_as_old(framework, resource_version)
            if framework.status is not None and is_older and is_in_scope(framework.namespace, namespace):
                known = self._related_to((framework.namespace, framework.name)).known
                known.update(uids_in(framework.status, pods=pods, config_maps=config_maps))

    # Answers to requests of the controller

    def record_stored(self, framework: Framework) -> bool:
        """Record a stored status. Return False if the Framework was deleted meanwhile."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return False
        self.put_framework(framework)
        if key in self._other_controllers:
            self._reported_other_controllers.add(key)
        if framework.status is not None:
            self._expectations_of(key).record_stored(framework.status)
            self._related_to((framework.namespace, framework.name)).prune_known(framework.status)
        return True

    def record_created_config_map(self, framework: Framework, config_map: ConfigMapView) -> None:
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        expectations.record_creation(config_map.name)
        expectations.set_name_taken("")
        related = self._related_to((framework.namespace, framework.name))
        if related.is_newer(config_map, related.config_map):
            related.config_map = config_map
            related.record_answer(config_map)

    def record_created_pod(self, framework: Framework, pod: PodView, created: CreatedPod) -> None:
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        expectations.record_creation(pod.name, created)
        self._put_answered_pod(framework, pod)

    def task_ports(self, framework: Framework) -> dict[str, int] | None:
        """Return the ports in the attempt's ConfigMap, where pods share one network."""
        config_map = self._related_to((framework.namespace, framework.name)).config_map
        return None if config_map is None else config_map.task_ports

    def pods_of_attempt(self, framework: Framework, config_map_uid: str) -> dict[str, PodView]:
        """Return the pods with the attempt's label, by UID."""
        return self._related_to((framework.namespace, framework.name)).pods_of_attempt(config_map_uid)

    def record_deleted_pods(
        self, framework: Framework, config_map_uid: str, deleted: DeletedPods, cached: Iterable[str]
    ) -> None:
        """Record the answer to a deletecollection request, which may contain pods that the watch has not shown.

        `cached` are the UIDs that were cached when it was sent: those not in the answer were deleted before.
        """
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        expectations.record_attempt_deletion(config_map_uid, deleted.continue_token)
        if not deleted.continue_token:
            for uid in self.pods_of_attempt(framework, config_map_uid).keys() & cached:
                expectations.record_deletion(uid)
        for pod in deleted.pods:
            expectations.record_deletion(pod.uid)
            self._put_answered_pod(framework, pod)

    def replace_objects(
        self,
        framework: Framework,
        config_map: ConfigMapView | None,
        pods: Iterable[PodView],
        resource_version: str,
    ) -> None:
        """Record a list of one Framework's objects that was requested after its status was read."""
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        related = self._related_to((framework.namespace, framework.name))
        listed = {pod.uid: pod for pod in pods}
        for pod in listed.values():
            self._put_pod(pod)
        for pod in tuple(related.pods.values()):
            if pod.uid not in listed and is_as_old(pod, resource_version):
                self.remove_pod(pod)
        found = related.config_map
        if config_map is not None:
            self._put_config_map(config_map)
        elif found is not None and is_as_old(found, resource_version):
            self.remove_config_map(found)
        if framework.status is not None:
            related.known.update(uids_in(framework.status, pods=True, config_maps=True))
        expectations.clear_uncertain()

    def _put_answered_pod(self, framework: Framework, pod: PodView) -> None:
        name = (framework.namespace, framework.name)
        related = self._related_to(name)
        if related.is_newer(pod, related.pods.get(pod.name)):
            related.pods[pod.name] = pod
            self._pod_framework[pod.uid] = name
            related.record_answer(pod)
        else:
            related.known.add(pod.uid)

    # Shared by all of the above

    def _related_to(self, name: FrameworkName) -> RelatedObjects:
        related = self._related.get(name)
        if related is None:
            related = self._related[name] = RelatedObjects()
        return related

    def _expectations_of(self, key: FrameworkKey) -> Expectations:
        framework = self._frameworks.get(key)
        uid = "" if framework is None else framework.uid
        expectations = self._expectations.get(key)
        if expectations is None or expectations.framework_uid != uid:
            expectations = self._expectations[key] = Expectations(uid)
        return expectations

    def _keys_of(self, name: FrameworkName) -> set[FrameworkKey]:
        """Return the Frameworks of that name, including deleted ones whose objects are still being deleted."""
        keys = (FrameworkKey(group, *name) for group in names.GROUPS)
        found = {key for key in keys if self._frameworks.get(key) is not None}
        related = self._related.get(name)
        if related is not None and related.deleted_frameworks:
            found.update(map(key_of, related.deleted_frameworks.values()))
        return found

    def _forget_uid(self, name: FrameworkName, related: RelatedObjects, uid: str) -> None:
        related.unconfirmed.discard(uid)
        self._pod_framework.pop(uid, None)
        for key in self._keys_of(name):
            self._expectations_of(key).forget(uid)
        self._forget_if_empty(name)

    def _forget_if_empty(self, name: FrameworkName) -> None:
        related = self._related.get(name)
        if related is None or not related.is_empty:
            return
        related.deleted_frameworks.clear()
        if not self._keys_of(name):
            del self._related[name]
            for group in names.GROUPS:
                self._expectations.pop(FrameworkKey(group, *name), None)


def _was_listed(found: ObjectView, listed: dict[str, str]) -> bool:
    """Whether the object is not newer than the list that its watch continues from."""
    return is_as_old(found, listed.get("") or listed.get(found.metadata.namespace, ""))
