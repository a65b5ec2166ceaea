"""Encodes manifests. A part that several manifests share, e.g. the template of a role, is encoded once.

Only manifests that mean the same in JSON are encoded: the API server reports unknown fields and wrong types only for
JSON, so `encode` returns None for them.
"""

import base64
import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from windlass.k8s import quantities
from windlass.k8s.protobuf import messages
from windlass.k8s.protobuf.messages import Field, Label, size_of

Memo = dict[tuple[int, str], tuple[Any, bytes]]
"""Encoded messages and lists by the identity of the value and their type, with the value, which keeps the identity."""
_Append = Callable[[Any, Memo], bytes]
"""Encodes the value of one field, including its number."""

_RANGES = {"int32": 2**31, "int64": 2**63}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT = 128
_NOT_ENCODABLE = (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError)


def encode(manifest: dict[str, Any], memo: Memo | None = None) -> bytes | None:
    """Return an object as protobuf; None if it has to be sent as JSON.

    Manifests that share parts by identity are encoded faster with the same `memo`. The parts must not be changed.
    """
    try:
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        fields = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
        content = _message(messages.message_name(api_version, kind))(fields, {} if memo is None else memo)
        return messages.envelope(api_version, kind, content)
    except _NOT_ENCODABLE:
        return None


@functools.cache
def _message(name: str) -> Callable[[dict[str, Any], Memo], bytes]:
    """Return a function that encodes the content of a message."""
    fields: dict[str, _Append] = {}
    _add_fields(fields, name, ())

    def encode_message(value: dict[str, Any], memo: Memo) -> bytes:
        if type(value) is not dict:
            raise TypeError(f"{name} is not an object")
        return b"".join([fields[key](item, memo) for key, item in value.items() if item is not None])

    return encode_message


def _add_fields(found: dict[str, _Append], name: str, parents: tuple[int, ...]) -> None:
    """Add the fields of a message and of the messages that are inline in it."""
    for number, field in messages.table()[name].items():
        if field.label is Label.INLINE:
            _add_fields(found, field.type, (number, *parents))
        else:
            append = _field(number, field)
            found[field.name] = _nested(append, parents) if parents else append


def _nested(append: _Append, parents: tuple[int, ...]) -> _Append:
    # A message that occurs several times is merged, so each of its fields can be in an occurrence of its own.
    def encode_nested(value: Any, memo: Memo) -> bytes:
        content = append(value, memo)
        for number in parents:
            content = messages.entry(number, content)
        return content

    return encode_nested


def _field(number: int, field: Field) -> _Append:
    if field.label is Label.MAP:
        return _map(number, field.type)
    single = _single(number, field.type)
    if field.label is not Label.REPEATED:
        return single

    def encode_list(value: list[Any], memo: Memo) -> bytes:
        if type(value) is not list:
            raise TypeError(f"{field.name} is not a list")
        return b"".join([single(item, memo) for item in value])

    return encode_list


def _map(number: int, item_type: str) -> _Append:
    tag = messages.tag(number)
    encode_item = _single(2, item_type)

    def encode_map(value: dict[str, Any], memo: Memo) -> bytes:
        if item_type == "string":
            pairs = [_pair_of_texts(key, item) for key, item in value.items()]
        else:
            pairs = [_key(key) + encode_item(item, memo) for key, item in value.items()]
        return b"".join([tag + size_of(pair) + pair for pair in pairs])

    return encode_map


@functools.lru_cache(maxsize=4096)
def _key(text: str) -> bytes:
    """Encode a string as field 1: the key of a map or the name of a variable, which many objects share."""
    return messages.entry(1, text.encode())


def _pair_of_texts(key: str, text: str) -> bytes:
    """Encode an entry of a map of strings, or a variable with a value."""
    return _short_pair(key, text) if len(text) <= _SHORT else _pair(key, text)


def _pair(key: str, text: str) -> bytes:
    content = text.encode()
    return _key(key) + b"\x12" + size_of(content) + content


_short_pair = functools.lru_cache(maxsize=4096)(_pair)
"""Each annotation of a pod is a variable too, and most are the same for all pods of an attempt."""


def _single(number: int, type_name: str) -> _Append:
    """Return a function that encodes one value of a field."""
    if type_name in ("bool", *_RANGES):
        return _number(number, type_name)
    tag = messages.tag(number)
    if type_name == "string":

        def encode_text(value: str, _: Memo) -> bytes:
            text = value.encode()
            return tag + size_of(text) + text

        return encode_text
    if type_name in _CONTENTS:
        encode_content = _CONTENTS[type_name]
        return lambda value, _: messages.entry(number, encode_content(value))
    encode_message: Callable[[Any, Memo], bytes] | None = None

    def encode_part(value: Any, memo: Memo) -> bytes:
        nonlocal encode_message
        if type_name == "core.v1.EnvVar" and len(value) == 2 and "value" in value:
            content = _pair_of_texts(value["name"], value["value"])
            return tag + size_of(content) + content
        key = id(value), type_name
        found = memo.get(key)
        if found is None:
            # Looked up late, because messages may contain each other.
            encode_message = encode_message or _message(type_name)
            found = memo[key] = (value, encode_message(value, memo))
        content = found[1]
        return tag + size_of(content) + content

    return encode_part


def _number(number: int, type_name: str) -> _Append:
    tag = messages.tag(number, messages.VARINT)
    python_type = bool if type_name == "bool" else int
    limit = _RANGES.get(type_name, 2)

    def encode_number(value: int, _: Memo) -> bytes:
        if type(value) is not python_type or not -limit <= value < limit:
            raise TypeError(f"{value!r} is not of the type {type_name}")
        return tag + messages.varint(value)

    return encode_number


# Types with a JSON form of their own


def _quantity(value: Any) -> bytes:
    text = str(value) if type(value) is int else value
    if not quantities.is_quantity(text):
        raise ValueError(f"{value!r} is not a quantity")
    return messages.entry(1, text.encode())


def _int_or_string(value: Any) -> bytes:
    if type(value) is int and -(2**31) <= value < 2**31:
        return b"\x08\x00\x10" + messages.varint(value)
    return b"\x08\x01" + messages.entry(3, value.encode())


def _time(value: str) -> bytes:
    moment = datetime.fromisoformat(value) - _EPOCH
    return b"\x08" + messages.varint(moment.days * 86400 + moment.seconds)


def _micro_time(value: str) -> bytes:
    nanos = datetime.fromisoformat(value).microsecond * 1000
    return _time(value) + b"\x10" + messages.varint(nanos)


_CONTENTS: dict[str, Callable[[Any], bytes]] = {
    "bytes": lambda value: base64.b64decode(value, validate=True),
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
}
