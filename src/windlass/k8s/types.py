"""The types of the built-in kinds of Kubernetes: fields, their types, and required fields.

`tools/update_kubernetes_types.py` generates the file from a published package.
"""

import functools
import pkgutil

import msgspec


class Type(msgspec.Struct, frozen=True):
    """`fields` maps a name to its type: a scalar, the name of a type, `[]T` for lists or `{}T` for maps.

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
