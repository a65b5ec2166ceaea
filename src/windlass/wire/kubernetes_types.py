"""The types of Kubernetes' own kinds: which fields each has, what is in them, and which must be there.

The file is made by `tools/update_kubernetes_types.py` from a published package and never edited by hand.
"""

import functools
from importlib import resources

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
    data = resources.files(__package__).joinpath("kubernetes_types.json").read_bytes()
    return msgspec.json.decode(data, type=_File).types
