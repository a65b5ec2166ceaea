"""Decodes whole objects, as JSON has them, and can reject unknown fields. `views` is faster."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.k8s.protobuf import messages
from windlass.k8s.protobuf.messages import DecodeError, Label, signed

Json = dict[str, Any]
_TEXTS = ("string", "resource.Quantity")


class UnknownKindError(Exception):
    """The object is of a kind that is not in the table."""


def decode(data: bytes, *, rejects_unknown_fields: bool = False) -> Json:
    """Return an object as JSON. Raise DecodeError or UnknownKindError.

    Unknown fields are those of a newer Kubernetes release. They are ignored, or rejected unless they are empty or in a
    status.
    """
    try:
        found = messages.open_envelope(data)
        name = messages.message_name(found.api_version, found.kind)
        if name not in messages.table():
            raise UnknownKindError(found.kind)
        content = _message(data[found.start : found.end], name, 0, rejects_unknown_fields)
    except (IndexError, UnicodeDecodeError, OverflowError, ValueError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(str(error)) from error
    return {"kind": found.kind, "apiVersion": found.api_version, **content}


def _message(data: bytes, name: str, depth: int, strict: bool) -> Json:
    if depth > messages.MAX_DEPTH:
        raise DecodeError("nested too deeply")
    fields = messages.table()[name]
    found: Json = {}
    for number, value in messages.entries(data):
        field = fields.get(number)
        if field is None:
            if strict and value and not name.endswith("Status"):
                raise DecodeError(f"unknown field {number} in {name}. Send JSON instead.")
            continue
        if field.label is Label.MAP:
            key, item = _pair(value, field.type, depth, strict)
            found.setdefault(field.name, {})[key] = item
            continue
        decoded = value_of(value, field.type, depth, strict)
        if field.label is Label.REPEATED:
            found.setdefault(field.name, []).append(decoded)
        elif field.label is Label.INLINE:
            found.update(decoded)
        elif decoded is not None and (field.label is Label.OPTIONAL or decoded not in ("", 0, False, {})):
            found[field.name] = decoded
    return found


def _pair(data: int | bytes, item_type: str, depth: int, strict: bool) -> tuple[str, Any]:
    parts = dict(messages.entries(_bytes(data)))
    empty: Any = "" if item_type in (*_TEXTS, "bytes") else {}
    value = value_of(parts[2], item_type, depth, strict) if 2 in parts else empty
    return _bytes(parts.get(1, b"")).decode(), value


def value_of(value: int | bytes, type_name: str, depth: int = 0, strict: bool = False) -> Any:
    """Return a value of a field as JSON; None for an unknown type."""
    if isinstance(value, int):
        return bool(value) if type_name == "bool" else signed(value)
    match type_name:
        case "string":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "meta.v1.Time" | "meta.v1.MicroTime":
            return _time(dict(messages.entries(value)), is_micro=type_name.endswith("MicroTime"))
        case "meta.v1.FieldsV1":
            return msgspec.json.decode(_bytes(dict(messages.entries(value)).get(1, b"{}")))
        case "resource.Quantity":
            return _bytes(dict(messages.entries(value)).get(1, b"0")).decode()
        case "intstr.IntOrString":
            return _int_or_string(dict(messages.entries(value)))
        case _ if type_name in messages.table():
            return _message(value, type_name, depth + 1, strict)
    return None


def _time(parts: Mapping[int, int | bytes], *, is_micro: bool) -> str | None:
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or (seconds == 0 and nanos == 0):
        return None
    time = datetime.fromtimestamp(signed(seconds), UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{nanos // 1000:06}Z" if is_micro else f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _int_or_string(parts: Mapping[int, int | bytes]) -> int | str:
    if parts.get(1, 0):
        return _bytes(parts.get(3, b"")).decode()
    number = parts.get(2, 0)
    return signed(number) if isinstance(number, int) else 0


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise DecodeError("expected a message, found a number")
    return value
