"""Lists and watches Frameworks, pods and ConfigMaps, and updates the cache and the queue.

Pods and ConfigMaps are selected by label on the server, so only those of Frameworks arrive here.

The first list of Frameworks omits the completed ones, which may be many: `load_completed` reads them later. API servers
that support it (selectableFields, since Kubernetes 1.31) omit them; others send them all.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from windlass.controller.engine.cache import Cache
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.related_objects import Kind, RelatedObject, version
from windlass.controller.other_controllers import OtherControllers
from windlass.k8s import metadata
from windlass.kubeapi import errors, requests, responses
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.reflector import (
    BAD_REQUEST,
    LIST_SECONDS,
    Changed,
    Deleted,
    Listed,
    Reflector,
    ResourceEvent,
)
from windlass.kubeapi.resources import CONFIG_MAPS, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.settings import LogObjectSnapshot
from windlass.model.states import State
from windlass.wire import codec, snapshots
from windlass.wire.codec import DecodeError, InvalidFramework
from windlass.wire.snapshots import SnapshotTrigger

log = logging.getLogger(__name__)

LABEL_SELECTOR = names.FRAMEWORK_NAME
"""Selects the objects that belong to a Framework."""
ALL_NAMESPACES = ("",)
_NOT_COMPLETED = f"status.state!={State.COMPLETED}"
_COMPLETED = f"status.state={State.COMPLETED}"
COMPLETED_BATCH = 50
"""Number of completed Frameworks that are processed together, so that others wait for little time."""
_BATCH_CHECK_SEC = 0.01
_LOAD_RETRY_SEC = 10.0

T = TypeVar("T")


class InformerHandlers(msgspec.Struct, frozen=True):
    """Functions that the informers call: `on_change` after the cache was updated."""

    on_change: Callable[[Iterable[FrameworkKey]], None]
    on_deletion: Callable[[Framework], None]
    on_invalid: Callable[[InvalidFramework], None]
    on_error: Callable[[Resource, ApiError], None]
    write_snapshot: Callable[[str], None]


class HistoryError(Exception):
    """The API server was restored from a backup: the cache has newer objects than the server."""


class Informers:
    def __init__(
        self,
        transport: Transport,
        cache: Cache,
        other_controllers: OtherControllers,
        handlers: InformerHandlers,
        *,
        namespaces: Sequence[str],
        snapshot_settings: LogObjectSnapshot,
    ) -> None:
        self._transport = transport
        self._cache = cache
        self._other_controllers = other_controllers
        self._handlers = handlers
        self._namespaces = tuple(namespaces) or ALL_NAMESPACES
        self._snapshot_settings = snapshot_settings
        self._listed: set[tuple[str, str]] = set()
        """Groups and namespaces whose Frameworks have been listed."""

    def for_frameworks(self, group: str) -> list[Reflector]:
        return [
            Reflector(
                self._transport,
                frameworks(group),
                namespace=namespace,
                first_field_selector=_NOT_COMPLETED,
                is_listed=partial(self._is_listed, group, namespace),
                receive=_checked(partial(self._receive_frameworks, group, namespace)),
                on_error=partial(self._handlers.on_error, frameworks(group)),
            )
            for namespace in self._namespaces
        ]

    def for_config_maps(self) -> list[Reflector]:
        receive = partial(self._receive_objects, ConfigMapView, codec.decode_config_map)
        return self._reflectors(CONFIG_MAPS, LABEL_SELECTOR, receive)

    def for_pods(self) -> list[Reflector]:
        receive = partial(self._receive_objects, PodView, codec.decode_pod)
        return self._reflectors(PODS, LABEL_SELECTOR, receive)

    def _reflectors(
        self,
        resource: Resource,
        selector: str,
        receive: Callable[[str, ResourceEvent], None],
    ) -> list[Reflector]:
        """Return a reflector for each namespace. It calls `receive` with the namespace and the event."""
        return [
            Reflector(
                self._transport,
                resource,
                namespace=namespace,
                label_selector=selector,
                receive=_checked(partial(receive, namespace)),
                accepts_protobuf=True,
                on_error=partial(self._handlers.on_error, resource),
            )
            for namespace in self._namespaces
        ]

    # Frameworks

    def _receive_frameworks(self, group: str, namespace: str, event: ResourceEvent) -> None:
        match event:
            case Listed(items, version):
                self._frameworks_listed(items, version, namespace, group)
                self._listed.add((group, namespace))
            case Changed(data):
                self._framework_changed(data, group)
            case Deleted(data):
                self._framework_deleted(data)

    def _frameworks_listed(
        self, items: Sequence[msgspec.Raw], version: str, namespace: str, group: str
    ) -> None:
        read = [(_read(data), data) for data in items]
        listed = [(found, data) for found, data in read if isinstance(found, Framework)]
        invalid = [found for found, _ in read if isinstance(found, InvalidFramework)]
        for found in invalid:
            self._invalidate(found)
        changed = self._cache.replace_frameworks(
            (framework for framework, _ in listed),
            version,
            namespace,
            group,
            invalid={_key_of_invalid(found) for found in invalid},
        )
        for framework, data in listed:
            self._detect_other_controller(framework, data)
        self._handlers.on_change(changed)

    def _framework_changed(self, data: msgspec.Raw, group: str) -> None:
        if self._is_cached_version(data, group):
            return
        found = _read(data)
        if isinstance(found, InvalidFramework):
            self._invalidate(found)
        elif found is not None and self._cache.put_framework(found):
            self._detect_other_controller(found, data)
            self._handlers.on_change((key_of(found),))

    def _is_cached_version(self, data: msgspec.Raw, group: str) -> bool:
        """Return whether the cache has this version, e.g. with a status that this controller has stored.

        Such an event is skipped, because decoding a large status is slow.
        """
        try:
            identity = metadata.decode_identity(data).metadata
        except (msgspec.DecodeError, RecursionError):
            return False
        key = FrameworkKey(group, identity.namespace, identity.name)
        return self._cache.has_version(key, identity.resource_version)

    def _is_listed(self, group: str, namespace: str, data: msgspec.Raw) -> bool:
        """Return whether a list has to contain the Framework: for the first list, unless it is completed; for later
        lists, unless the cache has it as finished."""
        if not _is_completed(data):
            return True
        if (group, namespace) not in self._listed:
            return False
        identity = metadata.decode_identity(data).metadata
        finished = self._cache.finished(FrameworkKey(group, identity.namespace, identity.name))
        return finished is None or finished.resource_version != identity.resource_version

    async def load_completed(self, group: str, are_passes_due: Callable[[], bool]) -> None:
        """Read the completed Frameworks that the first list has omitted, and wait until their passes have run."""
        for namespace in self._namespaces:
            selector, token = _COMPLETED, ""
            while True:
                request = requests.list_page(
                    frameworks(group), namespace, continue_token=token, field_selector=selector
                )
                try:
                    page = responses.decode_page(await self._transport.send(request, LIST_SECONDS))
                except errors.ApiError as error:
                    is_rejected = (
                        isinstance(error, errors.ResponseError) and error.failure.code == BAD_REQUEST
                    )
                    if selector and is_rejected:
                        selector = ""
                    else:
                        self._handlers.on_error(frameworks(group), error)
                        await asyncio.sleep(_LOAD_RETRY_SEC)
                    token = ""
                    continue
                await self._receive_completed(group, page.objects, are_passes_due)
                token = page.metadata.continue_
                if not token:
                    break

    async def _receive_completed(
        self, group: str, items: Sequence[msgspec.Raw], are_passes_due: Callable[[], bool]
    ) -> None:
        completed = [item for item in items if _is_completed(item)]
        for start in range(0, len(completed), COMPLETED_BATCH):
            for data in completed[start : start + COMPLETED_BATCH]:
                self._framework_changed(data, group)
            while are_passes_due():
                await asyncio.sleep(_BATCH_CHECK_SEC)

    def _invalidate(self, invalid: InvalidFramework) -> None:
        self._cache.invalidate(_key_of_invalid(invalid))
        self._handlers.on_invalid(invalid)

    def _detect_other_controller(self, framework: Framework, data: msgspec.Raw) -> None:
        name = self._other_controllers.detect(framework.uid, codec.status_writers(data))
        if name:
            self._cache.set_other_controller(key_of(framework), name)

    def _framework_deleted(self, data: msgspec.Raw) -> None:
        self._take_snapshot("The Framework was deleted", SnapshotTrigger.FRAMEWORK_DELETION, data)
        found = _read(data)
        if isinstance(found, Framework):
            self._other_controllers.forget(found.uid)
            self._handlers.on_deletion(found)
            if self._cache.remove_framework(found):
                self._handlers.on_change((key_of(found),))
        elif found is not None:
            key = _key_of_invalid(found)
            self._other_controllers.forget(found.metadata.uid)
            self._cache.invalidate(key)
            if self._cache.remove_invalid(key):
                self._handlers.on_change((key,))

    # ConfigMaps and pods

    def _receive_objects(
        self,
        kind: Kind,
        decode: Callable[[bytes | msgspec.Raw], RelatedObject],
        namespace: str,
        event: ResourceEvent,
    ) -> None:
        match event:
            case Listed(items, version):
                found = _decode_valid(items, decode)
                self._handlers.on_change(self._cache.replace(kind, found, version, namespace))
            case Changed(data):
                for changed in _decode_valid((data,), decode):
                    self._handlers.on_change(self._cache.put(changed))
            case Deleted(data):
                if kind is PodView:
                    self._take_snapshot("The pod was deleted", SnapshotTrigger.POD_DELETION, data)
                for deleted in _decode_valid((data,), decode):
                    self._handlers.on_change(self._cache.remove(deleted))

    def _take_snapshot(self, message: str, trigger: SnapshotTrigger, data: msgspec.Raw) -> None:
        if snapshots.is_enabled(trigger, self._snapshot_settings):
            self._handlers.write_snapshot(snapshots.snapshot_line(message, trigger, codec.as_json(data)))


def _checked(receive: Callable[[ResourceEvent], None]) -> Callable[[ResourceEvent], None]:
    """Wrap `receive`: raise HistoryError for a list that is older than an earlier one, and log exceptions for changes.

    Exceptions for a list are not caught, because the cache would be incomplete.
    """
    newest = 0

    def receive_checked(event: ResourceEvent) -> None:
        nonlocal newest
        if isinstance(event, Listed):
            list_version = version(event.resource_version)
            if list_version < newest:
                raise HistoryError(
                    f"the API server went back from resourceVersion {newest} to {list_version}"
                )
            newest = list_version
            receive(event)
            return
        try:
            receive(event)
        except Exception:
            log.exception("internal error while processing a watch event")

    return receive_checked


class _State(msgspec.Struct, frozen=True):
    state: str = ""


class _WithState(msgspec.Struct, frozen=True):
    status: _State | None = None


_decode_state = msgspec.json.Decoder(_WithState).decode


def _is_completed(data: msgspec.Raw) -> bool:
    try:
        status = _decode_state(data).status
    except (msgspec.DecodeError, RecursionError):
        return False
    return status is not None and status.state == State.COMPLETED


def _read(data: msgspec.Raw) -> Framework | InvalidFramework | None:
    try:
        return codec.read_framework(data)
    except DecodeError as error:
        log.warning("ignoring a Framework without a name: %s", error)
        return None


def _decode_valid(items: Iterable[msgspec.Raw], decode: Callable[[bytes | msgspec.Raw], T]) -> Iterator[T]:
    for data in items:
        try:
            yield decode(data)
        except DecodeError as error:
            log.warning("ignoring an object that cannot be decoded: %s", error)


def _key_of_invalid(invalid: InvalidFramework) -> FrameworkKey:
    return FrameworkKey(
        names.group_of(invalid.api_version), invalid.metadata.namespace, invalid.metadata.name
    )
