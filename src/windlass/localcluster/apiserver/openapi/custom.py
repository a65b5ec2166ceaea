"""The published OpenAPI schemas of custom resources, from the schema in their definition.

OpenAPI 3.0 supports everything that a definition can contain. Swagger 2.0 does not, and kubectl rejects a document
with unsupported parts: those are dropped, so that kubectl validates less. The server validates the whole schema.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_SWAGGER_KEYS = frozenset(
    {
        "title",
        "description",
        "type",
        "format",
        "pattern",
        "enum",
        "required",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    }
)
_SUBSCHEMAS = ("items", "additionalProperties")
_TEXT: Schema = {"type": "string"}


def as_swagger(published: Mapping[str, Any], object_metadata: Schema) -> Schema:
    # kubectl rejects every field that a non-empty `properties` does not list.
    if published.get("x-kubernetes-preserve-unknown-fields") or not published:
        return {"type": "object"}
    return _with_object_fields(_with_embedded(_swagger(published), object_metadata), object_metadata)


def as_openapi(published: Mapping[str, Any], object_metadata: Schema) -> Schema:
    schema = {"type": "object", **published}
    return _with_object_fields(_with_embedded(schema, object_metadata), object_metadata)


def _swagger(schema: Mapping[str, Any]) -> Schema:
    is_nullable = bool(schema.get("nullable"))
    keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    kept = {key: value for key, value in schema.items() if key in _SWAGGER_KEYS}
    # A value of any type must have neither a type nor properties: kubectl would require them.
    if not is_nullable and not keeps_unknown:
        kept |= _parts(schema)
    elif isinstance(schema.get("additionalProperties"), bool):
        kept["additionalProperties"] = schema["additionalProperties"]
    is_array_of_unknown = kept.get("type") == "array" and "items" not in kept
    if is_nullable or is_array_of_unknown or (keeps_unknown and kept.get("type") == "object"):
        kept.pop("type", None)
    return _without_nullable_requirements(kept, schema)


def _parts(schema: Mapping[str, Any]) -> Schema:
    parts: Schema = {}
    for key in _SUBSCHEMAS:
        part = schema.get(key)
        if part is not None:
            parts[key] = _swagger(part) if isinstance(part, Mapping) else part
    # An empty `properties` would forbid every field.
    if schema.get("properties"):
        parts["properties"] = {name: _swagger(part) for name, part in schema["properties"].items()}
    return parts


def _without_nullable_requirements(kept: Schema, schema: Mapping[str, Any]) -> Schema:
    """Drop required fields that can be null: to kubectl, null is absent."""
    properties = schema.get("properties") or {}
    required = [name for name in kept.get("required", ()) if not properties.get(name, {}).get("nullable")]
    if required:
        return kept | {"required": required}
    return {key: value for key, value in kept.items() if key != "required"}


def _with_embedded(schema: Mapping[str, Any], object_metadata: Schema) -> Schema:
    """Return the schema with apiVersion, kind and metadata in all embedded resources."""
    filled = dict(schema)
    for key in _SUBSCHEMAS:
        if isinstance(schema.get(key), Mapping):
            filled[key] = _with_embedded(schema[key], object_metadata)
    if schema.get("properties"):
        filled["properties"] = {
            name: _with_embedded(part, object_metadata) for name, part in schema["properties"].items()
        }
    is_opaque = schema.get("x-kubernetes-preserve-unknown-fields") and "type" not in schema
    if not schema.get("x-kubernetes-embedded-resource") or is_opaque:
        return filled
    required = [*filled.get("required", ())]
    filled["required"] = required + [name for name in ("kind", "apiVersion") if name not in required]
    return _with_object_fields(filled, object_metadata)


def _with_object_fields(schema: Schema, object_metadata: Schema) -> Schema:
    declared = schema.get("properties") or {}
    properties = {
        **declared,
        "apiVersion": declared.get("apiVersion", _TEXT),
        "kind": declared.get("kind", _TEXT),
        "metadata": object_metadata,
    }
    return schema | {"properties": dict(sorted(properties.items()))}
