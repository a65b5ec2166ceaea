"""Watches: the changes of one kind after a resourceVersion, as lines of JSON.

Events are sent after their change is committed, in the order of resourceVersions. A client that reads too slowly is
disconnected once its queue is full. It can resume at the last resourceVersion that it has seen.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.selection import Selection
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import Change

logger = logging.getLogger(__name__)

# The limit of the queue of a slow client.
MAX_QUEUED_BYTES = 8 * 1024 * 1024
# The approximate maximum size of a single write to the connection.
_WRITE_BYTES = 256 * 1024
# The time limit of a single write, for clients that do not read.
WRITE_TIMEOUT_SECONDS = 30.0
BOOKMARK_INTERVAL_SECONDS = 30.0
# The timeout of a watch whose request does not specify one.
DEFAULT_TIMEOUT_SECONDS = 3600.0

Transform = Callable[[bytes], bytes]


class Watch(msgspec.Struct, frozen=True):
    """The options of a watch request."""

    kind: Kind
    namespace: str
    selection: Selection
    # Only events after this resourceVersion are sent. With None, all existing objects are sent first.
    since: int | None
    with_bookmarks: bool
    timeout_seconds: float
    # sendInitialEvents: send the existing objects, then a bookmark that marks their end.
    sends_initial_events: bool = False


class WatchStream:
    """The queued events of one client."""

    def __init__(self, watch: Watch, transform: Transform, version: int) -> None:
        self._watch = watch
        # The initial events include all changes up to this version.
        self._initial_version = max(version, watch.since or 0)
        self._transform = transform
        self._prefix = f"{watch.namespace}/" if watch.namespace else ""
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._max_queued_bytes = MAX_QUEUED_BYTES
        self._has_lines = asyncio.Event()
        self.is_overflowed = False
        self.is_closed = False
        # Closes the connection of a client whose queue is full.
        self.abort: Callable[[], None] = lambda: None

    def add_change(self, change: Change) -> None:
        is_new = change.version > self._initial_version and change.key.startswith(self._prefix)
        if not is_new or self.is_overflowed or self.is_closed:
            return
        line = event_line(change, self._watch.selection, self._transform)
        if line is None:
            return
        self._add(line)
        if self._queued_bytes > self._max_queued_bytes:
            self.is_overflowed = True
            self._lines.clear()
            self.abort()

    def add_initial(self, line: bytes) -> None:
        """Queue an initial event, which does not count towards the limit."""
        self._add(line)
        self._max_queued_bytes += len(line)

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._queued_bytes += len(line)
        self._has_lines.set()

    def close(self) -> None:
        self.is_closed = True
        self._has_lines.set()

    async def take(self, seconds: float) -> bytes:
        """Return queued events of about `_WRITE_BYTES` at most; nothing if none arrives in time."""
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
    """Passes every change of the store to the streams of its resource."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._streams: dict[str, set[WatchStream]] = {}
        store.listen(self._on_change)

    def open(self, watch: Watch, transform: Transform) -> WatchStream:
        stream = WatchStream(watch, transform, self._store.version)
        for line in self._initial_lines(watch, transform):
            stream.add_initial(line)
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

    def _initial_lines(self, watch: Watch, transform: Transform) -> Iterator[bytes]:
        if watch.since is None:
            for body in self._store.all(watch.kind.resource, watch.namespace):
                if watch.selection.matches(body):
                    yield _line(b"ADDED", transform(body))
            if watch.sends_initial_events:
                yield bookmark_line(watch.kind, self._store.version, is_initial_end=True)
            return
        for change in self._store.changes(watch.kind.resource, watch.namespace, watch.since):
            line = event_line(change, watch.selection, transform)
            if line is not None:
                yield line

    def _on_change(self, change: Change) -> None:
        for stream in self._streams.get(change.resource, ()):
            try:
                stream.add_change(change)
            except Exception:
                # A failure in one stream must not affect the others.
                logger.exception("ended a watch of %s after an error", change.resource)
                stream.close()


def event_line(change: Change, selection: Selection, transform: Transform) -> bytes | None:
    """Return the event of a change, which is DELETED if the object is no longer selected.

    Return None if the object is selected neither before nor after the change.
    """
    was_selected = change.before is not None and selection.matches(change.before)
    if change.after is not None and selection.matches(change.after):
        return _line(b"MODIFIED" if was_selected else b"ADDED", transform(change.after))
    if change.before is None or not was_selected:
        return None
    # The event has the last state that was selected and the version of the change.
    obj = bodies.decode_stored(change.before)
    obj["metadata"]["resourceVersion"] = str(change.version)
    return _line(b"DELETED", transform(bodies.encode(obj)))


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
