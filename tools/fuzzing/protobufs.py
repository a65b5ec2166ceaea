"""Write objects in Kubernetes' protobuf: as Go clients do, with wrong field types, or with corrupted bytes."""

import functools
import json
import struct
from importlib import resources
from random import Random
from typing import Any

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_TIMES = ("meta.v1.Time", "meta.v1.MicroTime")
_SOME_SECOND = 1_700_000_000
_VARINT, _FIXED, _BYTES = 0, 1, 2


def protobuf(value: Any, dice: Random) -> bytes:
    kind = value.get("kind") if isinstance(value, dict) else None
    names = [name for name in _fields() if name.endswith(f".{kind}")]
    raw = _message(value, names[0]) if names else dice.randbytes(20)
    api_version = value.get("apiVersion") if isinstance(value, dict) else ""
    head = _entry(1, _text(api_version)) + _entry(2, _text(kind))
    written = _MAGIC + _entry(1, head) + _entry(2, raw)
    return written if dice.random() < 0.7 else _spoilt(written, dice)


def _message(value: dict[str, Any], name: str) -> bytes:
    entries = (
        _entry(int(number), _part(one, kind))
        for number, (field, shape, kind) in _fields()[name].items()
        for one in _each(value.get(field), shape)
    )
    return b"".join(entries)


def _each(found: Any, shape: str) -> list[Any]:
    if shape == "map" and isinstance(found, dict):
        return [{key: value} for key, value in found.items()]
    return [one for one in (found if isinstance(found, list) else [found]) if one is not None]


def _part(value: Any, kind: str) -> int | float | bytes:
    """Encode by the type of the value, not of the field."""
    if isinstance(value, dict):
        return _message(value, kind) if kind in _fields() else _map(value, kind)
    if kind in _TIMES:
        return _entry(1, value if isinstance(value, int) else _SOME_SECOND)
    if kind in ("resource.Quantity", "intstr.IntOrString"):
        return _entry(1, _text(value))
    return value if isinstance(value, int | float) else _text(value)


def _map(value: dict[str, Any], kind: str) -> bytes:
    pairs = (_entry(1, _text(key)) + _entry(2, _part(held, kind)) for key, held in value.items())
    return b"".join(pairs)


def _entry(number: int, value: int | float | bytes) -> bytes:  # noqa: PYI041 — a float is written otherwise
    if isinstance(value, bytes):
        return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | _FIXED) + struct.pack("<d", value)
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    """Encode a number; too large ones get more bytes than Go allows."""
    rest = value if value >= 0 else value & (2**64 - 1)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _text(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


def _spoilt(written: bytes, dice: Random) -> bytes:
    changed = bytearray(written)
    for _ in range(dice.randint(1, 3)):
        changed[dice.randrange(len(changed))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    return bytes(changed[: dice.randrange(len(changed))] if dice.random() < 0.2 else changed)


@functools.cache
def _fields() -> dict[str, dict[str, tuple[str, str, str]]]:
    """Return the fields of each message by number: name, list or map, and type."""
    found = resources.files("windlass.k8s.protobuf").joinpath("fields.json").read_text()
    fields: dict[str, dict[str, tuple[str, str, str]]] = json.loads(found)
    return fields
