"""The messages of Kubernetes' protobuf: the table of their fields, varints, and the envelope of an object.

`tools/update_protobuf_fields.py` generates the table `fields.json`.
"""

import functools
import pkgutil
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
"""The first bytes of an object. JSON starts with other bytes."""
MAX_DEPTH = 100

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
"""The wire types."""
RAW = 2
"""Number of the field of runtime.Unknown that contains the object. The field 1 is the TypeMeta."""

PACKAGES = {
    "": "core.v1",
    "apps": "apps.v1",
    "batch": "batch.v1",
    "coordination.k8s.io": "coordination.v1",
    "rbac.authorization.k8s.io": "rbac.v1",
    "authentication.k8s.io": "authentication.v1",
    "authorization.k8s.io": "authorization.v1",
    "autoscaling": "autoscaling.v1",
    "policy": "policy.v1beta1",
    "meta.k8s.io": "meta.v1",
}
"""The protobuf packages of the API groups."""
_META_KINDS = ("DeleteOptions", "Status")
"""Kinds of the package meta.v1 that have the API version of another group."""


class DecodeError(msgspec.DecodeError):
    """The data is not valid protobuf, or is not the expected message."""


class Label(StrEnum):
    OPTIONAL = "optional"
    OMITEMPTY = "omitempty"
    """In JSON, an empty value is omitted."""
    INLINE = "inline"
    """In JSON, the fields of this message are fields of the parent."""
    REPEATED = "repeated"
    MAP = "map"
    """A map from strings to values of the type."""


class Field(NamedTuple):
    name: str
    label: Label
    type: str


@functools.cache
def table() -> dict[str, dict[int, Field]]:
    """Return the fields of each message by number."""
    data = pkgutil.get_data(__name__, "fields.json")
    assert data is not None  # noqa: S101 — it is installed with this file
    return msgspec.json.decode(data, type=dict[str, dict[int, Field]])


def message_name(api_version: str, kind: str) -> str:
    """Return e.g. `core.v1.Pod`, which may not be in the table."""
    group = api_version.rpartition("/")[0]
    package = "meta.v1" if kind in _META_KINDS else PACKAGES.get(group, "")
    return f"{package}.{kind}"


def varint(number: int) -> bytes:
    """Encode a number; a negative one as its two's complement in 64 bits."""
    if 0 <= number < 0x80:
        return bytes((number,))
    rest, encoded = number & 0xFFFF_FFFF_FFFF_FFFF, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SMALL = tuple(varint(number) for number in range(1024))


def tag(number: int, wire_type: int = BYTES) -> bytes:
    return varint(number << 3 | wire_type)


def size_of(content: bytes) -> bytes:
    """Encode the size of the content."""
    size = len(content)
    return _SMALL[size] if size < 1024 else varint(size)


def entry(number: int, content: bytes) -> bytes:
    """Encode a field that is a message, a string or bytes."""
    return tag(number) + size_of(content) + content


def envelope(api_version: str, kind: str, content: bytes) -> bytes:
    """Return an object: the magic number, and runtime.Unknown with the TypeMeta and the message."""
    type_meta = entry(1, api_version.encode()) + entry(2, kind.encode())
    return MAGIC + entry(1, type_meta) + entry(RAW, content)


class Envelope(NamedTuple):
    api_version: str
    kind: str
    start: int
    """Where the message begins in the data."""
    end: int


def open_envelope(data: bytes) -> Envelope:
    """Return the type of an object and the place of its message. Raise DecodeError."""
    if not data.startswith(MAGIC):
        raise DecodeError("the body is not Kubernetes' protobuf: it does not start with k8s\\0")
    type_meta, place = b"", (0, 0)
    for number, value in places(data, len(MAGIC), len(data)):
        if isinstance(value, tuple) and number == 1:
            type_meta = data[slice(*value)]
        elif isinstance(value, tuple) and number == RAW:
            place = value
            if value[1] == len(data):
                break
    return Envelope(*_type_of(type_meta), *place)


@functools.lru_cache(maxsize=64)
def _type_of(type_meta: bytes) -> tuple[str, str]:
    parts = {number: value for number, value in entries(type_meta) if isinstance(value, bytes)}
    try:
        return parts.get(1, b"").decode(), parts.get(2, b"").decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"the type of the object is not text: {error}") from error


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number and the position after it. Raise DecodeError or IndexError."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise DecodeError("too long integer")


def places(data: bytes, position: int, end: int) -> Iterator[tuple[int, int | tuple[int, int]]]:
    """Yield the number of each field of a message, and its value: an integer, or the start and end of other values."""
    try:
        while position < end:
            tag, position = read_varint(data, position)
            wire_type = tag & 7
            if wire_type == VARINT:
                value, position = read_varint(data, position)
                yield tag >> 3, value
                continue
            if wire_type == BYTES:
                size, position = read_varint(data, position)
            elif wire_type in (FIXED_64, FIXED_32):
                size = 8 if wire_type == FIXED_64 else 4
            else:
                raise DecodeError(f"unknown wire type {wire_type}")
            yield tag >> 3, (position, position + size)
            position += size
    except IndexError as error:
        raise DecodeError("truncated") from error
    if position != end:
        raise DecodeError("truncated")


def entries(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field: an integer, or bytes."""
    for number, value in places(data, 0, len(data)):
        if isinstance(value, int):
            yield number, value
        elif value[1] > len(data):
            raise DecodeError("truncated")
        else:
            yield number, data[value[0] : value[1]]


def signed(value: int) -> int:
    """Return a varint of the type int32 or int64 as a signed number."""
    return value - 2**64 if value >= 2**63 else value
