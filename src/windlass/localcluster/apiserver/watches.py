"""Watches: the changes of one kind after a resourceVersion, as lines of JSON.

Events are sent after their change is committed, in the order of resourceVersions. A new event is encoded once for all
watches with the same encoding. If many watches have events, only some of them write in each iteration of the event
loop: other requests are served in between, and the events that a watch receives until its turn share one write.

A client that reads too slowly is disconnected once its queue is full. It can resume at the last resourceVersion that it
has seen.
"""

import asyncio
import contextlib
import functools
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.selection import SelectableObject, Selection
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import Change

logger = logging.getLogger(__name__)

# The limit of the queue of a slow client.
MAX_QUEUED_BYTES = 8 * 1024 * 1024
# The approximate maximum size of a single write to the connection.
_WRITE_BYTES = 256 * 1024
# The maximum number of streams that `_wake_next` wakes in one iteration of the event loop.
WAKE_LIMIT = 64
# The time limit of a single write, for clients that do not read.
WRITE_TIMEOUT_SECONDS = 30.0
BOOKMARK_INTERVAL_SECONDS = 30.0
# The timeout of a watch whose request does not specify one.
DEFAULT_TIMEOUT_SECONDS = 3600.0
# The type of an event, by whether the object was selected before the change and is selected after it.
_EVENT_TYPES = {(False, True): b"ADDED", (True, True): b"MODIFIED", (True, False): b"DELETED"}


class EventEncoder(Protocol):
    """Encodes objects in the representation that a client requested."""

    def encoding_key(self, *, is_first: bool) -> Hashable:
        """Return a key. Encoders with equal keys return the same bytes for an object.

        The first event of a watch may be encoded differently from later ones.
        """

    def encode(self, body: bytes, *, is_first: bool) -> bytes: ...


