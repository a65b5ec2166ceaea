"""Swagger 2.0 schemas of custom resources."""

from typing import Any

import pytest

from windlass.localcluster.apiserver.openapi import schemas
from windlass.localcluster.apiserver.openapi.schemas import Dialect

METADATA = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
TEXT = {"type": "string"}


# On the left a part of a definition's schema, on the right what a real kube-apiserver publishes.
@pytest.mark.parametrize(
    ("written", "published"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 10, "format": "int32", "default": 3},
            {"type": "integer", "minimum": 1, "maximum": 10, "format": "int32"},
        ),
        ({"type": "string", "nullable": True, "enum": ["red"]}, {"enum": ["red"]}),
        ({"x-kubernetes-int-or-string": True}, {"x-kubernetes-int-or-string": True}),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]},
            {"x-kubernetes-int-or-string": True},
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": TEXT}},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": TEXT},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"data": TEXT}},
            {
                "type": "object",
                "required": ["kind", "apiVersion"],
                "properties": {"apiVersion": TEXT, "data": TEXT, "kind": TEXT, "metadata": METADATA},
                "x-kubernetes-embedded-resource": True,
            },
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"name": TEXT}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-validations": [{"rule": "true"}],
            },
            {
                "type": "array",
                "items": {"type": "object", "properties": {"name": TEXT}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
        (
            {
                "type": "object",
                "oneOf": [{"required": ["a"]}],
                "properties": {"a": TEXT | {"not": {"enum": ["x"]}}},
            },
            {"type": "object", "properties": {"a": TEXT}},
        ),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": TEXT | {"nullable": True}, "b": TEXT},
            },
            {"type": "object", "required": ["b"], "properties": {"a": {}, "b": TEXT}},
        ),
        (
            {"type": "object", "nullable": True, "required": ["a"], "properties": {"a": TEXT}},
            {"required": ["a"]},
        ),
        ({"type": "object", "properties": {}}, {"type": "object"}),
    ],
)
def test_swagger_schemas_of_custom_resources(written: dict[str, Any], published: dict[str, Any]) -> None:
    whole = schemas.custom_schema({"type": "object", "properties": {"spec": written}}, Dialect.SWAGGER)
    assert whole == {
        "type": "object",
        "properties": {"apiVersion": TEXT, "kind": TEXT, "metadata": METADATA, "spec": published},
    }


@pytest.mark.parametrize("published", [{}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}])
def test_custom_kind_without_schema_has_no_properties(published: dict[str, Any]) -> None:
    assert schemas.custom_schema(published, Dialect.SWAGGER) == {"type": "object"}
