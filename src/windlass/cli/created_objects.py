"""Print objects that were created or would be created."""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.model.base import Json


def as_json(bodies: "Sequence[Json]") -> bytes:
    """Return JSON. Several objects become a List."""
    import msgspec

    whole = bodies[0] if len(bodies) == 1 else {"apiVersion": "v1", "kind": "List", "items": bodies}
    return msgspec.json.format(msgspec.json.encode(whole))


def as_yaml(body: "Json") -> str:
    """Return YAML in which Secrets and archives are shown by size. JSON has their contents."""
    from windlass.wire.yaml import dump as yaml_dump

    return yaml_dump.dump(_with_sizes(body)).decode()


def how_to_open(companion: str, job: str, namespace: str) -> str:
    """Return a line with the command that opens a companion."""
    return f"{job}: open {companion} with `windlass {companion} {job} -n {namespace}`"


def _with_sizes(body: "Json") -> "Json":
    fields = {"Secret": ("data", "stringData"), "ConfigMap": ("binaryData",)}.get(body["kind"], ())
    hidden = {
        field: {key: f"({_size(field, value)} bytes)" for key, value in body[field].items()}
        for field in fields
        if body.get(field)
    }
    return {**body, **hidden}


def _size(field: str, value: str) -> int:
    return len(value.encode()) if field == "stringData" else len(base64.b64decode(value))
