"""Objects that were created, or would be, as commands print them."""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.model.base import Json


def as_one(bodies: "Sequence[Json]") -> bytes:
    """JSON. Several are a List."""
    import msgspec

    whole = bodies[0] if len(bodies) == 1 else {"apiVersion": "v1", "kind": "List", "items": bodies}
    return msgspec.json.format(msgspec.json.encode(whole))


def as_yaml(body: "Json") -> str:
    """Secrets and archives are told by their sizes: nobody reads them here, and JSON has them."""
    from windlass.wire.yaml import dump as yaml_dump

    return yaml_dump.dump(_told_by_size(body)).decode()


def door(companion: str, job: str, namespace: str) -> str:
    """How somebody gets there."""
    return f"{job}: `windlass {companion} {job} -n {namespace}` opens its {companion}"


def _told_by_size(body: "Json") -> "Json":
    fields = {"Secret": ("data", "stringData"), "ConfigMap": ("binaryData",)}.get(body["kind"], ())
    hidden = {
        field: {key: f"({_size(field, value)} bytes)" for key, value in body[field].items()}
        for field in fields
        if body.get(field)
    }
    return {**body, **hidden}


def _size(field: str, value: str) -> int:
    return len(value.encode()) if field == "stringData" else len(base64.b64decode(value))
