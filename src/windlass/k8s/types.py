"""The types of the built-in kinds of Kubernetes: fields, their types, and required fields.

`tools/update_kubernetes_types.py` generates `types.json` from a published package.
"""

import functools
import pkgutil
import re

import msgspec

_NAME = re.compile(r"(?:[A-Z][a-z]+)?V([0-9]+(?:(?:alpha|beta)[0-9]+)?)([A-Z].*)")


class Type(msgspec.Struct, frozen=True):
    """`fields` maps the name of a field to its type: a scalar, the name of a type, `[]T` for lists or `{}T` for maps.

    Scalars: string, bytes (in base64), integer, number, boolean, date-time, object (a mapping), any,
    int-or-string, quantity.
    """

    fields: dict[str, str]
    required: tuple[str, ...]


class _File(msgspec.Struct, frozen=True):
    kubernetes: str
    types: dict[str, Type]


@functools.cache
def types() -> dict[str, Type]:
    data = pkgutil.get_data(__name__, "types.json")
    assert data is not None  # noqa: S101 — it is installed with this file
    return msgspec.json.decode(data, type=_File).types


def version_and_name(type_name: str) -> tuple[str, str]:
    """Return the version and the Go name of a type: `V1Pod` is Pod in v1, `RbacV1Subject` is Subject in v1."""
    match = _NAME.fullmatch(type_name)
    if match is None:
        raise ValueError(f"not the name of a Kubernetes type such as V1Pod: {type_name!r}")
    return f"v{match[1]}", match[2]
