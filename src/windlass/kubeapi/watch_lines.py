"""Splits the response of a watch into lines and decodes events, whose objects stay bytes.

Of an object only its resourceVersion is decoded here, because there may be thousands of pods.
"""

import msgspec

from windlass.k8s import metadata
from windlass.wire import json_depth

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"


class Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class LineSplitter:
    """Joins chunks to lines, which may have several megabytes."""

    def __init__(self) -> None:
        self._beginning: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without line ends and empty lines."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join([*self._beginning, lines[0]])
            self._beginning = []
        if rest:
            self._beginning.append(rest)
        return [line for line in lines if line]

    @property
    def has_partial_line(self) -> bool:
        return bool(self._beginning)


_event_decoder = msgspec.json.Decoder(Event)


def parse(line: bytes) -> Event:
    """Decode an event. Raise msgspec.DecodeError if the line is not valid."""
    try:
        return _event_decoder.decode(line)
    except RecursionError:
        outline = _event_decoder.decode(json_depth.limit_depth(line, 1))
        return Event(outline.type, msgspec.Raw(json_depth.member(line, "object")))


def version_of(body: msgspec.Raw) -> str:
    """Return the resourceVersion of an object. Raise msgspec.DecodeError if it has no metadata."""
    try:
        return metadata.decode_version(body).metadata.resource_version
    except RecursionError:
        return metadata.decode_version(json_depth.limit_depth(bytes(body), 2)).metadata.resource_version
