"""What the controller knows of the world: from watches, from lists, and from the answers to its own writes.

An answer is the newest truth, so it enters at once, and whatever is older is ignored when it comes along later. A UID
that was seen and is not here any more is gone for good: UIDs never come back. An answer for a Framework that has gone
or was made anew meanwhile is nobody's business any more. A Framework that has gone is remembered as departed while
objects of it are left, so that they can be cleared away.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from windlass.controller.engine.expectations import Record
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.port import Emptied
from windlass.controller.engine.related_objects import Surroundings, uids_in, version
from windlass.decide.types import CreatedPod, Observed
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView

MOST_BURIED = 10_000
"""So many Frameworks that are gone are remembered, against news of them that come late."""

Place = tuple[str, str]
"""Namespace and name of a Framework: the Frameworks of both groups share the names of their objects."""


class Cache:
    def __init__(self) -> None:
        self._frameworks: dict[FrameworkKey, Framework] = {}
        self._buried: OrderedDict[FrameworkKey, int] = OrderedDict()
        """As of which version a Framework of that key was gone."""
        self._surroundings: dict[Place, Surroundings] = {}
        self._places: dict[str, Place] = {}
        """Where a pod is kept, by its UID: somebody may change its label."""
        self._records: dict[FrameworkKey, Record] = {}
        self._rivals: dict[FrameworkKey, str] = {}
        """Who else writes the status of a Framework."""
        self._told_of_rivals: set[FrameworkKey] = set()
        """Those whose status was stored since."""
        self._out_of_sight: dict[FrameworkKey, Framework] = {}
        """Frameworks that exist and cannot be read any more, as they could be last."""
        # A watch goes on where a list ended: what is older than the last list is no news.
        self._pods_listed: dict[str, str] = {}
        """By the namespace that was listed; "" stands for all."""
        self._config_maps_listed: dict[str, str] = {}

    def keys(self) -> Iterator[FrameworkKey]:
        return iter(tuple(self._frameworks))

    def framework(self, key: FrameworkKey) -> Framework | None:
        return self._frameworks.get(key)

    def observe(self, key: FrameworkKey, now: datetime, monotonic: float) -> Observed:
        """A view, valid until the next change of the cache."""
        around = self._around((key.namespace, key.name))
        if around.departed:
            around.forget_departed()
        return Observed(
            config_map=around.config_map,
            pods=around.pods,
            known=around.known,
            unconfirmed=around.unconfirmed,
            previous_uids=around.departed.keys(),
            other_controller=self._rivals.get(key, ""),
            is_other_controller_reported=key in self._told_of_rivals,
            outcomes=self._record(key).outcomes(now, monotonic),
        )

    def departed(self, key: FrameworkKey) -> Framework | None:
        """A Framework of that key that is gone and has left objects behind."""
        around = self._surroundings.get((key.namespace, key.name))
        if around is None or not around.departed:
            return None
        around.forget_departed()
        return next((framework for framework in around.departed.values() if key_of(framework) == key), None)

    def record_of(self, framework: Framework) -> Record | None:
        """Where the outcomes of its actions go; None if it is not there any more."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is not None:
            return self._record(key) if current.uid == framework.uid else None
        around = self._surroundings.get((key.namespace, key.name))
        return self._record(key) if around is not None and framework.uid in around.departed else None

    # Frameworks

    def put_framework(self, framework: Framework) -> bool:
        """From a watch, a list or an answer. False if something newer is known already."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        newest = self._buried.get(key, 0)
        if current is not None:
            newest = max(newest, version(current.metadata.resource_version))
        if newest and version(framework.metadata.resource_version) <= newest:
            return False
        seen_last = self._out_of_sight.pop(key, None) or current
        if seen_last is not None and seen_last.uid != framework.uid:
            self._depart(key, seen_last)
        self._frameworks[key] = framework
        return True

    def compete(self, key: FrameworkKey, rival: str) -> None:
        """Somebody else writes its status."""
        self._rivals[key] = rival

    def lose_sight_of(self, key: FrameworkKey) -> None:
        """It exists, and cannot be read any more."""
        framework = self._frameworks.pop(key, None)
        self._records.pop(key, None)
        if framework is not None:
            self._out_of_sight[key] = framework

    def remove_out_of_sight(self, key: FrameworkKey) -> bool:
        """It does not exist any more. False if it never could be read, or has come back."""
        framework = self._out_of_sight.pop(key, None)
        if framework is None:
            return False
        self._depart(key, framework)
        return True

    def remove_framework(self, framework: Framework) -> bool:
        """As of the version that the deletion has."""
        return self._bury(framework, version(framework.metadata.resource_version))

    def replace_frameworks(
        self,
        frameworks: Iterable[Framework],
        resource_version: str,
        namespace: str = "",
        group: str = "",
        unreadable: Collection[FrameworkKey] = (),
    ) -> set[FrameworkKey]:
        """After a list, of one namespace or of one group where one is given. Returns the keys that are new or gone."""

        def is_concerned(key: FrameworkKey) -> bool:
            return _is_within(key.namespace, namespace) and group in ("", key.group)

        listed = {key_of(framework): framework for framework in frameworks}
        changed = {key for key, framework in listed.items() if self.put_framework(framework)}
        for key, framework in tuple(self._frameworks.items()):
            is_as_old = version(framework.metadata.resource_version) <= version(resource_version)
            if is_as_old and is_concerned(key) and key not in listed:
                self._bury(framework, version(resource_version))
                changed.add(key)
        for key in tuple(self._out_of_sight):
            if is_concerned(key) and key not in unreadable:
                self.remove_out_of_sight(key)
                changed.add(key)
        return changed

    def _bury(self, framework: Framework, as_of: int) -> bool:
        key = key_of(framework)
        self._buried[key] = max(as_of, self._buried.get(key, 0))
        self._buried.move_to_end(key)
        if len(self._buried) > MOST_BURIED:
            self._buried.popitem(last=False)
        current = self._frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return False
        del self._frameworks[key]
        self._depart(key, current)
        return True

    def _depart(self, key: FrameworkKey, framework: Framework) -> None:
        place = (key.namespace, key.name)
        self._around(place).departed[framework.uid] = framework
        self._records.pop(key, None)
        self._rivals.pop(key, None)
        self._told_of_rivals.discard(key)
        self._forget_if_empty(place)

    # Pods and ConfigMaps

    def put_pod(self, pod: PodView) -> set[FrameworkKey]:
        """From a watch. Returns the keys that it concerns, none if it is old news."""
        return set() if _was_listed(pod, self._pods_listed) else self._put_pod(pod)

    def _put_pod(self, pod: PodView) -> set[FrameworkKey]:
        place = _place_of(pod)
        moved = self._move_pod(pod, place)
        if place is None:
            return moved
        around = self._around(place)
        current = around.pods.get(pod.name)
        if not around.is_news(pod, current):
            return moved
        if current is not None and current.uid != pod.uid:
            self._lose(place, around, current.uid)
        around.pods[pod.name] = pod
        self._places[pod.uid] = place
        around.confirm(pod)
        return moved | self._keys_at(place)

    def _move_pod(self, pod: PodView, place: Place | None) -> set[FrameworkKey]:
        """Somebody changed the label by which it is found: at its old place it is gone."""
        old = self._places.get(pod.uid)
        if old is None or old == place:
            return set()
        return self._remove_pod_at(old, pod)

    def remove_pod(self, pod: PodView) -> set[FrameworkKey]:
        place = self._places.get(pod.uid) or _place_of(pod)
        return set() if place is None else self._remove_pod_at(place, pod)

    def _remove_pod_at(self, place: Place, pod: PodView) -> set[FrameworkKey]:
        around = self._around(place)
        around.known.add(pod.uid)
        current = around.pods.get(pod.name)
        if current is not None and current.uid == pod.uid:
            del around.pods[pod.name]
        self._lose(place, around, pod.uid)
        return self._keys_at(place)

    def put_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        """From a watch, as with pods."""
        is_old = _was_listed(config_map, self._config_maps_listed)
        return set() if is_old else self._put_config_map(config_map)

    def _put_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        place = _place_of_config_map(config_map)
        if place is None:
            return set()
        around = self._around(place)
        current = around.config_map
        if not around.is_news(config_map, current):
            return set()
        if current is not None and current.uid != config_map.uid:
            self._lose(place, around, current.uid)
        around.config_map = config_map
        around.confirm(config_map)
        return self._keys_at(place)

    def remove_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        place = _place_of_config_map(config_map)
        if place is None:
            return set()
        around = self._around(place)
        around.known.add(config_map.uid)
        if around.config_map is not None and around.config_map.uid == config_map.uid:
            around.config_map = None
        self._lose(place, around, config_map.uid)
        return self._keys_at(place)

    def replace_pods(
        self, pods: Iterable[PodView], resource_version: str, namespace: str = ""
    ) -> set[FrameworkKey]:
        """After a list, of one namespace where one is given. What is older than the list and not in it is gone."""
        changed: set[FrameworkKey] = set()
        listed: set[str] = set()
        for pod in pods:
            listed.add(pod.uid)
            changed |= self._put_pod(pod)
        for around in self._within(namespace):
            for pod in tuple(around.pods.values()):
                if pod.uid not in listed and _is_as_old(pod, resource_version):
                    changed |= self.remove_pod(pod)
        self._prove(resource_version, namespace, pods=True)
        self._pods_listed[namespace] = resource_version
        return changed

    def replace_config_maps(
        self, config_maps: Iterable[ConfigMapView], resource_version: str, namespace: str = ""
    ) -> set[FrameworkKey]:
        changed: set[FrameworkKey] = set()
        listed: set[str] = set()
        for config_map in config_maps:
            listed.add(config_map.uid)
            changed |= self._put_config_map(config_map)
        for around in self._within(namespace):
            found = around.config_map
            if found is not None and found.uid not in listed and _is_as_old(found, resource_version):
                changed |= self.remove_config_map(found)
        self._prove(resource_version, namespace, config_maps=True)
        self._config_maps_listed[namespace] = resource_version
        return changed

    def _within(self, namespace: str) -> list[Surroundings]:
        return [around for place, around in self._surroundings.items() if _is_within(place[0], namespace)]

    # Answers to our own requests

    def stored(self, framework: Framework) -> bool:
        """False if it has gone meanwhile, and nothing may be done for it any more."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return False
        self.put_framework(framework)
        if key in self._rivals:
            self._told_of_rivals.add(key)
        if framework.status is not None:
            self._record(key).stored(framework.status)
            self._around((framework.namespace, framework.name)).prune(framework.status)
        return True

    def created_config_map(self, framework: Framework, config_map: ConfigMapView) -> None:
        record = self.record_of(framework)
        if record is None:
            return
        record.created(config_map.name)
        record.name_taken("")
        around = self._around((framework.namespace, framework.name))
        if around.is_news(config_map, around.config_map):
            around.config_map = config_map
            around.answered(config_map)

    def created_pod(self, framework: Framework, pod: PodView, created: CreatedPod) -> None:
        record = self.record_of(framework)
        if record is None:
            return
        record.created(pod.name, created)
        self._put_answered_pod(framework, pod)

    def ports_of(self, framework: Framework) -> dict[str, int] | None:
        """Those that the attempt's ConfigMap says, where pods share one network."""
        config_map = self._around((framework.namespace, framework.name)).config_map
        return None if config_map is None else config_map.task_ports

    def pods_of_attempt(self, framework: Framework, config_map_uid: str) -> dict[str, PodView]:
        """By UID: the pods that one request for all pods of the attempt will find, if they still exist."""
        pods = self._around((framework.namespace, framework.name)).pods.values()
        return {pod.uid: pod for pod in pods if pod.metadata.labels.attempt == config_map_uid}

    def emptied_attempt(
        self, framework: Framework, config_map_uid: str, emptied: Emptied, asked_for: Iterable[str]
    ) -> None:
        """The request may have found more pods than the watch has shown. `asked_for` were here when it was sent: those
        that it did not find are gone already."""
        record = self.record_of(framework)
        if record is None:
            return
        record.emptied_attempt(config_map_uid, emptied.continue_token)
        if not emptied.continue_token:
            for uid in self.pods_of_attempt(framework, config_map_uid).keys() & asked_for:
                record.deletion_requested(uid)
        for pod in emptied.found:
            record.deletion_requested(pod.uid)
            self._put_answered_pod(framework, pod)

    def replace_objects(
        self,
        framework: Framework,
        config_map: ConfigMapView | None,
        pods: Iterable[PodView],
        resource_version: str,
    ) -> None:
        """After a list of one Framework's objects, which was asked for after its status was known."""
        record = self.record_of(framework)
        if record is None:
            return
        around = self._around((framework.namespace, framework.name))
        listed = {pod.uid: pod for pod in pods}
        for pod in listed.values():
            self._put_pod(pod)
        for pod in tuple(around.pods.values()):
            if pod.uid not in listed and _is_as_old(pod, resource_version):
                self.remove_pod(pod)
        found = around.config_map
        if config_map is not None:
            self._put_config_map(config_map)
        elif found is not None and _is_as_old(found, resource_version):
            self.remove_config_map(found)
        if framework.status is not None:
            around.known.update(uids_in(framework.status, pods=True, config_maps=True))
        record.looked()

    # Inside

    def _put_answered_pod(self, framework: Framework, pod: PodView) -> None:
        place = (framework.namespace, framework.name)
        around = self._around(place)
        if around.is_news(pod, around.pods.get(pod.name)):
            around.pods[pod.name] = pod
            self._places[pod.uid] = place
            around.answered(pod)
        else:
            around.known.add(pod.uid)

    def _around(self, place: Place) -> Surroundings:
        around = self._surroundings.get(place)
        if around is None:
            around = self._surroundings[place] = Surroundings()
        return around

    def _record(self, key: FrameworkKey) -> Record:
        framework = self._frameworks.get(key)
        uid = "" if framework is None else framework.uid
        record = self._records.get(key)
        if record is None or record.framework_uid != uid:
            record = self._records[key] = Record(uid)
        return record

    def _keys_at(self, place: Place) -> set[FrameworkKey]:
        """Whom it concerns what happens there: Frameworks, and those whose remains are cleared away."""
        keys = (FrameworkKey(group, *place) for group in names.GROUPS)
        found = {key for key in keys if key in self._frameworks}
        around = self._surroundings.get(place)
        if around is not None and around.departed:
            found.update(map(key_of, around.departed.values()))
        return found

    def _lose(self, place: Place, around: Surroundings, uid: str) -> None:
        around.unconfirmed.discard(uid)
        self._places.pop(uid, None)
        for key in self._keys_at(place):
            self._record(key).gone(uid)
        self._forget_if_empty(place)

    def _forget_if_empty(self, place: Place) -> None:
        around = self._surroundings.get(place)
        if around is None or not around.is_empty:
            return
        around.departed.clear()
        if not self._keys_at(place):
            del self._surroundings[place]
            for group in names.GROUPS:
                self._records.pop(FrameworkKey(group, *place), None)

    def _prove(
        self, resource_version: str, namespace: str, *, pods: bool = False, config_maps: bool = False
    ) -> None:
        """What a status names that is as old as the list was made before the list: if it is not here, it is gone."""
        for key, framework in self._frameworks.items():
            is_as_old = version(framework.metadata.resource_version) <= version(resource_version)
            if framework.status is not None and is_as_old and _is_within(key.namespace, namespace):
                known = self._around((key.namespace, key.name)).known
                known.update(uids_in(framework.status, pods=pods, config_maps=config_maps))


def _is_as_old(found: ObjectView, resource_version: str) -> bool:
    return version(found.metadata.resource_version) <= version(resource_version)


def _was_listed(found: ObjectView, listed: dict[str, str]) -> bool:
    """It is no newer than the list that its watch goes on from."""
    as_of = listed.get("") or listed.get(found.metadata.namespace, "")
    return _is_as_old(found, as_of)


def _is_within(namespace: str, scope: str) -> bool:
    return scope in ("", namespace)


def _place_of(found: ObjectView) -> Place | None:
    """By the label, and not by the name: pods are watched by it."""
    framework = found.metadata.labels.framework_name
    return (found.metadata.namespace, framework) if framework else None


def _place_of_config_map(config_map: ConfigMapView) -> Place | None:
    place = _place_of(config_map)
    is_attempt = place is not None and config_map.name == names.config_map_name(place[1])
    return place if is_attempt else None
