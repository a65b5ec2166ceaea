"""Swagger as protobuf, field by field. The field numbers are those of gnostic's openapi.v2.Document."""

from typing import Any

import pytest

from windlass.localcluster.apiserver.openapi import v2_protobuf

Fields = list[tuple[int, Any]]


def number(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the position after it."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def fields(data: bytes) -> Fields:
    found: Fields = []
    at = 0
    while at < len(data):
        tag, at = number(data, at)
        if tag & 7 == 0:
            value, at = number(data, at)
            found.append((tag >> 3, value))
            continue
        length, at = (8, at) if tag & 7 == 1 else number(data, at)
        found.append((tag >> 3, data[at : at + length]))
        at += length
    return found


def reach(data: bytes, *path: int) -> list[Any]:
    """Return all values at a path of field numbers, from the outermost message inwards."""
    values: list[Any] = [data]
    for step in path:
        values = [value for message in values for found, value in fields(message) if found == step]
    return values


SCHEMA = {
    "type": "object",
    "description": "ä",
    "required": ["a", "b"],
    "properties": {
        "a": {"$ref": "#/definitions/B"},
        "b": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 300,
            "maxItems": -1,
            "uniqueItems": True,
        },
        "c": {"type": "object", "additionalProperties": {"format": "int64"}},
        "d": {"additionalProperties": False, "enum": ["x", 1]},
        "e": {"minimum": 1.5},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod"}],
}
BODY = {"name": "body", "in": "body", "required": True, "schema": {"$ref": "#/definitions/A"}}
SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "T", "version": "V"},
    "paths": {
        "/a/{name}": {
            "parameters": [{"name": "name", "in": "path", "required": True, "type": "string"}],
            "patch": {
                "operationId": "patchA",
                "consumes": ["application/json", "application/yaml"],
                "parameters": [{"name": "dryRun", "in": "query", "type": "string", "enum": ["All"]}, BODY],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}}},
                "x-kubernetes-action": "patch",
            },
        }
    },
    "definitions": {"A": SCHEMA, "B": {}},
    "securityDefinitions": {"Token": {"type": "apiKey", "name": "authorization", "in": "header"}},
    "security": [{"Token": []}],
}
PATCH = (8, 2, 2, 8)
PARAMETER = (*PATCH, 8, 1)
PROPERTY = (9, 1, 2, 25, 1, 2)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ((1,), [b"2.0"]),
        ((2, 1), [b"T"]),
        ((2, 2), [b"V"]),
        ((8, 2, 1), [b"/a/{name}"]),
        ((8, 2, 2, 9, 1, 2, 4, 4), [b"name"]),
        ((8, 2, 2, 9, 1, 2, 4, 1), [1]),
        ((8, 2, 2, 9, 1, 2, 4, 5), [b"string"]),
        ((*PATCH, 5), [b"patchA"]),
        ((*PATCH, 7), [b"application/json", b"application/yaml"]),
        ((*PARAMETER, 2, 3, 4), [b"dryRun"]),
        ((*PARAMETER, 2, 3, 2), [b"query"]),
        ((*PARAMETER, 2, 3, 6), [b"string"]),
        ((*PARAMETER, 2, 3, 21, 2), [b'"All"']),
        ((*PARAMETER, 1, 2), [b"body"]),
        ((*PARAMETER, 1, 5, 1), [b"#/definitions/A"]),
        ((*PATCH, 9, 1, 1), [b"200"]),
        ((*PATCH, 9, 1, 2, 1, 1), [b"OK"]),
        ((*PATCH, 9, 1, 2, 1, 2, 1, 1), [b"#/definitions/A"]),
        ((*PATCH, 13, 1), [b"x-kubernetes-action"]),
        ((*PATCH, 13, 2, 2), [b'"patch"']),
        ((9, 1, 1), [b"A", b"B"]),
        ((9, 1, 2, 4), ["ä".encode()]),
        ((9, 1, 2, 22, 1), [b"object"]),
        ((9, 1, 2, 19), [b"a", b"b"]),
        ((9, 1, 2, 25, 1, 1), [b"a", b"b", b"c", b"d", b"e"]),
        ((*PROPERTY, 1), [b"#/definitions/B"]),
        ((*PROPERTY, 23, 1, 22, 1), [b"string"]),
        ((*PROPERTY, 15), [300]),
        ((*PROPERTY, 14), [2**64 - 1]),
        ((*PROPERTY, 16), [1]),
        ((*PROPERTY, 21, 1, 2), [b"int64"]),
        ((*PROPERTY, 21, 2), [0]),
        ((*PROPERTY, 20, 2), [b'"x"', b"1"]),
        ((*PROPERTY, 9), [b"\0\0\0\0\0\0\xf8?"]),
        ((9, 1, 2, 31, 1), [b"x-kubernetes-group-version-kind"]),
        ((9, 1, 2, 31, 2, 2), [b'[{"group":"","kind":"Pod"}]']),
        ((13, 1, 1), [b"Token"]),
        ((13, 1, 2, 2, 2), [b"authorization"]),
        ((12, 1, 1), [b"Token"]),
        ((12, 1, 2), [b""]),
    ],
)
def test_document_is_encoded_as_gnostic_protobuf(path: tuple[int, ...], values: list[Any]) -> None:
    assert reach(v2_protobuf.encode(SWAGGER), *path) == values


def test_unsupported_key_raises() -> None:
    with pytest.raises(ValueError, match=r"Schema in protobuf Swagger 2\.0 has no field 'nullable'"):
        v2_protobuf.encode({"definitions": {"A": {"nullable": True}}})
