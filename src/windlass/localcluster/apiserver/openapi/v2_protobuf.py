"""A Swagger 2.0 document as protobuf (gnostic's `openapi.v2.Document`), the only format that older kubectls read.

Only the parts of Swagger that the documents of this server use are supported. Any other key raises an error.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

# The media types that clients accept. The response has the second one: clients cannot parse the @ of the first.
MEDIA_TYPES = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
CONTENT_TYPE = MEDIA_TYPES[1]

_VARINT, _FIXED64, _DELIMITED = 0, 1, 2
_Encoder = Callable[[int, Any], bytes]


def encode(document: Mapping[str, Any]) -> bytes:
    return _fields("Document", document)


def _varint(value: int) -> bytes:
    # Negative numbers are encoded with 64 bits.
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _DELIMITED) + _varint(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _delimited(number, value.encode())


def _integer(number: int, value: int) -> bytes:
    """Encode an integer or a boolean."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    """Encode a value of any type as a message with its YAML. JSON is a subset of YAML."""
    return _delimited(number, _text(2, msgspec.json.encode(value).decode()))


def _type(number: int, value: str) -> bytes:
    return _delimited(number, _text(1, value))


def _message(name: str) -> _Encoder:
    return lambda number, value: _delimited(number, _fields(name, value))


def _each(encoder: _Encoder) -> _Encoder:
    return lambda number, values: b"".join(encoder(number, value) for value in values)


def _named(number: int, pairs: Iterable[tuple[str, Any]], encoder: _Encoder) -> bytes:
    """Encode a mapping as a list of messages, each with a name and a value."""
    return b"".join(_delimited(number, _text(1, name) + encoder(2, value)) for name, value in pairs)


def _mapping(encoder: _Encoder, inner: int = 1) -> _Encoder:
    """Return an encoder of a mapping in a message of its own."""
    return lambda number, value: _delimited(number, _named(inner, value.items(), encoder))


def _wrapped(name: str, inner: int = 1) -> _Encoder:
    """Return an encoder of a message inside another one, where it is field `inner`."""
    return lambda number, value: _delimited(number, _delimited(inner, _fields(name, value)))


def _additional_properties(number: int, value: Mapping[str, Any] | bool) -> bytes:
    if isinstance(value, bool):
        return _delimited(number, _integer(2, value))
    return _wrapped("Schema")(number, value)


def _parameter(number: int, value: Mapping[str, Any]) -> bytes:
    """Encode a parameter, wrapped in messages that state its location and that it is not a reference."""
    match value["in"]:
        case "body":
            parameter = _delimited(1, _fields("BodyParameter", value))
        case "query":
            parameter = _delimited(2, _delimited(3, _fields("QueryParameter", value)))
        case _:
            parameter = _delimited(2, _delimited(4, _fields("PathParameter", value)))
    return _delimited(number, _delimited(1, parameter))


def _strings(number: int, values: Iterable[str]) -> bytes:
    return _delimited(number, b"".join(_text(1, value) for value in values))


_schema = _message("Schema")
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_MESSAGES: dict[str, dict[str, tuple[int, _Encoder]]] = {
    "Document": {
        "swagger": (1, _text),
        "info": (2, _message("Info")),
        "paths": (8, _mapping(_message("PathItem"), inner=2)),
        "definitions": (9, _mapping(_schema)),
        "security": (12, _each(_mapping(_strings))),
        "securityDefinitions": (13, _mapping(_wrapped("ApiKeySecurity", 2))),
    },
    "Info": {"title": (1, _text), "version": (2, _text)},
    "ApiKeySecurity": {"type": (1, _text), "name": (2, _text), "in": (3, _text)},
    "PathItem": {
        **{method: (number, _message("Operation")) for number, method in enumerate(_METHODS, start=2)},
        "parameters": (9, _each(_parameter)),
    },
    "Operation": {
        "tags": (1, _each(_text)),
        "operationId": (5, _text),
        "produces": (6, _each(_text)),
        "consumes": (7, _each(_text)),
        "parameters": (8, _each(_parameter)),
        "responses": (9, _mapping(_wrapped("Response"))),
    },
    "BodyParameter": {
        "name": (2, _text),
        "in": (3, _text),
        "required": (4, _integer),
        "schema": (5, _schema),
    },
    "QueryParameter": {"in": (2, _text), "name": (4, _text), "type": (6, _text), "enum": (21, _each(_any))},
    "PathParameter": {"required": (1, _integer), "in": (2, _text), "name": (4, _text), "type": (5, _text)},
    "Response": {"description": (1, _text), "schema": (2, _wrapped("Schema"))},
    "Schema": {
        "$ref": (1, _text),
        "format": (2, _text),
        "title": (3, _text),
        "description": (4, _text),
        "multipleOf": (6, _double),
        "maximum": (7, _double),
        "exclusiveMaximum": (8, _integer),
        "minimum": (9, _double),
        "exclusiveMinimum": (10, _integer),
        "maxLength": (11, _integer),
        "minLength": (12, _integer),
        "pattern": (13, _text),
        "maxItems": (14, _integer),
        "minItems": (15, _integer),
        "uniqueItems": (16, _integer),
        "maxProperties": (17, _integer),
        "minProperties": (18, _integer),
        "required": (19, _each(_text)),
        "enum": (20, _each(_any)),
        "additionalProperties": (21, _additional_properties),
        "type": (22, _type),
        "items": (23, _wrapped("Schema")),
        "properties": (25, _mapping(_schema)),
    },
}
SCHEMA_KEYS = _MESSAGES["Schema"].keys()
# The number of the field with extensions (`x-…`) in each message.
_EXTENSIONS = {"Schema": 31, "Operation": 13, "PathItem": 10}


def _fields(name: str, value: Mapping[str, Any]) -> bytes:
    fields = _MESSAGES[name]
    encoded = []
    for key, part in value.items():
        if key in fields:
            number, encoder = fields[key]
            encoded.append(encoder(number, part))
        elif key.startswith("x-"):
            encoded.append(_named(_EXTENSIONS[name], [(key, part)], _any))
        else:
            raise ValueError(f"{name} in protobuf Swagger 2.0 has no field {key!r}")
    return b"".join(encoded)
