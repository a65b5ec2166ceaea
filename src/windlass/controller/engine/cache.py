"""The controller's view of Frameworks, pods and ConfigMaps: from watches, lists and the answers to its own requests.

The answer to a request is the newest state of an object: it is recorded at once, and older watch events are ignored.
The UIDs of objects are kept after their deletion (`known`): if the UID of an object is known, but the object is not
recorded, it has been deleted. A deleted Framework is kept until its objects are deleted. An answer for a Framework that
is no longer kept, or that was created again meanwhile, is ignored.

A finished Framework without objects is replaced by a `Finished`, so that many of them need little memory.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from windlass.controller.engine.api import DeletedPods, Listed
from windlass.controller.engine.expectations import Expectations
from windlass.controller.engine.keys import Finished, FrameworkKey, key_of
from windlass.controller.engine.related_objects import (
    FrameworkName,
    Kind,
    RelatedObject,
    RelatedObjects,
    framework_name,
    is_in_scope,
    is_not_newer,
    uids_in,
    version,
)
from windlass.decide.types import CreatedPod, Observed
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView

MAX_TOMBSTONES = 10_000
"""Maximum number of deleted Frameworks whose older watch events are ignored."""


class Cache:
    def __init__(self) -> None:
        self._frameworks: dict[FrameworkKey, Framework] = {}
        self._finished: dict[FrameworkKey, Finished] = {}
        self._tombstones: OrderedDict[FrameworkKey, int] = OrderedDict()
        """The resourceVersion as of which a Framework of that key was deleted. Older watch events are ignored."""
        self._invalid: dict[FrameworkKey, Framework] = {}
        """The last valid version of each Framework that exists but can no longer be decoded."""
        self._related: dict[FrameworkName, RelatedObjects] = {}
        self._pod_framework: dict[str, FrameworkName] = {}
        """The Framework under which a pod is recorded, by the pod's UID. The pod's label may have changed since."""
        self._expectations: dict[FrameworkKey, Expectations] = {}
        self._other_controllers: dict[FrameworkKey, str] = {}
        """The name of another controller that writes the status of a Framework."""
        self._reported_other_controllers: set[FrameworkKey] = set()
        """Frameworks whose stored status has contained the condition about the other controller."""
        self._list_versions: dict[Kind, dict[str, str]] = {PodView: {}, ConfigMapView: {}}
        """The resourceVersion of the last list by namespace ("" for all). A watch continues from a list: events that
        are not newer than the list are ignored."""

    def keys(self) -> Iterator[FrameworkKey]:
        return iter(tuple(self._frameworks))

    def framework(self, key: FrameworkKey) -> Framework | None:
        return self._frameworks.get(key)

    def finished(self, key: FrameworkKey) -> Finished | None:
        return self._finished.get(key)

    def finished_counts(self) -> tuple[int, int]:
        """Return the number of finished Frameworks that the cache does not hold, and of their tasks."""
        return len(self._finished), sum(finished.tasks for finished in self._finished.values())

    def has_version(self, key: FrameworkKey, resource_version: str) -> bool:
        """Return whether this is the cached version of a Framework, or the one that finished."""
        current, finished = self._frameworks.get(key), self._finished.get(key)
        if finished is not None:
            return finished.resource_version == resource_version
        return current is not None and current.metadata.resource_version == resource_version

    def observe(self, key: FrameworkKey, now: datetime, monotonic: float) -> Observed:
        """Return a view of a Framework's objects and of the outcomes of its actions, valid until the cache changes."""
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
            outcomes=self._get_or_create_expectations(key).outcomes(now, monotonic),
        )

    def pod_uid(self, namespace: str, framework: str, pod: str) -> str:
        """Return the UID of the pod that has this name now; empty if there is none."""
        related = self._related.get((namespace, framework))
        found = None if related is None else related.pods.get(pod)
        return "" if found is None else found.uid

    def deleted_framework(self, key: FrameworkKey) -> Framework | None:
        """Return a deleted Framework of that key whose objects are not all deleted."""
        related = self._related.get((key.namespace, key.name))
        if related is None or not related.deleted_frameworks:
            return None
        related.prune_deleted_frameworks()
        return next(
            (framework for framework in related.deleted_frameworks.values() if key_of(framework) == key), None
        )

    def expectations_for(self, framework: Framework) -> Expectations | None:
        """Return the outcomes of the Framework's actions, or None if it is no longer kept or was created again."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is not None:
            return self._get_or_create_expectations(key) if current.uid == framework.uid else None
        related = self._related.get((key.namespace, key.name))
        has_objects = related is not None and framework.uid in related.deleted_frameworks
        return self._get_or_create_expectations(key) if has_objects else None

    # Frameworks

    def put_framework(self, framework: Framework) -> bool:
        """Record a Framework from a watch, a list or an answer. Return False if it is outdated or already cached."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        newest = self._tombstones.get(key, 0)
        if current is not None:
            newest = max(newest, version(current.metadata.resource_version))
        finished = self._finished.get(key)
        if finished is not None:
            newest = max(newest, version(finished.resource_version))
        if newest and version(framework.metadata.resource_version) <= newest:
            return False
        last = self._invalid.pop(key, None) or current
        self._finished.pop(key, None)
        self._frameworks[key] = framework
        if last is not None and last.uid != framework.uid:
            self._record_deleted(last)
        return True

    def finish(self, framework: Framework, expires_at: datetime) -> bool:
        """Replace a completed Framework by a `Finished`. Return False if it has objects or was changed."""
        key, name = key_of(framework), (framework.namespace, framework.name)
        related = self._related.get(name)
        is_changed = self._frameworks.get(key) is not framework or key in self._other_controllers
        if is_changed or framework.status is None or (related is not None and not related.is_empty):
            return False
        del self._frameworks[key]
        tasks = framework.status.summary.tasks
        self._finished[key] = Finished(framework.metadata.resource_version, expires_at, tasks)
        self._expectations.pop(key, None)
        self._forget_if_empty(name)
        return True

    def resume_finished(self, key: FrameworkKey, framework: Framework | None) -> None:
        """Record a finished Framework as it was read, or that it does not exist."""
        self._finished.pop(key, None)
        if framework is not None:
            self.put_framework(framework)

    def set_other_controller(self, key: FrameworkKey, name: str) -> None:
        """Record that another controller writes the Framework's status."""
        self._other_controllers[key] = name

    def invalidate(self, key: FrameworkKey) -> None:
        """Record that the Framework exists but can no longer be decoded."""
        framework = self._frameworks.pop(key, None)
        if framework is not None:
            self._invalid[key] = framework
        self._expectations.pop(key, None)

    def remove_invalid(self, key: FrameworkKey) -> bool:
        """Record the deletion of an invalid Framework. Return False if it was never valid, or is valid again."""
        framework = self._invalid.pop(key, None)
        if framework is None:
            return False
        self._record_deleted(framework)
        return True

    def remove_framework(self, framework: Framework) -> bool:
        """Record a DELETED event, whose resourceVersion is that of the deletion.

        Return False if the Framework is not in the cache.
        """
        return self._remove_framework(framework, framework.metadata.resource_version)

    def replace_frameworks(
        self,
        frameworks: Iterable[Framework],
        resource_version: str,
        namespace: str = "",
        group: str = "",
        invalid: Collection[FrameworkKey] = (),
    ) -> set[FrameworkKey]:
        """Record a list of one namespace and one group (empty: all).

        `invalid` are the keys of the listed Frameworks that cannot be decoded. Return the keys of the new, updated and
        deleted Frameworks.
        """

        def is_key_in_scope(key: FrameworkKey) -> bool:
            return is_in_scope(key.namespace, namespace) and group in ("", key.group)

        listed = {key_of(framework): framework for framework in frameworks}
        changed = {key for key, framework in listed.items() if self.put_framework(framework)}
        for key, framework in tuple(self._frameworks.items()):
            if key not in listed and is_key_in_scope(key) and is_not_newer(framework, resource_version):
                self._remove_framework(framework, resource_version)
                changed.add(key)
        for key in tuple(self._invalid):
            if key not in invalid and is_key_in_scope(key):
                self.remove_invalid(key)
                changed.add(key)
        return changed

    def _remove_framework(self, framework: Framework, as_of: str) -> bool:
        key = key_of(framework)
        self._tombstones[key] = max(version(as_of), self._tombstones.get(key, 0))
        self._tombstones.move_to_end(key)
        if len(self._tombstones) > MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)
        finished = self._finished.get(key)
        if finished is not None and version(finished.resource_version) <= version(as_of):
            del self._finished[key]
        current = self._frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return False
        del self._frameworks[key]
        self._record_deleted(current)
        return True

    def _record_deleted(self, framework: Framework) -> None:
        key, name = key_of(framework), (framework.namespace, framework.name)
        self._related_to(name).deleted_frameworks[framework.uid] = framework
        self._expectations.pop(key, None)
        self._other_controllers.pop(key, None)
        self._reported_other_controllers.discard(key)
        self._forget_if_empty(name)

    # Pods and ConfigMaps

    def put(self, item: RelatedObject) -> set[FrameworkKey]:
        """Record an object from a watch. Return the keys of the Frameworks that it concerns.

        An object that is outdated or already cached concerns none.
        """
        versions = self._list_versions[type(item)]
        resource_version = versions.get("") or versions.get(item.metadata.namespace, "")
        return set() if is_not_newer(item, resource_version) else self._put(item)

    def _put(self, item: RelatedObject) -> set[FrameworkKey]:
        name = framework_name(item)
        changed: set[FrameworkKey] = set()
        old_name = self._pod_framework.get(item.uid)
        if old_name is not None and old_name != name:
            # The pod's label was changed: for the Framework of the old label, the pod counts as deleted.
            changed = self._remove_from(old_name, item)
        if name is None:
            return changed
        related = self._related_to(name)
        if not related.should_record(item):
            return changed
        current = related.current(item)
        if current is not None and current.uid != item.uid:
            self._forget_uid(name, related, current.uid)
        self._record(name, related, item)
        related.confirm(item)
        return changed | self._keys_of(name)

    def _record(self, name: FrameworkName, related: RelatedObjects, item: RelatedObject) -> None:
        related.put(item)
        if isinstance(item, PodView):
            self._pod_framework[item.uid] = name

    def remove(self, item: RelatedObject) -> set[FrameworkKey]:
        """Record a deletion. Return the keys of the Frameworks that it concerns."""
        name = self._pod_framework.get(item.uid) or framework_name(item)
        return set() if name is None else self._remove_from(name, item)

    def _remove_from(self, name: FrameworkName, item: RelatedObject) -> set[FrameworkKey]:
        related = self._related_to(name)
        related.remove(item)
        self._forget_uid(name, related, item.uid)
        return self._keys_of(name)

    def replace(
        self, kind: Kind, objects: Iterable[RelatedObject], resource_version: str, namespace: str = ""
    ) -> set[FrameworkKey]:
        """Record a list of pods or ConfigMaps of one namespace (empty: all). Return the keys of changed Frameworks.

        An object that is older than the list and not in it was deleted. The same holds for an object that is only named
        in a status, if the status is not newer than the list.
        """
        changed: set[FrameworkKey] = set()
        listed: set[str] = set()
        for each in objects:
            listed.add(each.uid)
            changed |= self._put(each)
        in_scope = [related for name, related in self._related.items() if is_in_scope(name[0], namespace)]
        for related in in_scope:
            changed |= self._remove_missing(related.objects(kind), listed, resource_version)
        for framework in self._frameworks.values():
            is_older = is_not_newer(framework, resource_version)
            if framework.status is not None and is_older and is_in_scope(framework.namespace, namespace):
                known = self._related_to((framework.namespace, framework.name)).known
                known.update(uids_in(framework.status, kind))
        self._list_versions[kind][namespace] = resource_version
        return changed

    def _remove_missing(
        self, recorded: Iterable[RelatedObject], listed: Collection[str], resource_version: str
    ) -> set[FrameworkKey]:
        """Remove the objects that are not in a list, unless they are newer than the list."""
        changed: set[FrameworkKey] = set()
        for item in recorded:
            if item.uid not in listed and is_not_newer(item, resource_version):
                changed |= self.remove(item)
        return changed

    # Answers to requests of the controller

    def record_stored(self, framework: Framework) -> bool:
        """Record a stored status. Return False if the Framework is no longer in the cache."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return False
        self.put_framework(framework)
        if key in self._other_controllers:
            self._reported_other_controllers.add(key)
        if framework.status is not None:
            self._get_or_create_expectations(key).record_stored(framework.status)
            self._related_to((framework.namespace, framework.name)).prune_known(framework.status)
        return True

    def record_created_config_map(self, framework: Framework, config_map: ConfigMapView) -> None:
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        expectations.record_creation(config_map.name)
        expectations.name_taken_message = ""
        self._put_answered(framework, config_map)

    def record_created_pod(self, framework: Framework, pod: PodView, created: CreatedPod) -> None:
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        expectations.record_creation(pod.name, created)
        self._put_answered(framework, pod)

    def first_ports(self, framework: Framework) -> dict[str, int] | None:
        """Return the ports in the attempt's ConfigMap, which are set if pods share one network."""
        config_map = self._related_to((framework.namespace, framework.name)).config_map
        return None if config_map is None else config_map.first_ports

    def pods_of_attempt(self, framework: Framework, config_map_uid: str) -> dict[str, PodView]:
        """Return the pods with the attempt's label, by UID."""
        return self._related_to((framework.namespace, framework.name)).pods_of_attempt(config_map_uid)

    def record_deleted_pods(
        self, framework: Framework, config_map_uid: str, deleted: DeletedPods, cached: Iterable[str]
    ) -> None:
        """Record the answer to a deletecollection request. It may contain pods that the watch has not shown.

        `cached` are the UIDs that were cached when the request was sent. After the last page, the
        deletion of these pods counts as requested.
        """
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        expectations.record_attempt_deletion(config_map_uid, deleted.continue_token)
        if not deleted.continue_token:
            for uid in self.pods_of_attempt(framework, config_map_uid).keys() & cached:
                expectations.record_deletion(uid)
        shown = self.pods_of_attempt(framework, config_map_uid)
        for pod in deleted.pods:
            expectations.record_deletion(pod.uid)
            if pod.uid not in shown:
                # The answer has only the metadata, so it does not replace what the watch has shown.
                self._put_answered(framework, pod)

    def replace_objects_of(self, framework: Framework, listed: Listed) -> None:
        """Record a list of one Framework's objects that was requested after its status was read."""
        expectations = self.expectations_for(framework)
        if expectations is None:
            return
        related = self._related_to((framework.namespace, framework.name))
        config_maps = () if listed.config_map is None else (listed.config_map,)
        for kind, objects in ((PodView, listed.pods), (ConfigMapView, config_maps)):
            for found in objects:
                self._put(found)
            uids = {found.uid for found in objects}
            self._remove_missing(related.objects(kind), uids, listed.resource_version)
        if framework.status is not None:
            related.known.update(uids_in(framework.status, PodView, ConfigMapView))
        expectations.uncertain.clear()

    def _put_answered(self, framework: Framework, item: RelatedObject) -> None:
        """Record an object from the answer to a request, which the watch may not have shown yet."""
        name = (framework.namespace, framework.name)
        related = self._related_to(name)
        if related.should_record(item):
            self._record(name, related, item)
            related.mark_unconfirmed(item)
        else:
            related.known.add(item.uid)

    # Helpers

    def _related_to(self, name: FrameworkName) -> RelatedObjects:
        related = self._related.get(name)
        if related is None:
            related = self._related[name] = RelatedObjects()
        return related

    def _get_or_create_expectations(self, key: FrameworkKey) -> Expectations:
        framework = self._frameworks.get(key)
        uid = "" if framework is None else framework.uid
        expectations = self._expectations.get(key)
        if expectations is None or expectations.framework_uid != uid:
            expectations = self._expectations[key] = Expectations(uid)
        return expectations

    def _keys_of(self, name: FrameworkName) -> set[FrameworkKey]:
        """Return the keys of the Frameworks of that name, including deleted ones whose objects are not all deleted."""
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
            self._get_or_create_expectations(key).forget(uid)
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
