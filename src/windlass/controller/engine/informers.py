"""Keeps the cache true: what a list or a watch says, and what that means to the cache and to the queue.

Pods and ConfigMaps are filtered by label on the server: what Windlass has not made is never sent here.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from windlass.controller.engine.cache import Cache
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.related_objects import version
from windlass.controller.other_controllers import Rivals
from windlass.k8s import metadata
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.following import Changed, Deleted, Follower, Listed, News
from windlass.kubeapi.resources import CONFIG_MAPS, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.settings import LogObjectSnapshot
from windlass.wire import codec, snapshots
from windlass.wire.codec import DecodeError, Unreadable
from windlass.wire.snapshots import SnapshotTrigger

log = logging.getLogger(__name__)

OURS = names.FRAMEWORK_NAME
"""Whatever carries this label belongs to some Framework."""
EVERY_NAMESPACE = ("",)

T = TypeVar("T")


class Hearers(msgspec.Struct, frozen=True):
    """Who is told what, beside the cache."""

    changed: Callable[[Iterable[FrameworkKey]], None]
    gone: Callable[[Framework], None]
    unreadable: Callable[[Unreadable], None]
    troubled: Callable[[Resource, ApiError], None]
    snapshot: Callable[[str], None]


class HistoryError(Exception):
    """The API server has gone back in time, as after a restore: what is known is newer than what there is."""


class Informers:
    def __init__(
        self,
        transport: Transport,
        cache: Cache,
        rivals: Rivals,
        hearers: Hearers,
        *,
        namespaces: Sequence[str],
        wanted_snapshots: LogObjectSnapshot,
    ) -> None:
        self._transport = transport
        self._cache = cache
        self._rivals = rivals
        self._hearers = hearers
        self._namespaces = tuple(namespaces) or EVERY_NAMESPACE
        self._wanted_snapshots = wanted_snapshots

    def of_frameworks(self, group: str) -> list[Follower]:
        def receiver(namespace: str) -> Callable[[News], None]:
            return lambda news: self._frameworks_said(news, namespace, group)

        return self._followers(frameworks(group), "", receiver)

    def of_config_maps(self) -> list[Follower]:
        def receiver(namespace: str) -> Callable[[News], None]:
            return lambda news: self._config_maps_said(news, namespace)

        return self._followers(CONFIG_MAPS, OURS, receiver)

    def of_pods(self) -> list[Follower]:
        def receiver(namespace: str) -> Callable[[News], None]:
            return lambda news: self._pods_said(news, namespace)

        return self._followers(PODS, OURS, receiver)

    def _followers(
        self, resource: Resource, selector: str, receiver: Callable[[str], Callable[[News], None]]
    ) -> list[Follower]:
        def troubled(error: ApiError) -> None:
            self._hearers.troubled(resource, error)

        return [
            Follower(
                self._transport,
                resource,
                namespace=namespace,
                label_selector=selector,
                receive=_watching_history(_minding_its_own(receiver(namespace))),
                troubled=troubled,
            )
            for namespace in self._namespaces
        ]

    # Frameworks

    def _frameworks_said(self, news: News, namespace: str, group: str) -> None:
        match news:
            case Listed(items, version):
                self._frameworks_listed(items, version, namespace, group)
            case Changed(data):
                self._framework_changed(data, group)
            case Deleted(data):
                self._framework_deleted(data)

    def _frameworks_listed(
        self, items: Sequence[msgspec.Raw], version: str, namespace: str, group: str
    ) -> None:
        read = [(_read(data), data) for data in items]
        listed = [(found, data) for found, data in read if isinstance(found, Framework)]
        unreadable = [found for found, _ in read if isinstance(found, Unreadable)]
        for found in unreadable:
            self._lose_sight_of(found)
        changed = self._cache.replace_frameworks(
            (framework for framework, _ in listed),
            version,
            namespace,
            group,
            unreadable={_key_of_unreadable(found) for found in unreadable},
        )
        for framework, data in listed:
            self._look_for_rivals(framework, data)
        self._hearers.changed(changed)

    def _framework_changed(self, data: msgspec.Raw, group: str) -> None:
        if self._is_echo(data, group):
            return
        found = _read(data)
        if isinstance(found, Unreadable):
            self._lose_sight_of(found)
        elif found is not None and self._cache.put_framework(found):
            self._look_for_rivals(found, data)
            self._hearers.changed((key_of(found),))

    def _is_echo(self, data: msgspec.Raw, group: str) -> bool:
        """Of a status that we have stored ourselves: a large one is not worth being read again."""
        try:
            found = metadata.decode_identity(data).metadata
        except (msgspec.DecodeError, RecursionError):
            return False
        current = self._cache.framework(FrameworkKey(group, found.namespace, found.name))
        return current is not None and current.metadata.resource_version == found.resource_version

    def _lose_sight_of(self, found: Unreadable) -> None:
        self._cache.lose_sight_of(_key_of_unreadable(found))
        self._hearers.unreadable(found)

    def _look_for_rivals(self, framework: Framework, data: msgspec.Raw) -> None:
        rival = self._rivals.among(framework.uid, codec.status_writers(data))
        if rival:
            self._cache.compete(key_of(framework), rival)

    def _framework_deleted(self, data: msgspec.Raw) -> None:
        self._take_snapshot("The Framework was deleted", SnapshotTrigger.FRAMEWORK_DELETION, data)
        found = _read(data)
        if isinstance(found, Framework):
            self._rivals.forget(found.uid)
            self._hearers.gone(found)
            if self._cache.remove_framework(found):
                self._hearers.changed((key_of(found),))
        elif found is not None:
            # Nobody is left who could be told what is wrong with it.
            key = _key_of_unreadable(found)
            self._rivals.forget(found.metadata.uid)
            self._cache.lose_sight_of(key)
            if self._cache.remove_out_of_sight(key):
                self._hearers.changed((key,))

    # ConfigMaps and pods

    def _config_maps_said(self, news: News, namespace: str) -> None:
        match news:
            case Listed(items, version):
                found = _decoded(items, codec.decode_config_map)
                self._hearers.changed(self._cache.replace_config_maps(found, version, namespace))
            case Changed(data):
                for config_map in _decoded((data,), codec.decode_config_map):
                    self._hearers.changed(self._cache.put_config_map(config_map))
            case Deleted(data):
                for config_map in _decoded((data,), codec.decode_config_map):
                    self._hearers.changed(self._cache.remove_config_map(config_map))

    def _pods_said(self, news: News, namespace: str) -> None:
        match news:
            case Listed(items, version):
                found = _decoded(items, codec.decode_pod)
                self._hearers.changed(self._cache.replace_pods(found, version, namespace))
            case Changed(data):
                for pod in _decoded((data,), codec.decode_pod):
                    self._hearers.changed(self._cache.put_pod(pod))
            case Deleted(data):
                self._take_snapshot("The pod was deleted", SnapshotTrigger.POD_DELETION, data)
                for pod in _decoded((data,), codec.decode_pod):
                    self._hearers.changed(self._cache.remove_pod(pod))

    def _take_snapshot(self, message: str, trigger: SnapshotTrigger, data: msgspec.Raw) -> None:
        if snapshots.is_wanted(trigger, self._wanted_snapshots):
            self._hearers.snapshot(snapshots.snapshot_line(message, trigger, bytes(data)))


def _watching_history(receive: Callable[[News], None]) -> Callable[[News], None]:
    newest = 0

    def receive_in_order(news: News) -> None:
        nonlocal newest
        if isinstance(news, Listed):
            listed = version(news.resource_version)
            if listed < newest:
                raise HistoryError(f"a list has the version {listed}, an earlier one had {newest}")
            newest = listed
        receive(news)

    return receive_in_order


def _minding_its_own(receive: Callable[[News], None]) -> Callable[[News], None]:
    """One object that our code cannot cope with must not stop the work on all others. A list that is taken in by
    halves would be a lie about what exists: that does stop it."""

    def receive_or_tell(news: News) -> None:
        if isinstance(news, Listed):
            receive(news)
            return
        try:
            receive(news)
        except Exception:
            log.exception("a change could not be taken in")

    return receive_or_tell


def _read(data: msgspec.Raw) -> Framework | Unreadable | None:
    try:
        return codec.read_framework(data)
    except DecodeError as error:
        log.warning("a Framework without a name was sent: %s", error)
        return None


def _decoded(items: Iterable[msgspec.Raw], decode: Callable[[bytes | msgspec.Raw], T]) -> Iterator[T]:
    for data in items:
        try:
            yield decode(data)
        except DecodeError as error:
            log.warning("an object was sent that cannot be read, and is left alone: %s", error)


def _key_of_unreadable(found: Unreadable) -> FrameworkKey:
    return FrameworkKey(names.group_of(found.api_version), found.metadata.namespace, found.metadata.name)
