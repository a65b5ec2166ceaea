"""A watch as it arrives: bytes in pieces of any size → whole lines → events whose objects stay bytes.

Pods come by the thousand, so nothing of an object is decoded here but, where it is asked for, its version.
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
    """Remembers the beginning of a line until its end arrives. A line may be several megabytes long."""

    def __init__(self) -> None:
        self._beginning: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends; empty ones are left out."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join([*self._beginning, lines[0]])
            self._beginning = []
        if rest:
            self._beginning.append(rest)
        return [line for line in lines if line]

    @property
    def is_in_mid_line(self) -> bool:
        return bool(self._beginning)


_event_decoder = msgspec.json.Decoder(Event)


def parse(line: bytes) -> Event:
    """Raises msgspec.DecodeError when the line is no event."""
    try:
        return _event_decoder.decode(line)
    except RecursionError:
        outline = _event_decoder.decode(json_depth.limit_depth(line, 1))
        return Event(outline.type, msgspec.Raw(json_depth.member(line, "object")))


def version_of(body: msgspec.Raw) -> str:
    """The resourceVersion of an object. Raises msgspec.DecodeError when it has no metadata."""
    try:
        return metadata.decode_version(body).metadata.resource_version
    except RecursionError:
        return metadata.decode_version(json_depth.limit_depth(bytes(body), 2)).metadata.resource_version
