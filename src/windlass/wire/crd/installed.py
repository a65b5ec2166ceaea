"""Inspect the CustomResourceDefinition of Frameworks in a cluster."""

from collections.abc import Iterator
from typing import Any

from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd.manifests import KEEP_UNKNOWN


def is_established(definition: Json) -> bool:
    return _condition(definition, "Established").get("status") == "True"


def why_not_established(definition: Json) -> str:
    """Return the server's message or reason; empty if it gives none."""
    for condition_type in ("NamesAccepted", "Established"):
        condition = _condition(definition, condition_type)
        if condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def is_deleting(definition: Json) -> bool:
    return bool(definition["metadata"].get("deletionTimestamp"))


def serves_version(definition: Json) -> bool:
    version = framework_version(definition)
    return version is not None and bool(version.get("served"))


def has_status_subresource(definition: Json) -> bool:
    version = framework_version(definition) or {}
    return (version.get("subresources") or {}).get("status") is not None


def framework_version(definition: Json) -> Json | None:
    versions = definition["spec"].get("versions") or ()
    return next((version for version in versions if version.get("name") == names.VERSION), None)


def dropped_fields(definition: Json, expected: Json) -> tuple[str, ...]:
    """Return the fields of `expected` that the server drops from objects while `definition` is installed."""
    return tuple(_dropped(_schema(definition), _schema(expected), ""))


def contains_spec(definition: Json, expected: Json) -> bool:
    """Return whether the spec contains the expected spec. It may also have defaults, or fields of a newer release.

    It never does on a server that drops some fields: `x-kubernetes-validations` before Kubernetes 1.25, and
    `selectableFields` before 1.31.
    """
    return _contains(definition["spec"], expected["spec"])


def _condition(definition: Json, condition_type: str) -> Json:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == condition_type), {})


def _schema(definition: Json) -> Json:
    version = framework_version(definition) or {}
    schema: Json = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _dropped(schema: Json, expected: Json, path: str) -> Iterator[str]:
    known = schema.get("properties") or {}
    keeps_unknown = bool(schema.get(KEEP_UNKNOWN))
    for name, inner in (expected.get("properties") or {}).items():
        field = f"{path}.{name}" if path else name
        if name in known:
            yield from _dropped(known[name], inner, field)
        elif not keeps_unknown:
            yield field
    if "items" in expected and "items" in schema:
        yield from _dropped(schema["items"], expected["items"], f"{path}[]")


def _contains(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            _contains(found.get(key), value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(found, list) and all(
            any(_contains(each, item) for each in found) for item in expected
        )
    return bool(found == expected)
