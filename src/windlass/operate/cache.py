"""What the controller knows of the world: from watches, from lists, and from the answers to its own writes.

An answer is the newest truth, so it enters at once, and whatever is older is ignored when it comes along later. A UID
that was seen and is not here any more is gone for good: UIDs never come back.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from windlass.decide.contract import Created, Observed, Outcomes, Refused
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import FrameworkStatus
from windlass.operate.keys import FrameworkKey, key_of

PRUNE_ABOVE = 100
"""So many UIDs of objects that are gone are remembered before anybody tidies up."""

Place = tuple[str, str]
"""Namespace and name of a Framework: the Frameworks of both groups share the names of their objects."""


def version(resource_version: str) -> int:
    """Kubernetes orders the versions of all objects of one server by number."""
    return int(resource_version or 0)


class _Surroundings:
    """The objects that carry one Framework's name."""

    def __init__(self) -> None:
        self.config_map: ConfigMapView | None = None
        self.pods: dict[str, PodView] = {}
        self.known: set[str] = set()
        self.unconfirmed: set[str] = set()

    def has(self, uid: str, found: ObjectView | None) -> bool:
        return found is not None and found.uid == uid

    @property
    def is_empty(self) -> bool:
        return self.config_map is None and not self.pods


class _Record:
    """What came of the actions for one Framework."""

    def __init__(self, framework_uid: str) -> None:
        self.framework_uid = framework_uid
        self.created: dict[str, Created] = {}
        self.refused: dict[str, Refused] = {}
        self.postponed: dict[str, datetime] = {}
        self.creation_failures: dict[str, int] = {}
        self.uncertain: set[str] = set()
        self.name_taken = ""
        self.deletion_requested: set[str] = set()
        self.forced: set[str] = set()
        self.emptied_attempts: set[str] = set()
        self.is_framework_deletion_requested = False


