"""Mask values that may be secret, e.g. passwords, in the spec of a job: see `may_be_secret`."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.client.submit.shell_variables import MASK, may_be_secret, without_secrets
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.wire import codec

_DROPPED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that repeats the spec, as JSON."""
_KINDS = {
    "configMapKeyRef": "ConfigMap",
    "secretKeyRef": "Secret",
    "configMapRef": "ConfigMap",
    "secretRef": "Secret",
}


class Variable(msgspec.Struct, frozen=True):
    """An environment variable: its value, or the object that has the value."""

    name: str
    """Empty for all keys of the object."""
    value: str = ""
    source: str = ""
    """The object or the field that has the value, e.g. `key token of the Secret digits`; empty if the spec has it."""


def framework_manifest(framework: Framework) -> Json:
    """Return the Framework without its status and with masked values."""
    manifest: Json = msgspec.json.decode(
        codec.encode_framework(msgspec.structs.replace(framework, status=None))
    )
    manifest.pop("status", None)
    manifest["metadata"].get("annotations", {}).pop(_DROPPED_ANNOTATION, None)
    masked: Json = _masked(manifest)
    return masked


def _masked(value: Any) -> Any:
    match value:
        case {"name": str(name), "value": str(text)} if may_be_secret(name, text):
            return {**value, "value": MASK}
        case dict():
            return {key: _masked(each) for key, each in value.items()}
        case list():
            return list(map(_masked, value))
        case str():
            return without_secrets(value)
    return value


def variables(container: Mapping[str, Any]) -> Iterator[Variable]:
    """Yield the environment variables of a container whose values are masked already."""
    for each in container.get("envFrom") or ():
        for key, reference in each.items():
            if key in _KINDS:
                kept = f"all keys of the {_KINDS[key]} {reference.get('name', '')}"
                yield Variable(
                    "", source=f"{kept} with the prefix {each['prefix']}" if each.get("prefix") else kept
                )
    for each in container.get("env") or ():
        yield Variable(each.get("name", ""), each.get("value", ""), _source(each.get("valueFrom") or {}))


def _source(value_from: Mapping[str, Any]) -> str:
    for kind, reference in value_from.items():
        if kind in _KINDS:
            return f"key {reference.get('key', '')} of the {_KINDS[kind]} {reference.get('name', '')}"
        return f"{reference.get('fieldPath') or reference.get('resource', '')} of the pod"
    return ""
