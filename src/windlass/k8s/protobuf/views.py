"""Decodes typed views of objects, lists, watch events and whole objects with the package `protobuf`, which is fast.

Its descriptors have only the fields of the views, so that its parser, written in C, skips all others. A view is a
msgspec struct that also decodes the JSON of the object, with the same result. Views of labels and annotations are
structs whose fields are the keys.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from types import UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from windlass.k8s.protobuf import messages, objects
from windlass.k8s.protobuf.messages import MAGIC, DecodeError, Field, Label

T = TypeVar("T")
_Read = Callable[[Any], Any]
"""Returns the value of one field of a parsed message, or its view."""
_PARTIAL = "PartialObjectMetadata"
_TIMES = ("meta.v1.Time", "meta.v1.MicroTime")
_WITH_OWN_JSON = (*_TIMES, "meta.v1.FieldsV1", "resource.Quantity", "intstr.IntOrString", "bytes")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCALARS = ("string", "bytes", "bool", "int32", "int64")
_OPTIONAL, _REPEATED = Label.OPTIONAL, Label.REPEATED
_AROUND_OBJECTS = {
    "Unknown": {1: Field("type", _OPTIONAL, "TypeMeta"), 2: Field("raw", _OPTIONAL, "bytes")},
    "TypeMeta": {2: Field("kind", _OPTIONAL, "string")},
    "List": {1: Field("metadata", _OPTIONAL, "ListMeta"), 2: Field("items", _REPEATED, "bytes")},
    "ListMeta": {2: Field("version", _OPTIONAL, "string"), 3: Field("token", _OPTIONAL, "string")},
    "Event": {1: Field("type", _OPTIONAL, "string"), 2: Field("object", _OPTIONAL, "RawExtension")},
    "RawExtension": {1: Field("raw", _OPTIONAL, "bytes")},
    "Object": {1: Field("metadata", _OPTIONAL, "Metadata")},
    "Metadata": {6: Field("version", _OPTIONAL, "string")},
}
"""The messages around objects, and the metadata of objects of any kind."""


class Decoder(Generic[T]):
    """Decodes objects of one kind, or their metadata, to a view."""

    def __init__(self, view: type[T], api_version: str, kind: str) -> None:
        self.kind = kind
        self._view = view
        self._message = messages.message_name(api_version, kind)

    @functools.cached_property
    def _functions(self) -> tuple[_Read, _Read]:
        """The parser and the function that makes the view. They are made at the first use, which takes a while."""
        fields: dict[str, dict[int, Field]] = {}
        read = _view(self._view, self._message, fields)
        return _parsers(fields)[self._message], read

    def decode(self, data: bytes) -> T:
        """Decode an object. Raise DecodeError for malformed data, and for an object of another kind."""
        kind, raw = _envelope(data)
        # The items of a list have no type.
        if kind not in ("", self.kind, _PARTIAL):
            raise DecodeError(f"expected {self.kind}, found {kind}")
        parse, read = self._functions
        found = _parsed(parse, raw)
        try:
            view: T = read(found)
        except (TypeError, UnicodeDecodeError, OverflowError) as error:
            raise DecodeError(f"malformed protobuf: {error}") from error
        return view


# Parsing


@functools.cache
def _around_objects() -> dict[str, _Read]:
    return _parsers(_AROUND_OBJECTS)


def _parsers(fields: Mapping[str, Mapping[int, Field]]) -> dict[str, _Read]:
    """Return the parser of each message. The names of messages may contain dots."""
    # The package is imported only for servers that send protobuf.
    package = importlib.import_module("google.protobuf.descriptor_pb2")
    # Since this edition, strings are checked to be UTF-8.
    file = package.FileDescriptorProto(name="views.proto", syntax="editions", edition=package.EDITION_2023)
    for name, numbers in fields.items():
        message = file.message_type.add(name=_identifier(name))
        for number, field in numbers.items():
            added = message.field.add(name=field.name, number=number)
            added.label = added.LABEL_OPTIONAL
            if field.label in (Label.REPEATED, Label.MAP):
                added.label = added.LABEL_REPEATED
            if field.label is Label.MAP:
                entry = message.nested_type.add(name=f"{field.name[0].upper()}{field.name[1:]}Entry")
                entry.options.map_entry = True
                for part_number, part in ((1, "key"), (2, "value")):
                    is_bytes = part == "value" and field.type == "bytes"
                    scalar = added.TYPE_BYTES if is_bytes else added.TYPE_STRING
                    entry.field.add(name=part, number=part_number, label=added.LABEL_OPTIONAL, type=scalar)
                added.type_name = f".{message.name}.{entry.name}"
            elif field.type in _SCALARS:
                added.type = getattr(added, f"TYPE_{field.type.upper()}")
            else:
                added.type_name = f".{_identifier(field.type)}"
    pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
    pool.Add(file)
    class_of = importlib.import_module("google.protobuf.message_factory").GetMessageClass
    return {name: class_of(pool.FindMessageTypeByName(_identifier(name))).FromString for name in fields}


def _identifier(name: str) -> str:
    return name.replace(".", "_")


def _parsed(parse: _Read, data: bytes) -> Any:
    try:
        return parse(data)
    except Exception as error:  # its DecodeError cannot be named before the package is imported
        raise DecodeError(f"malformed protobuf: {error}") from error


# Views


def _view(view: Any, message: str, fields: dict[str, dict[int, Field]]) -> _Read:
    """Return a function that makes a view of a parsed message. Add the fields that it reads to `fields`."""
    known = {field.name: (number, field) for number, field in messages.table()[message].items()}
    own = fields.setdefault(message, {})
    reads: list[_Read] = []
    for shown in msgspec.structs.fields(view):
        if shown.encode_name in known:
            number, field = known[shown.encode_name]
            own[number] = field
            reads.append(_field(field, shown, fields))
        else:
            reads.append(_always(shown.default))

    def read(found: Any) -> Any:
        return view(*[read_field(found) for read_field in reads])

    return read


def _field(field: Field, shown: msgspec.structs.FieldInfo, fields: dict[str, dict[int, Field]]) -> _Read:
    name, default = field.name, None if shown.required else shown.default
    get = attrgetter(name)
    if field.label is Label.MAP:
        return _map(get, shown)
    if field.label is Label.REPEATED:
        (item_type, _) = get_args(_present(shown.type))
        read_item = _view(item_type, field.type, fields) if _is_struct(item_type) else str
        return lambda found: tuple([read_item(item) for item in get(found)]) or default
    if field.type in _TIMES:
        fields.setdefault(field.type, messages.table()[field.type])
        return lambda found: _time(get(found)) if found.HasField(name) else default
    if field.type in messages.table():
        read = _view(_present(shown.type), field.type, fields)
        if shown.required:
            return lambda found: read(_required(found, name))
        return lambda found: read(get(found)) if found.HasField(name) else default
    if field.label is Label.OMITEMPTY:
        # In JSON, an empty value is absent.
        return get if not default else lambda found: get(found) or default
    return (
        get
        if default is not None and not default
        else lambda found: get(found) if found.HasField(name) else default
    )


def _always(value: Any) -> _Read:
    return lambda _: value


def _map(get: _Read, shown: msgspec.structs.FieldInfo) -> _Read:
    """Return a function that reads a map of strings: as a dictionary, or as a struct whose fields are the keys."""
    if not _is_struct(shown.type):
        return lambda found: dict(get(found))
    view: Any = shown.type
    keys = [(field.encode_name, field.default) for field in msgspec.structs.fields(view)]

    def read(found: Any) -> Any:
        value_of = get(found).get
        return view(*[value_of(key, default) for key, default in keys])

    return read


def _required(found: Any, name: str) -> Any:
    if not found.HasField(name):
        raise DecodeError(f"the object has no {name}")
    return getattr(found, name)


def _time(found: Any) -> datetime | None:
    seconds, nanos = found.seconds, found.nanos
    return _EPOCH + timedelta(0, seconds, nanos // 1000) if seconds or nanos else None


def _present(shown: Any) -> Any:
    """Return T for `T | None`."""
    if get_origin(shown) in (Union, UnionType):
        return next(each for each in get_args(shown) if each is not type(None))
    return shown


def _is_struct(shown: Any) -> bool:
    return isinstance(shown, type) and issubclass(shown, msgspec.Struct)


# Envelopes, lists and watch events


class ListView(NamedTuple):
    resource_version: str
    continue_token: str
    items: list[bytes]
    """Objects without a type."""


def _envelope(data: bytes) -> tuple[str, bytes]:
    """Return the kind and the message of an object."""
    if not data.startswith(MAGIC):
        raise DecodeError("the body is not Kubernetes' protobuf: it does not start with k8s\\0")
    found = _parsed(_around_objects()["Unknown"], data[len(MAGIC) :])
    return _text(found.type, "kind"), found.raw


def decode_list(data: bytes) -> ListView:
    """Split a list of any kind. Raise DecodeError."""
    kind, raw = _envelope(data)
    if not kind.endswith("List"):
        raise DecodeError(f"expected a list, found {kind or 'an object without a type'}")
    found = _parsed(_around_objects()["List"], raw)
    items = [MAGIC + messages.entry(messages.RAW, item) for item in found.items]
    return ListView(_text(found.metadata, "version"), _text(found.metadata, "token"), items)


def decode_event(frame: bytes) -> tuple[str, bytes]:
    """Return the type and the object of a watch event. Raise DecodeError."""
    found = _parsed(_around_objects()["Event"], frame)
    return _text(found, "type"), found.object.raw


def version_of(data: bytes) -> str:
    """Return the resourceVersion of an object of any kind."""
    found = _parsed(_around_objects()["Object"], _envelope(data)[1])
    if not found.HasField("metadata"):
        raise DecodeError("the object has no metadata")
    return _text(found.metadata, "version")


def _text(found: Any, name: str) -> str:
    try:
        text: str = getattr(found, name)
    except UnicodeDecodeError as error:
        raise DecodeError(f"not text: {error}") from error
    return text


# Whole objects


def as_json(data: bytes) -> dict[str, Any]:
    """Return an object of an API server as JSON, like `objects.decode`. Raise DecodeError or UnknownKindError."""
    found = messages.open_envelope(data)
    name = messages.message_name(found.api_version, found.kind)
    if name not in messages.table():
        raise objects.UnknownKindError(found.kind)
    parsed = _parsed(_whole(name), data[found.start : found.end])
    try:
        content = _json(parsed, name)
    except (UnicodeDecodeError, OverflowError, ValueError) as error:
        raise DecodeError(f"malformed protobuf: {error}") from error
    return {"kind": found.kind, "apiVersion": found.api_version, **content}


@functools.cache
def _whole(name: str) -> _Read:
    fields: dict[str, dict[int, Field]] = {}
    _add_message(name, fields)
    return _parsers(fields)[name]


def _add_message(name: str, fields: dict[str, dict[int, Field]]) -> None:
    """Add a message and those in it. Values with a JSON form of their own are not parsed."""
    if name in fields:
        return
    own = fields[name] = {}
    for number, field in messages.table()[name].items():
        if field.type in _WITH_OWN_JSON:
            own[number] = field._replace(type="bytes")
        elif field.type in _SCALARS:
            own[number] = field
        elif field.type in messages.table():
            own[number] = field
            _add_message(field.type, fields)


def _json(found: Any, name: str) -> dict[str, Any]:
    fields = messages.table()[name]
    content: dict[str, Any] = {}
    for descriptor, value in found.ListFields():
        field, label, type_name = fields[descriptor.number]
        if label is Label.MAP:
            content[field] = {key: _json_value(value[key], type_name) for key in sorted(value)}
        elif label is Label.REPEATED:
            content[field] = [_json_value(item, type_name) for item in value]
        elif label is Label.INLINE:
            content.update(_json_value(value, type_name))
        else:
            shown = _json_value(value, type_name)
            if shown is not None and (label is _OPTIONAL or shown not in ("", 0, False, {})):
                content[field] = shown
    return content


def _json_value(value: Any, type_name: str) -> Any:
    if type_name in _WITH_OWN_JSON:
        return objects.value_of(value, type_name)
    return value if type_name in _SCALARS else _json(value, type_name)