class Cache:
    def __init__(self) -> None:
        self._frameworks: dict[FrameworkKey, Framework] = {}
        self._surroundings: dict[Place, _Surroundings] = {}
        self._records: dict[FrameworkKey, _Record] = {}

    def keys(self) -> Iterator[FrameworkKey]:
        return iter(tuple(self._frameworks))

    def framework(self, key: FrameworkKey) -> Framework | None:
        return self._frameworks.get(key)

    def observe(self, key: FrameworkKey) -> Observed:
        """A view, valid until the next change of the cache."""
        around = self._around((key.namespace, key.name))
        record = self._record(key)
        return Observed(
            config_map=around.config_map,
            pods=around.pods,
            known=around.known,
            unconfirmed=around.unconfirmed,
            outcomes=Outcomes(
                created=record.created,
                refused=record.refused,
                postponed=record.postponed,
                uncertain=record.uncertain,
                name_taken=record.name_taken,
                deletion_requested=record.deletion_requested,
                forced=record.forced,
                emptied_attempts=record.emptied_attempts,
                is_framework_deletion_requested=record.is_framework_deletion_requested,
            ),
        )

    # Frameworks

    def put_framework(self, framework: Framework) -> bool:
        """From a watch, a list or an answer. False if something newer is here already."""
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is not None and version(framework.metadata.resource_version) <= version(
            current.metadata.resource_version
        ):
            return False
        self._frameworks[key] = framework
        return True

    def remove_framework(self, framework: Framework) -> bool:
        key = key_of(framework)
        current = self._frameworks.get(key)
        if current is None or current.uid != framework.uid:
            return False
        del self._frameworks[key]
        self._records.pop(key, None)
        self._forget_if_empty((key.namespace, key.name))
        return True

    def replace_frameworks(self, frameworks: Iterable[Framework], resource_version: str) -> set[FrameworkKey]:
        """After a list. Returns the keys of those that are new or gone."""
        listed = {key_of(framework): framework for framework in frameworks}
        changed = {key for key, framework in listed.items() if self.put_framework(framework)}
        for key, framework in tuple(self._frameworks.items()):
            is_older = version(framework.metadata.resource_version) <= version(resource_version)
            other = listed.get(key)
            if is_older and (other is None or other.uid != framework.uid):
                self.remove_framework(framework)
                changed.add(key)
        return changed

    # Pods and ConfigMaps

    def put_pod(self, pod: PodView) -> set[FrameworkKey]:
        """From a watch. Returns the keys that it concerns, none if it is old news."""
        place = _place_of(pod)
        if place is None:
            return set()
        around = self._around(place)
        if not self._is_news(around, pod, around.pods.get(pod.name)):
            return set()
        self._lose_predecessor(place, around, pod, around.pods.get(pod.name))
        around.pods[pod.name] = pod
        self._confirm(around, pod)
        return self._keys_at(place)

    def remove_pod(self, pod: PodView) -> set[FrameworkKey]:
        place = _place_of(pod)
        if place is None:
            return set()
        around = self._around(place)
        around.known.add(pod.uid)
        if around.has(pod.uid, around.pods.get(pod.name)):
            del around.pods[pod.name]
        self._lose(place, around, pod.uid)
        return self._keys_at(place)

    def put_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        place = _place_of_config_map(config_map)
        if place is None:
            return set()
        around = self._around(place)
        if not self._is_news(around, config_map, around.config_map):
            return set()
        self._lose_predecessor(place, around, config_map, around.config_map)
        around.config_map = config_map
        self._confirm(around, config_map)
        return self._keys_at(place)

    def remove_config_map(self, config_map: ConfigMapView) -> set[FrameworkKey]:
        place = _place_of_config_map(config_map)
        if place is None:
            return set()
        around = self._around(place)
        around.known.add(config_map.uid)
        if around.has(config_map.uid, around.config_map):
            around.config_map = None
        self._lose(place, around, config_map.uid)
        return self._keys_at(place)

    def replace_pods(self, pods: Iterable[PodView], resource_version: str) -> set[FrameworkKey]:
        """After a list of all pods. What is older than the list and not in it is gone."""
        changed: set[FrameworkKey] = set()
        listed: set[str] = set()
        for pod in pods:
            listed.add(pod.uid)
            changed |= self.put_pod(pod)
        for around in tuple(self._surroundings.values()):
            for pod in tuple(around.pods.values()):
                if pod.uid not in listed and _is_as_old(pod, resource_version):
                    changed |= self.remove_pod(pod)
        self._prove(self._frameworks, resource_version, pods=True)
        return changed

    def replace_config_maps(
        self, config_maps: Iterable[ConfigMapView], resource_version: str
    ) -> set[FrameworkKey]:
        changed: set[FrameworkKey] = set()
        listed: set[str] = set()
        for config_map in config_maps:
            listed.add(config_map.uid)
            changed |= self.put_config_map(config_map)
        for around in tuple(self._surroundings.values()):
            found = around.config_map
            if found is not None and found.uid not in listed and _is_as_old(found, resource_version):
                changed |= self.remove_config_map(found)
        self._prove(self._frameworks, resource_version, config_maps=True)
        return changed

    def replace_objects(
        self,
        key: FrameworkKey,
        config_map: ConfigMapView | None,
        pods: Iterable[PodView],
        resource_version: str,
    ) -> None:
        """After a list of one Framework's objects."""
        around = self._around((key.namespace, key.name))
        listed = {pod.uid: pod for pod in pods}
        for pod in listed.values():
            self.put_pod(pod)
        for pod in tuple(around.pods.values()):
            if pod.uid not in listed and _is_as_old(pod, resource_version):
                self.remove_pod(pod)
        found = around.config_map
        if config_map is not None:
            self.put_config_map(config_map)
        elif found is not None and _is_as_old(found, resource_version):
            self.remove_config_map(found)
        self._prove((key,), resource_version, pods=True, config_maps=True)
        self._record(key).uncertain.clear()

    # Answers to our own writes

    def stored(self, framework: Framework) -> None:
        """What the outcomes said is in the status now."""
        self.put_framework(framework)
        record = self._record(key_of(framework))
        record.created.clear()
        record.refused.clear()
        if record.uncertain and framework.status is not None:
            record.uncertain -= _names_settled(framework.status)
        self._prune(framework)

    def created_config_map(self, key: FrameworkKey, config_map: ConfigMapView) -> None:
        around = self._around((key.namespace, key.name))
        record = self._record(key)
        record.name_taken = ""
        self._succeed(record, config_map.name)
        if self._is_news(around, config_map, around.config_map):
            around.config_map = config_map
            self._announce_unseen(around, config_map)

    def created_pod(self, key: FrameworkKey, pod: PodView, task_uid: str, attempt_id: int) -> None:
        around = self._around((key.namespace, key.name))
        record = self._record(key)
        record.created[pod.name] = Created(pod.uid, task_uid, attempt_id)
        self._succeed(record, pod.name)
        if self._is_news(around, pod, around.pods.get(pod.name)):
            around.pods[pod.name] = pod
            self._announce_unseen(around, pod)
        else:
            around.known.add(pod.uid)

    def refused_pod(self, key: FrameworkKey, name: str, refused: Refused) -> None:
        self._record(key).refused[name] = refused

    def creation_failures(self, key: FrameworkKey, name: str) -> int:
        """How often in a row the object could not be created for now."""
        return self._record(key).creation_failures.get(name, 0)

    def postponed(self, key: FrameworkKey, name: str, until: datetime) -> None:
        record = self._record(key)
        record.postponed[name] = until
        record.creation_failures[name] = record.creation_failures.get(name, 0) + 1

    def creation_uncertain(self, key: FrameworkKey, name: str) -> None:
        """It may have been created all the same."""
        self._record(key).uncertain.add(name)

    def name_taken(self, key: FrameworkKey, message: str) -> None:
        self._record(key).name_taken = message

    def deletion_requested(self, key: FrameworkKey, uid: str, *, force: bool = False) -> None:
        record = self._record(key)
        record.deletion_requested.add(uid)
        if force:
            record.forced.add(uid)

    def emptied_attempt(self, key: FrameworkKey, config_map_uid: str, pods: Iterable[PodView]) -> None:
        """`pods` are those that the request found, which may be more than the watch has shown, or fewer: what is here
        and was not found is gone already."""
        around = self._around((key.namespace, key.name))
        record = self._record(key)
        record.emptied_attempts.add(config_map_uid)
        record.deletion_requested.update(
            pod.uid for pod in around.pods.values() if pod.metadata.labels.attempt == config_map_uid
        )
        for pod in pods:
            record.deletion_requested.add(pod.uid)
            if self._is_news(around, pod, around.pods.get(pod.name)):
                around.pods[pod.name] = pod
                self._announce_unseen(around, pod)

    def framework_deletion_requested(self, key: FrameworkKey) -> None:
        self._record(key).is_framework_deletion_requested = True

    # Inside

    def _around(self, place: Place) -> _Surroundings:
        around = self._surroundings.get(place)
        if around is None:
            around = self._surroundings[place] = _Surroundings()
        return around

    def _record(self, key: FrameworkKey) -> _Record:
        framework = self._frameworks.get(key)
        uid = "" if framework is None else framework.uid
        record = self._records.get(key)
        if record is None or record.framework_uid != uid:
            record = self._records[key] = _Record(uid)
        return record

    def _keys_at(self, place: Place) -> set[FrameworkKey]:
        keys = (FrameworkKey(group, *place) for group in names.GROUPS)
        return {key for key in keys if key in self._frameworks}

    def _is_news(self, around: _Surroundings, new: ObjectView, current: ObjectView | None) -> bool:
        is_gone = new.uid in around.known and not around.has(new.uid, current)
        if is_gone:
            return False
        if current is None:
            return True
        is_unconfirmed = current.uid in around.unconfirmed
        seen, now = version(current.metadata.resource_version), version(new.metadata.resource_version)
        return now > seen or (now == seen and is_unconfirmed)

    def _confirm(self, around: _Surroundings, shown: ObjectView) -> None:
        around.known.add(shown.uid)
        around.unconfirmed.discard(shown.uid)

    def _announce_unseen(self, around: _Surroundings, answered: ObjectView) -> None:
        if answered.uid not in around.known:
            around.unconfirmed.add(answered.uid)
        around.known.add(answered.uid)

    def _lose_predecessor(
        self, place: Place, around: _Surroundings, new: ObjectView, current: ObjectView | None
    ) -> None:
        """A newer object of the same name means that the older one is gone."""
        if current is not None and current.uid != new.uid:
            self._lose(place, around, current.uid)

    def _lose(self, place: Place, around: _Surroundings, uid: str) -> None:
        around.unconfirmed.discard(uid)
        for key in self._keys_at(place):
            record = self._record(key)
            record.deletion_requested.discard(uid)
            record.forced.discard(uid)
            record.emptied_attempts.discard(uid)
        self._forget_if_empty(place)

    def _prune(self, framework: Framework) -> None:
        """UIDs that neither exist nor stand in the status are of no use to anybody."""
        around = self._around((framework.namespace, framework.name))
        if framework.status is None or len(around.known) < PRUNE_ABOVE + 4 * len(around.pods):
            return
        useful = {pod.uid for pod in around.pods.values()}
        useful.update(_uids_in(framework.status, pods=True, config_maps=True))
        if around.config_map is not None:
            useful.add(around.config_map.uid)
        around.known &= useful

    def _forget_if_empty(self, place: Place) -> None:
        around = self._surroundings.get(place)
        if around is not None and around.is_empty and not self._keys_at(place):
            del self._surroundings[place]

    def _succeed(self, record: _Record, name: str) -> None:
        record.postponed.pop(name, None)
        record.creation_failures.pop(name, None)
        record.uncertain.discard(name)

    def _prove(
        self,
        keys: Iterable[FrameworkKey],
        resource_version: str,
        *,
        pods: bool = False,
        config_maps: bool = False,
    ) -> None:
        """What a status names that is as old as the list was made before the list: if it is not here, it is gone."""
        for key in keys:
            framework = self._frameworks.get(key)
            if framework is None or framework.status is None:
                continue
            if version(framework.metadata.resource_version) > version(resource_version):
                continue
            known = self._around((key.namespace, key.name)).known
            known.update(_uids_in(framework.status, pods=pods, config_maps=config_maps))


