"""Lists and watches of the simulated API server, as the real Reflector requests and decodes them.

Lists have pages, and watches end, expire and send bookmarks. Of an object, only the resourceVersion is sent, and
`Source.object_of` returns the object for it. Encoding and decoding whole objects would be slow.
"""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Self

import msgspec

from windlass.kubeapi import errors, responses
from windlass.kubeapi.errors import ApiError, NoValidResponseError, ResponseError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import CONFIG_MAPS, PODS, Resource, frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.simulate.api_server import ApiServer, Watched, WatchEventType
from windlass.simulate.invariants import require
from windlass.simulate.machines import Machine
from windlass.simulate.scenario import Occurrence
from windlass.simulate.virtual_time import Resume, Wait

FRAMEWORKS = {group: frameworks(group) for group in names.GROUPS}
RESOURCES = (*FRAMEWORKS.values(), CONFIG_MAPS, PODS)
"""In the order in which a new leader lists them."""
MAX_EVENTS = 1000
"""Length of the history of each resource. Watches that are further behind expire."""
BOOKMARK_SEC = 60.0
MAX_WATCHES_PER_SECOND = 20
"""Limit for one Reflector."""
_TYPES = {WatchEventType.CHANGED: responses.MODIFIED, WatchEventType.DELETED: responses.DELETED}

Event = tuple[int, WatchEventType, Watched, datetime]
"""The resourceVersion, the type, the object and the time of the write."""


