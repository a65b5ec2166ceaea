"""The types of Kubernetes' own kinds: which fields each has, what is in them, and which must be there.

The file is made by `tools/update_kubernetes_types.py` from a published package and never edited by hand.
"""

import functools
import pkgutil

import msgspec


class Type(msgspec.Struct, frozen=True):
    """`fields` maps a name to what it holds: a scalar, another type's name, `[]T` for lists or `{}T` for mappings.

    The scalars: string, bytes (in base64), integer, number, boolean, date-time, object (a mapping), any,
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
