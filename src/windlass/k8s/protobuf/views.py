"""Decodes typed views of objects, lists and watch events. The fields that a view does not have are skipped.

A view is a msgspec struct that also decodes the JSON of the object, with the same result. Views of labels and
annotations are structs whose fields are the keys.
"""

import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from windlass.k8s.protobuf import messages
from windlass.k8s.protobuf.messages import MAGIC, DecodeError, Field, Label, read_varint

T = TypeVar("T")
_Decode = Callable[[bytes, int, int], Any]
"""Decodes the value between two positions. None means that the field is absent."""
_PARTIAL = "PartialObjectMetadata"
OPTIONAL = Label.OPTIONAL
_VERSION = 6
"""Number of the field resourceVersion in the metadata."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Decoder(Generic[T]):
    """Decodes objects of one kind, or their metadata, to a view."""

    def __init__(self, view: type[T], api_version: str, kind: str) -> None:
        self.kind = kind
        self._view = view
        self._message = messages.message_name(api_version, kind)

    @functools.cached_property
    def _decode(self) -> _Decode:
        """The function that decodes the message. It is made at the first use, because the table is large."""
        return _message(self._view, self._message)

    def decode(self, data: bytes) -> T:
        """Decode an object. Raise DecodeError for malformed data, and for an object of another kind."""
        try:
            found = messages.open_envelope(data)
            # The items of a list have no type.
            if found.kind not in ("", self.kind, _PARTIAL):
                raise DecodeError(f"expected {self.kind}, found {found.kind}")
            if found.end > len(data):
                raise DecodeError("truncated")
            view: T = self._decode(data, found.start, found.end)
        except (IndexError, TypeError, UnicodeDecodeError, OverflowError) as error:
            raise DecodeError(f"malformed protobuf: {error}") from error
        return view


class _Slot(NamedTuple):
    """How the value of a field gets into the view."""

    name: str
    decode: _Decode
    label: Label
    """MAP: the function returns a pair, and pairs become a dictionary. REPEATED: values become a tuple."""


def _message(view: Any, message: str) -> _Decode:
    """Return a function that decodes a message to a view."""
    slots: dict[int, _Slot] = {}
    fields = {field.encode_name: field for field in msgspec.structs.fields(view)}
    for number, field in messages.table()[message].items():
        if field.name in fields and field.label is not Label.INLINE:
            tag, slot = _slot(number, field, fields[field.name])
            slots[tag] = slot
    collected = tuple(
        (slot.name, _collector(fields, slot)) for slot in slots.values() if slot.label is not Label.OPTIONAL
    )
    find = slots.get

    def decode(data: bytes, position: int, end: int) -> Any:
        values = _decode_fields(find, data, position, end)
        for name, collect in collected:
            if name in values:
                values[name] = collect(values[name])
        return view(**values)

    return decode


def _decode_fields(  # noqa: C901 — calls would double its time
    find: Callable[[int], _Slot | None], data: bytes, position: int, end: int
) -> dict[str, Any]:
    """Return the fields that have a slot; those of maps and lists as a list of values."""
    # Most fields are skipped, so this loop is written for speed: it reads varints of one byte itself.
    values: dict[str, Any] = {}
    while position < end:
        tag = data[position]
        if tag > 0x7F:
            tag, position = read_varint(data, position)
        else:
            position += 1
        wire_type = tag & 7
        if wire_type == 2:
            size = data[position]
            if size > 0x7F:
                size, position = read_varint(data, position)
            else:
                position += 1
            start = position
            position += size
            slot = find(tag)
            if slot is None:
                continue
            if position > end:
                break
            name, decode_value, label = slot
            value = decode_value(data, start, position)
        elif wire_type == 0:
            value = data[position]
            if value > 0x7F:
                value, position = read_varint(data, position)
            else:
                position += 1
            slot = find(tag)
            if slot is None:
                continue
            name, decode_value, label = slot
            value = decode_value(data, value, 0)
        elif wire_type in (1, 5):
            position += 8 if wire_type == 1 else 4
            continue
        else:
            raise DecodeError(f"unknown wire type {wire_type}")
        if value is None:
            continue
        if label is OPTIONAL:
            values[name] = value
        elif name in values:
            values[name].append(value)
        else:
            values[name] = [value]
    if position != end:
        raise DecodeError("truncated")
    return values


def _collector(fields: Mapping[str, msgspec.structs.FieldInfo], slot: _Slot) -> Callable[[list[Any]], Any]:
    """Return a function that makes the value of a field from the values of its occurrences."""
    if slot.label is Label.REPEATED:
        return tuple
    keyed = _keyed(fields, slot.name)
    return dict if keyed is None else lambda pairs: keyed(**dict(pairs))


def _keyed(fields: Mapping[str, msgspec.structs.FieldInfo], name: str) -> Any:
    """Return the struct whose fields are the keys of a map; None for a dictionary."""
    found = next(field for field in fields.values() if field.name == name)
    return found.type if _is_struct(found.type) else None


def _slot(number: int, field: Field, shown: msgspec.structs.FieldInfo) -> tuple[int, _Slot]:
    """Return the tag of a field and its slot."""
    bytes_tag = number << 3 | messages.BYTES
    omits_empty = field.label is Label.OMITEMPTY
    if field.label is Label.MAP:
        keys = None
        if _is_struct(shown.type):
            keys = {item.encode_name.encode(): item.name for item in msgspec.structs.fields(shown.type)}
        return bytes_tag, _Slot(shown.name, _pair(keys), Label.MAP)
    if field.label is Label.REPEATED:
        (item_type, _) = get_args(_present(shown.type))
        return bytes_tag, _Slot(shown.name, _value(item_type, field.type, omits_empty=False), Label.REPEATED)
    if field.type in ("bool", "int32", "int64"):
        decode = _number(field.type, omits_empty=omits_empty)
        return number << 3 | messages.VARINT, _Slot(shown.name, decode, OPTIONAL)
    return bytes_tag, _Slot(shown.name, _value(shown.type, field.type, omits_empty=omits_empty), OPTIONAL)


def _value(shown: Any, type_name: str, *, omits_empty: bool) -> _Decode:
    if type_name == "string":
        return _text_if_any if omits_empty else _text
    if type_name in ("meta.v1.Time", "meta.v1.MicroTime"):
        return _time
    return _message(_present(shown), type_name)


def _present(shown: Any) -> Any:
    """Return T for `T | None`."""
    if get_origin(shown) in (Union, UnionType):
        return next(each for each in get_args(shown) if each is not type(None))
    return shown


def _text(data: bytes, start: int, end: int) -> str:
    return data[start:end].decode()


def _text_if_any(data: bytes, start: int, end: int) -> str | None:
    return data[start:end].decode() if start < end else None


def _number(type_name: str, *, omits_empty: bool) -> _Decode:
    def decode(_: bytes, number: int, __: int) -> Any:
        if omits_empty and number == 0:
            return None
        return number != 0 if type_name == "bool" else messages.signed(number)

    return decode


def _time(data: bytes, start: int, end: int) -> datetime | None:
    if start == end:
        return None
    if data[start] != 0x08:
        raise DecodeError("a time without seconds")
    seconds, position = read_varint(data, start + 1)
    nanos = 0
    if position < end and data[position] == 0x10:
        nanos, position = read_varint(data, position + 1)
    if position != end:
        raise DecodeError("a time with unknown fields")
    if seconds == nanos == 0:
        return None
    return _EPOCH + timedelta(0, messages.signed(seconds), nanos // 1000)


def _pair(names: Mapping[bytes, str] | None) -> _Decode:
    """Return a function that decodes an entry of a map of strings. `names` are the fields of a view by key; other keys
    are skipped. Without names, no key is."""

    def decode(data: bytes, start: int, end: int) -> tuple[str, str] | None:
        # Go writes the key before the value. Most have less than 128 bytes.
        if names is not None and end - start > 2 and data[start] == 0x0A:
            size = data[start + 1]
            if size < 0x80:
                place = start + 2 + size
                name = names.get(data[start + 2 : place])
                if name is None and place <= end:
                    return None
                if (
                    name is not None
                    and end - place > 2
                    and data[place] == 0x12
                    and end - place == data[place + 1] + 2
                ):
                    return name, data[place + 2 : end].decode()
        parts: dict[int, bytes] = {1: b"", 2: b""}
        for number, found in messages.places(data, start, end):
            if isinstance(found, int):
                raise DecodeError("an entry of a map is not text")
            parts[number] = data[slice(*found)]
        if names is None:
            return parts[1].decode(), parts[2].decode()
        return (names[parts[1]], parts[2].decode()) if parts[1] in names else None

    return decode


def _is_struct(shown: Any) -> bool:
    return isinstance(shown, type) and issubclass(shown, msgspec.Struct)


# Lists and watch events


class ListView(NamedTuple):
    resource_version: str
    continue_token: str
    items: list[bytes]
    """Objects without a type."""


def decode_list(data: bytes) -> ListView:
    """Split a list of any kind. Raise DecodeError."""
    found = messages.open_envelope(data)
    if not found.kind.endswith("List"):
        raise DecodeError(f"expected a list, found {found.kind or 'an object without a type'}")
    version = token = b""
    items = []
    for number, value in messages.places(data, found.start, found.end):
        if isinstance(value, int) or value[1] > found.end:
            raise DecodeError("a list has a malformed field")
        if number == 2:
            items.append(_without_type(data[slice(*value)]))
        elif number == 1:
            parts = dict(messages.entries(data[slice(*value)]))
            version, token = _bytes(parts.get(2, b"")), _bytes(parts.get(3, b""))
    return ListView(_decoded(version), _decoded(token), items)


def _without_type(content: bytes) -> bytes:
    return MAGIC + messages.entry(messages.RAW, content)


def decode_event(frame: bytes) -> tuple[str, bytes]:
    """Return the type and the object of a watch event. Raise DecodeError."""
    parts = dict(messages.entries(frame))
    raw = dict(messages.entries(_bytes(parts.get(2, b""))))
    return _decoded(_bytes(parts.get(1, b""))), _bytes(raw.get(1, b""))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise DecodeError("expected bytes, found a number")
    return value


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"not text: {error}") from error


def version_of(data: bytes) -> str:
    """Return the resourceVersion of an object of any kind."""
    found = messages.open_envelope(data)
    for number, value in messages.places(data, found.start, found.end):
        if number == 1 and isinstance(value, tuple):
            for inner, place in messages.places(data, *value):
                if inner == _VERSION and isinstance(place, tuple):
                    return _decoded(data[slice(*place)])
            return ""
    raise DecodeError("the object has no metadata")
