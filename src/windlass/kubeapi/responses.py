"""Decodes pages of lists and lines of watches.

Only the resourceVersion of the objects in them is decoded here, because there may be thousands of pods.
"""

import msgspec

from windlass.k8s import metadata
from windlass.wire import json_depth

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"


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
    try:
        return _page_decoder.decode(body)
    except RecursionError:
        # An object is nested too deeply. Split the list, so that callers can decode the others.
        outline = _page_decoder.decode(json_depth.limit_depth(body, 2))
        return Page(outline.metadata, [msgspec.Raw(item) for item in json_depth.elements(body, "items")])


class WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class LineSplitter:
    """Splits a stream of chunks into lines. A line may have several megabytes."""

    def __init__(self) -> None:
        self._partial_line: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without line ends and empty lines."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join([*self._partial_line, lines[0]])
            self._partial_line = []
        if rest:
            self._partial_line.append(rest)
        return [line for line in lines if line]

    @property
    def has_partial_line(self) -> bool:
        return bool(self._partial_line)


_event_decoder = msgspec.json.Decoder(WatchEvent)


def decode_event(line: bytes) -> WatchEvent:
    """Decode an event. Raise msgspec.DecodeError if the line is not valid."""
    try:
        return _event_decoder.decode(line)
    except RecursionError:
        outline = _event_decoder.decode(json_depth.limit_depth(line, 1))
        return WatchEvent(outline.type, msgspec.Raw(json_depth.member(line, "object")))


def version_of(body: msgspec.Raw) -> str:
    """Return the resourceVersion of an object. Raise msgspec.DecodeError if it has no metadata."""
    try:
        return metadata.decode_version(body).metadata.resource_version
    except RecursionError:
        return metadata.decode_version(json_depth.limit_depth(bytes(body), 2)).metadata.resource_version