def _uids_in(status: FrameworkStatus, *, pods: bool, config_maps: bool) -> Iterator[str]:
    attempt = status.attempt_status
    if config_maps and attempt.config_map_uid is not None:
        yield attempt.config_map_uid
    if pods:
        for role in attempt.roles:
            for task in role.task_statuses:
                if task.attempt_status.pod_uid is not None:
                    yield task.attempt_status.pod_uid


def _names_settled(status: FrameworkStatus) -> set[str]:
    """Names of pods about which the status leaves no doubt: before an attempt has its ConfigMap, all of them."""
    attempt = status.attempt_status
    return {
        task.attempt_status.pod_name
        for role in attempt.roles
        for task in role.task_statuses
        if attempt.config_map_uid is None or task.attempt_status.pod_uid is not None
    }


def _is_as_old(found: ObjectView, resource_version: str) -> bool:
    return version(found.metadata.resource_version) <= version(resource_version)


def _place_of(found: ObjectView) -> Place | None:
    """By the label, and not by the name: pods are watched by it."""
    framework = found.metadata.labels.framework_name
    return (found.metadata.namespace, framework) if framework else None


def _place_of_config_map(config_map: ConfigMapView) -> Place | None:
    place = _place_of(config_map)
    is_attempt = place is not None and config_map.name == names.config_map_name(place[1])
    return place if is_attempt else None