class History:
    """The last changes of each resource, continue tokens, and the open watches of all controllers."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.watches: dict[Resource, list[Watch]] = {resource: [] for resource in RESOURCES}
        self._events: dict[Resource, deque[Event]] = {resource: deque() for resource in RESOURCES}
        self._compacted = dict.fromkeys(RESOURCES, 0)
        """The oldest version from which a watch can continue."""
        self._lists: dict[str, tuple[str, Sequence[Watched]]] = {}
        """The version and the remaining objects of unfinished lists, by continue token."""
        self.silent_until = dict.fromkeys(RESOURCES, server.now)
        """Time until which watches deliver no events, by resource."""
        server.watchers.append(self._on_event)

    def stall(self, number: int, seconds: float) -> None:
        """Delay the events of one kind of object until `seconds` have passed."""
        stalled = (tuple(FRAMEWORKS.values()), (CONFIG_MAPS,), (PODS,))[number % 3]
        for resource in stalled:
            self.silent_until[resource] = self.server.now + timedelta(seconds=seconds)

    def compact(self) -> None:
        """Forget all changes and unfinished lists, so that older watches and lists cannot be continued (410)."""
        self._lists.clear()
        for resource, events in self._events.items():
            events.clear()
            self._compacted[resource] = int(self.server.resource_version)

    def close_watches(self) -> None:
        for watches in self.watches.values():
            for watch in tuple(watches):
                watch.end()

    def since(self, resource: Resource, version: int) -> list[Event]:
        """Return the changes after the version. Raise ExpiredError if they are no longer known."""
        if version < self._compacted[resource]:
            self.server.occurred.add(Occurrence.WATCH_EXPIRED)
            raise _error(410, "Expired")
        return [event for event in self._events[resource] if event[0] > version]

    def page(self, resource: Resource, limit: int, token: str) -> tuple[str, Sequence[Watched], str]:
        """Return the version, objects and continue token of a page. All pages of a list have the same version."""
        if token and token not in self._lists:
            self.server.occurred.add(Occurrence.LIST_EXPIRED)
            raise _error(410, "Expired")
        version, objects = self._lists[token] if token else self._objects(resource)
        limit = limit or len(objects)
        rest = objects[limit:]
        next_token = f"{version}-{resource.full_name}-{len(rest)}" if rest else ""
        if rest:
            self._lists[next_token] = (version, rest)
        return version, objects[:limit], next_token

    def _objects(self, resource: Resource) -> tuple[str, Sequence[Watched]]:
        server = self.server
        objects: Sequence[Watched]
        if resource == PODS:
            objects = tuple(server.pods.values())
        elif resource == CONFIG_MAPS:
            objects = tuple(server.config_maps.values())
        else:
            objects = tuple(found for found in server.frameworks.values() if found.group == resource.group)
        return server.resource_version, objects

    def _on_event(self, event_type: WatchEventType, found: Watched) -> None:
        resource = _resource_of(found)
        event = (int(found.metadata.resource_version), event_type, found, self.server.now)
        events = self._events[resource]
        events.append(event)
        if len(events) > MAX_EVENTS:
            self._compacted[resource] = events.popleft()[0]
        for watch in self.watches[resource]:
            watch.push(event)


def _resource_of(found: Watched) -> Resource:
    match found:
        case Framework():
            return FRAMEWORKS[found.group]
        case ConfigMapView():
            return CONFIG_MAPS
        case PodView():
            return PODS


def _encode_status(code: int, reason: str) -> bytes:
    return msgspec.json.encode({"kind": "Status", "code": code, "reason": reason})


def _error(code: int, reason: str) -> ResponseError:
    return errors.from_response(code, {}, _encode_status(code, reason))


def _object(version: str | int) -> bytes:
    return b'{"metadata":{"resourceVersion":"%d"}}' % int(version)


def _line(event_type: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event_type.encode(), body)


class Source:
    """The requests of one Reflector."""

    def __init__(self, history: History, resource: Resource, machine: Machine) -> None:
        self.history = history
        self.resource = resource
        self.machine = machine
        self._objects: dict[str, Watched] = {}
        self._bookmarks: set[str] = set()
        self._watches = 0
        """Number of watches in the current second."""
        self._counted_since = history.server.now

    def object_of(self, body: msgspec.Raw) -> Watched:
        """Return the object for an item of the last list or for the last watch event."""
        return self._objects[responses.version_of(body)]

    async def send(self, request: Request, timeout: float) -> bytes:  # noqa: ARG002 - answers are never that late
        query = dict(request.query)
        limit, token = int(query.get("limit", 0)), query.get("continue", "")
        await self._delay()
        self._raise_fault()
        if token and self.machine.random.random() < self.machine.faults().expired:
            self.history.compact()
        version, objects, next_token = self.history.page(self.resource, limit, token)
        await self._delay()
        if not token:
            self._objects.clear()
        self._objects |= {found.metadata.resource_version: found for found in objects}
        items = b",".join(_object(found.metadata.resource_version) for found in objects)
        return b'{"metadata":{"resourceVersion":"%s","continue":"%s"},"items":[%s]}' % (
            version.encode(),
            next_token.encode(),
            items,
        )

    def stream(self, request: Request, max_seconds: float) -> "Watch":  # noqa: ARG002 - it ends before
        self._count_watch()
        query = dict(request.query)
        if query["resourceVersion"] in self._bookmarks:
            self.history.server.occurred.add(Occurrence.RESUMED_FROM_BOOKMARK)
        return Watch(self, int(query["resourceVersion"]), float(query["timeoutSeconds"]))

    def _count_watch(self) -> None:
        now = self.history.server.now
        if now >= self._counted_since + timedelta(seconds=1):
            self._counted_since, self._watches = now, 0
        self._watches += 1
        require(self._watches <= MAX_WATCHES_PER_SECOND, f"{self.resource.plural} are watched in a hot loop")

    async def open(self) -> None:
        await self._delay()
        self._raise_fault()

    def encode(self, event_type: WatchEventType, found: Watched) -> bytes:
        version = found.metadata.resource_version
        self._objects = {version: found}
        return _line(_TYPES[event_type], _object(version))

    def bookmark(self) -> bytes:
        version = self.history.server.resource_version
        self._bookmarks.add(version)
        return _line(responses.BOOKMARK, _object(version))

    async def _delay(self) -> None:
        await self.machine.sleep(self.machine.latency())

    def _raise_fault(self) -> None:
        faults = self.machine.faults()
        if self.machine.random.random() < faults.error_before:
            raise NoValidResponseError("the connection was closed")
        if self.machine.random.random() < faults.throttled:
            raise _error(429, "TooManyRequests")


class Watch:
    """A watch, from its request to its end. A Reflector uses it as a context manager and an iterator of chunks.

    Events arrive in the order of the writes. A fault ends the watch before an event, which the next watch delivers.
    """

    def __init__(self, source: Source, version: int, seconds: float) -> None:
        self._source = source
        self._version = version
        self._ends_at = source.history.server.now + timedelta(seconds=seconds)
        self._events: deque[Event] = deque()
        self._error = b""
        """The error event that ends the watch; empty for none."""
        self._resume: Resume | None = None
        """Resumes the Reflector if it waits for the next chunk."""
        self._is_event_in_transit = False
        self._is_ended = False

    async def __aenter__(self) -> Self:
        await self._source.open()
        history, resource = self._source.history, self._source.resource
        try:
            self._events.extend(history.since(resource, self._version))
        except ResponseError as error:
            if self._source.machine.random.random() < 0.5:
                raise
            self._error = _line(responses.ERROR, _encode_status(error.failure.code, error.failure.reason))
        history.watches[resource].append(self)
        self._source.machine.later(BOOKMARK_SEC, self._send_bookmark)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_ended = True
        self._source.history.watches[self._source.resource].remove(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await Wait(self._wait)
        if chunk is None:
            raise StopAsyncIteration
        if isinstance(chunk, ApiError):
            raise chunk
        received: bytes = chunk
        return received

    def push(self, event: Event) -> None:
        self._events.append(event)
        self._send_next()

    def end(self) -> None:
        self._is_ended = True
        self._send_next()

    def _wait(self, resume: Resume) -> None:
        self._resume = resume
        self._send_next()

    def _send_next(self) -> None:
        if self._resume is None or self._is_event_in_transit:
            return
        if self._error:
            self._send(self._error)
        elif self._is_ended:
            self._send(None)
        elif self._events:
            source, now = self._source, self._source.history.server.now
            written_at = self._events[0][3]
            delay = source.machine.random.uniform(0.001, max(source.machine.faults().watch_delay, 0.002))
            silent_until = source.history.silent_until[source.resource]
            arrival = max(written_at + timedelta(seconds=delay), silent_until, now)
            self._is_event_in_transit = True
            source.machine.later((arrival - now).total_seconds(), self._deliver)

    def _deliver(self) -> None:
        self._is_event_in_transit = False
        source, faults = self._source, self._source.machine.faults()
        if self._is_ended:
            self._send_next()
            return
        if source.machine.random.random() < faults.watch_drop:
            if source.machine.random.random() < faults.expired:
                source.history.compact()
            self._is_ended = True
            self._send(source.machine.random.choice((None, b'{"type":"MODI', NoValidResponseError("closed"))))
            return
        _, event_type, found, _ = self._events.popleft()
        line = source.encode(event_type, found)
        self._send(line * 2 if source.machine.random.random() < faults.watch_repeat else line)

    def _send_bookmark(self) -> None:
        """Send a bookmark if no event is pending. End the watch if its timeout has passed."""
        if self._is_ended:
            return
        self._is_ended = self._source.history.server.now >= self._ends_at
        if self._resume is not None and not self._events:
            self._send(self._source.bookmark())
        if not self._is_ended:
            self._source.machine.later(BOOKMARK_SEC, self._send_bookmark)

    def _send(self, chunk: bytes | ApiError | None) -> None:
        resume, self._resume = self._resume, None
        if resume is not None:
            resume(chunk)
