"""Base classes of the model, the spelling of its fields in JSON, and manifests of Kubernetes objects."""

from typing import Any

import msgspec

Json = dict[str, Any]
"""A JSON object that Windlass passes on without reading all of it, e.g. a pod template. Never changed in place."""

_UPPERCASE_WORDS = {"uid": "UID", "ip": "IP"}


def wire_name(field: str) -> str:
    """Return the JSON name of a field: `pod_host_ip` → `podHostIP`. A trailing underscore (`type_`) is dropped."""
    first, *rest = field.rstrip("_").split("_")
    return first + "".join(_UPPERCASE_WORDS.get(word, word.capitalize()) for word in rest)


def manifest(api_version: str, kind: str, metadata: Json, **fields: Any) -> Json:
    """Return a Kubernetes object as JSON. `fields` are its other top-level fields, e.g. `spec` or `data`."""
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


class Dense(msgspec.Struct, frozen=True, rename=wire_name, gc=False):
    """A value that is encoded with all fields, as FrameworkController writes a status. None is encoded as null."""


class Sparse(msgspec.Struct, frozen=True, rename=wire_name, gc=False, omit_defaults=True):
    """A value that is encoded without fields that equal their default, as people write a spec."""
