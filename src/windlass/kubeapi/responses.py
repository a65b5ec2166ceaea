"""Decodes pages of lists and events of watches, in JSON or protobuf.

Only the resourceVersion of the objects in them is decoded here, because there may be thousands of pods.
"""

import msgspec

from windlass.k8s import metadata
from windlass.k8s.protobuf import views
from windlass.k8s.protobuf.messages import MAGIC
from windlass.wire import json_depth

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
_SIZE_BYTES = 4
_PROTOBUF_EVENT = b"\x0a"
"""The tag of the first field. A line of JSON does not begin with it, because it is a line end."""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None

    @property
    def objects(self) -> list[msgspec.Raw]:
        """Return the items; Go encodes a nil slice as null."""
        return self.items or []


_page_decoder = msgspec.json.Decoder(Page)


def decode_page(body: bytes) -> Page:
    """Decode a page. Raise msgspec.DecodeError if it is not a list."""
    if body.startswith(MAGIC):
        found = views.decode_list(body)
        items = [msgspec.Raw(item) for item in found.items]
        return Page(ListMeta(found.resource_version, found.continue_token), items)
    try:
        return _page_decoder.decode(body)
    except RecursionError:
        # An object is nested too deeply. Split the list, so that callers can decode the others.
        outline = _page_decoder.decode(json_depth.limit_depth(body, 2))
        return Page(outline.metadata, [msgspec.Raw(item) for item in json_depth.elements(body, "items")])


class WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class EventSplitter:
    """Splits a stream of chunks into events: lines of JSON, or frames of protobuf, each after its size in four bytes.

    An event may have several megabytes.
    """

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        self._missing = 0
        """Number of bytes without which there is no complete frame, unless the events are lines."""
        self._is_protobuf: bool | None = None

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the events that this chunk completes, without line ends and empty lines."""
        if self._is_protobuf is None and chunk:
            # The first byte of a size. JSON begins with a higher one, which would mean a frame of 150 MiB or more.
            self._is_protobuf = chunk[0] < 0x09
        return self._frames(chunk) if self._is_protobuf else self._lines(chunk)

    def _lines(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join([*self._partial, lines[0]])
            self._partial = []
        if rest:
            self._partial.append(rest)
        return [line for line in lines if line]

    def _frames(self, chunk: bytes) -> list[bytes]:
        self._partial.append(chunk)
        self._missing -= len(chunk)
        if self._missing > 0:
            return []
        self._missing = 0
        data = b"".join(self._partial)
        frames, position = [], 0
        while len(data) - position >= _SIZE_BYTES:
            start = position + _SIZE_BYTES
            end = start + int.from_bytes(data[position:start])
            if end > len(data):
                self._missing = end - len(data)
                break
            frames.append(data[start:end])
            position = end
        self._partial = [data[position:]] if position < len(data) else []
        return frames

    @property
    def has_partial_event(self) -> bool:
        return bool(self._partial)


_event_decoder = msgspec.json.Decoder(WatchEvent)


def decode_event(line: bytes) -> WatchEvent:
    """Decode an event. Raise msgspec.DecodeError if the line or frame is not valid."""
    if line.startswith(_PROTOBUF_EVENT):
        event_type, content = views.decode_event(line)
        return WatchEvent(event_type, msgspec.Raw(content))
    try:
        return _event_decoder.decode(line)
    except RecursionError:
        outline = _event_decoder.decode(json_depth.limit_depth(line, 1))
        return WatchEvent(outline.type, msgspec.Raw(json_depth.member(line, "object")))


def version_of(body: msgspec.Raw) -> str:
    """Return the resourceVersion of an object. Raise msgspec.DecodeError if it has no metadata."""
    data = bytes(body)
    if data.startswith(MAGIC):
        return views.version_of(data)
    try:
        return metadata.decode_version(data).metadata.resource_version
    except RecursionError:
        return metadata.decode_version(json_depth.limit_depth(data, 2)).metadata.resource_version