class SharedEvent:
    """The event of a change. All streams with the same encoding share its bytes."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self._before = SelectableObject(change.before) if change.before is not None else None
        self._after = SelectableObject(change.after) if change.after is not None else None
        self._lines: dict[tuple[bytes, Hashable], bytes] = {}

    def line(self, selection: Selection, encoder: EventEncoder, *, is_first: bool) -> bytes | None:
        """Return the event, which is DELETED if the object is no longer selected.

        Return None if the object is selected neither before nor after the change.
        """
        was_selected = self._before is not None and selection.matches(self._before)
        is_selected = self._after is not None and selection.matches(self._after)
        if not was_selected and not is_selected:
            return None
        event_type = _EVENT_TYPES[was_selected, is_selected]
        key = (event_type, encoder.encoding_key(is_first=is_first))
        line = self._lines.get(key)
        if line is None:
            body = self._after.body if is_selected and self._after else self._deleted_body
            line = self._lines[key] = _line(event_type, encoder.encode(body, is_first=is_first))
        return line

    @functools.cached_property
    def _deleted_body(self) -> bytes:
        """The object before the change, with the resourceVersion of the change."""
        obj = bodies.decode_stored(self.change.before or b"{}")
        obj["metadata"]["resourceVersion"] = str(self.change.version)
        return bodies.encode(obj)


class Watch(msgspec.Struct, frozen=True):
    """The options of a watch request."""

    kind: Kind
    namespace: str
    selection: Selection
    # Only events after this resourceVersion are sent. With None, all existing objects are sent first.
    since: int | None
    with_bookmarks: bool
    timeout_seconds: float
    # Whether a bookmark marks the end of the existing objects (sendInitialEvents).
    marks_initial_end: bool = False


class WatchStream:
    """The queued events of one watch."""

    def __init__(self, watch: Watch, encoder: EventEncoder, version: int) -> None:
        self._watch = watch
        # `add_event` ignores changes up to this version: they are among the initial events or were not requested.
        self._initial_version = max(version, watch.since or 0)
        self._encoder = encoder
        self._is_first_event = True
        self._prefix = f"{watch.namespace}/" if watch.namespace else ""
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._max_queued_bytes = MAX_QUEUED_BYTES
        self._has_lines = asyncio.Event()
        self.is_overflowed = False
        self.is_closed = False
        # Closes the connection of a client whose queue is full.
        self.abort: Callable[[], None] = lambda: None

    def add_event(self, event: SharedEvent) -> bool:
        """Queue an event if the watch selects it. Return whether the stream has to be woken."""
        change = event.change
        is_new = change.version > self._initial_version and change.key.startswith(self._prefix)
        if not is_new or self.is_overflowed or self.is_closed:
            return False
        was_empty = not self._lines
        if not self._add_selected(event):
            return False
        if self._queued_bytes > self._max_queued_bytes:
            self.is_overflowed = True
            self._lines.clear()
            self.abort()
        return was_empty or self.is_overflowed

    def add_initial_event(self, event: SharedEvent) -> None:
        """Queue an initial event, which does not count towards the limit."""
        self._add_selected(event)
        self._max_queued_bytes = MAX_QUEUED_BYTES + self._queued_bytes

    def add_line(self, line: bytes) -> None:
        self._lines.append(line)
        self._queued_bytes += len(line)

    def _add_selected(self, event: SharedEvent) -> bool:
        line = event.line(self._watch.selection, self._encoder, is_first=self._is_first_event)
        if line is None:
            return False
        self._is_first_event = False
        self.add_line(line)
        return True

    def wake(self) -> None:
        """Let `take` return, unless it has returned the events already."""
        if self._lines or self.is_overflowed:
            self._has_lines.set()

    @property
    def fills_a_write(self) -> bool:
        return self._queued_bytes >= _WRITE_BYTES

    def close(self) -> None:
        self.is_closed = True
        self._has_lines.set()

    async def take(self, seconds: float) -> bytes:
        """Return queued events, about `_WRITE_BYTES` at most.

        If there are none, wait for events until `seconds` have passed or the stream is closed.
        """
        if not self._lines and not self.is_closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(seconds, 0)):
                    await self._has_lines.wait()
        self._has_lines.clear()
        taken: list[bytes] = []
        size = 0
        while self._lines and size < _WRITE_BYTES:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        self._queued_bytes -= size
        return b"".join(taken)


class Watches:
    """Passes every change of the store to the streams of its resource.

    `schedule` calls a function in the next iteration of the event loop. Without it, all streams are woken at once.
    """

    def __init__(self, store: Store, schedule: Callable[[Callable[[], None]], object] | None = None) -> None:
        self._store = store
        self._schedule = schedule
        self._streams: dict[str, set[WatchStream]] = {}
        # Streams with events, in the order in which they are woken.
        self._unwoken: deque[WatchStream] = deque()
        store.listen(self._on_change)

    def open(self, watch: Watch, encoder: EventEncoder) -> WatchStream:
        stream = WatchStream(watch, encoder, self._store.version)
        for change in self._initial_changes(watch):
            stream.add_initial_event(SharedEvent(change))
        if watch.marks_initial_end and watch.since is None:
            stream.add_line(bookmark_line(watch.kind, self._store.version, is_initial_end=True))
        self._streams.setdefault(watch.kind.resource, set()).add(stream)
        return stream

    def remove(self, watch: Watch, stream: WatchStream) -> None:
        self._streams[watch.kind.resource].discard(stream)

    def close(self, resource: str | None = None) -> None:
        """End all watches, or those of one resource."""
        for name, streams in self._streams.items():
            if resource is None or name == resource:
                for stream in streams:
                    stream.close()

    def _initial_changes(self, watch: Watch) -> Iterator[Change]:
        resource, namespace = watch.kind.resource, watch.namespace
        if watch.since is not None:
            return self._store.changes(resource, namespace, watch.since)
        # An existing object is sent like a new one.
        return (Change(0, resource, "", None, body) for body in self._store.all(resource, namespace))

    def _on_change(self, change: Change) -> None:
        event = SharedEvent(change)
        was_idle = not self._unwoken
        for stream in self._streams.get(change.resource, ()):
            try:
                is_to_be_woken = stream.add_event(event)
            except Exception:
                # A failure in one stream must not affect the others.
                logger.exception("ended a watch of %s after an error", change.resource)
                stream.close()
                continue
            if stream.fills_a_write:
                stream.wake()
            elif is_to_be_woken:
                self._unwoken.append(stream)
        if was_idle:
            self._wake_next()

    def _wake_next(self) -> None:
        limit = len(self._unwoken) if self._schedule is None else WAKE_LIMIT
        for _ in range(min(limit, len(self._unwoken))):
            self._unwoken.popleft().wake()
        if self._unwoken and self._schedule is not None:
            self._schedule(self._wake_next)


def bookmark_line(kind: Kind, version: int, *, is_initial_end: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    if is_initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return _line(b"BOOKMARK", bodies.encode(obj))


def expired_line(since: int, store: Store) -> bytes:
    error = api_errors.expired(f"too old resource version: {since} ({store.compacted_version})")
    return _line(b"ERROR", bodies.encode(error.status()))


def _line(event_type: bytes, body: bytes) -> bytes:
    return b'{"type":"' + event_type + b'","object":' + body + b"}\n"
