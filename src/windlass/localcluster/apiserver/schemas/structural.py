"""Compiled schemas of custom resources: the structural OpenAPI schemas of apiextensions.k8s.io/v1.

A schema is compiled to functions that prune, default and validate (`structural_checks`). A part of a schema that
has no effect is compiled to None, so that preserved subtrees are not traversed.

`x-kubernetes-validations` (CEL rules) are not evaluated: objects that violate one are accepted, as by Kubernetes before
1.25.
"""

from collections.abc import Callable
from typing import Any

from windlass.k8s import json_patch
from windlass.localcluster.apiserver.schemas import structural_checks, typed
from windlass.localcluster.apiserver.schemas.structural_checks import JsonSchema

# Removes unknown fields and returns their paths relative to the value: `.name`, `[0].name`.
_Prune = Callable[[Any], list[str]]
_Fill = Callable[[Any], None]

_IDENTITY = ("apiVersion", "kind", "metadata")
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_METADATA = typed.TypedSchema("V1ObjectMeta", {})


class StructuralSchema:
    """The openAPIV3Schema of one version of a custom resource, which must be structural.

    The object's own apiVersion, kind and metadata are validated, but neither pruned nor defaulted.
    """

    def __init__(self, openapi: JsonSchema) -> None:
        self.validate = structural_checks.compile_validation(openapi)
        properties = {
            key: value for key, value in openapi.get("properties", {}).items() if key not in _IDENTITY
        }
        # apiVersion, kind and metadata are neither pruned nor defaulted.
        preserved: JsonSchema = {key: {_PRESERVES: True} for key in _IDENTITY}
        body = {**openapi, "properties": {**properties, **preserved}}
        self._prune = _compile_prune(body)
        self._fill = _compile_fill(body)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove unknown fields in place, and return their paths.

        Nulls are also removed, but not reported, if the schema of their field is not nullable and has no default.
        """
        return [path[1:] for path in self._prune(obj)] if self._prune else []

    def default(self, obj: dict[str, Any]) -> None:
        """Set constant defaults in place."""
        if self._fill:
            self._fill(obj)


Schema = typed.TypedSchema | StructuralSchema


def _compile_prune(schema: JsonSchema, *, keeps_unknown: bool = False) -> _Prune | None:
    """Compile a pruning function. The items of a list that preserves unknown fields preserve them, too."""
    keeps_unknown = keeps_unknown or bool(schema.get(_PRESERVES))
    if schema.get("type") == "array" or "items" in schema:
        prune_item = _compile_prune(schema.get("items") or {}, keeps_unknown=keeps_unknown)
        return prune_item and _compile_prune_list(prune_item)
    if schema.get("type") == "object" or schema.get("properties"):
        return _compile_prune_object(schema, keeps_unknown)
    return None


def _compile_prune_object(schema: JsonSchema, keeps_unknown: bool) -> _Prune | None:
    properties: dict[str, JsonSchema] = schema.get("properties") or {}
    prune_by_key = {key: _compile_prune(value) for key, value in properties.items()}
    if schema.get(_EMBEDDED):
        prune_by_key |= {"apiVersion": None, "kind": None, "metadata": _prune_metadata}
    children = tuple((key, prune) for key, prune in prune_by_key.items() if prune is not None)
    never_null = {key for key, value in properties.items() if _drops_null(value)}
    additional = schema.get("additionalProperties")
    others_never_null = isinstance(additional, dict) and _drops_null(additional)
    prune_others = _compile_prune_others(additional, keeps_unknown, frozenset(prune_by_key))
    if not (children or never_null or others_never_null or prune_others):
        return None

    def prune(obj: Any) -> list[str]:
        if type(obj) is not dict:
            return []
        dropped = prune_others(obj) if prune_others is not None else []
        if None in obj.values():
            for key in [key for key, value in obj.items() if value is None]:
                if key in never_null or (others_never_null and key not in prune_by_key):
                    del obj[key]
        for key, prune_child in children:
            if key in obj and (paths := prune_child(obj[key])):
                dropped += [f".{key}{path}" for path in paths]
        return dropped

    return prune


def _compile_prune_others(additional: Any, keeps_unknown: bool, listed: frozenset[str]) -> _Prune | None:
    """Compile a function that prunes the fields that `properties` does not list."""
    if additional is None:
        return None if keeps_unknown else lambda obj: _drop_unlisted(obj, listed)
    # `additionalProperties: true` keeps every field of the mapping, but prunes all fields inside their values.
    prune_value = _compile_prune(additional) if isinstance(additional, dict) else _prune_all
    if prune_value is None:
        return None

    def prune(obj: Any) -> list[str]:
        others = [(key, value) for key, value in obj.items() if key not in listed]
        return [f".{key}{path}" for key, value in others for path in prune_value(value)]

    return prune


def _drop_unlisted(obj: dict[str, Any], listed: frozenset[str]) -> list[str]:
    unlisted = [] if obj.keys() <= listed else [key for key in obj if key not in listed]
    for key in unlisted:
        del obj[key]
    return [f".{key}" for key in unlisted]


def _compile_prune_list(prune_item: _Prune) -> _Prune:
    def prune(items: Any) -> list[str]:
        if type(items) is not list:
            return []
        return [f"[{index}]{path}" for index, item in enumerate(items) for path in prune_item(item)]

    return prune


def _prune_all(value: Any) -> list[str]:
    """Remove all fields of the mappings in a value without a schema, and return their paths."""
    dropped: list[str] = []
    if type(value) is dict:
        dropped = [f".{key}" for key in value]
        value.clear()
    elif type(value) is list:
        dropped = [f"[{index}]{path}" for index, one in enumerate(value) for path in _prune_all(one)]
    return dropped


def _prune_metadata(metadata: Any) -> list[str]:
    return [f".{path}" for path in _METADATA.prune(metadata)]


def _drops_null(schema: JsonSchema) -> bool:
    return not schema.get("nullable") and schema.get("default") is None


def _compile_fill(schema: JsonSchema) -> _Fill | None:
    if schema.get("items"):
        return _compile_fill_elements(schema["items"], list)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return _compile_fill_elements(additional, dict)
    return _compile_fill_object(schema.get("properties") or {})


def _compile_fill_object(properties: dict[str, JsonSchema]) -> _Fill | None:
    constants = tuple(
        (key, value["default"], not value.get("nullable"))
        for key, value in properties.items()
        if value.get("default") is not None
    )
    fill_by_key = {key: _compile_fill(value) for key, value in properties.items()}
    children = tuple((key, fill) for key, fill in fill_by_key.items() if fill is not None)
    if not constants and not children:
        return None

    def fill(obj: Any) -> None:
        if type(obj) is not dict:
            return
        for key, constant, replaces_null in constants:
            if key not in obj or (replaces_null and obj[key] is None):
                obj[key] = _copied(constant)
        for key, fill_child in children:
            if key in obj:
                fill_child(obj[key])

    return fill


def _compile_fill_elements(schema: JsonSchema, container: type[Any]) -> _Fill | None:
    """Compile a function that defaults the values of a map or the items of a list."""
    fill_element = _compile_fill(schema)
    null_replacement = None if schema.get("nullable") else schema.get("default")
    if fill_element is None and null_replacement is None:
        return None

    def fill(obj: Any) -> None:
        if type(obj) is not container:
            return
        for key, value in obj.items() if container is dict else enumerate(obj):
            if value is None and null_replacement is not None:
                value = obj[key] = _copied(null_replacement)
            if fill_element is not None:
                fill_element(value)

    return fill


def _copied(constant: Any) -> Any:
    return json_patch.deep_copy(constant) if isinstance(constant, (dict, list)) else constant
