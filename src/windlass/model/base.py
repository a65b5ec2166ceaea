"""How a Python field is spelt on the wire."""

from typing import Any

import msgspec

Json = dict[str, Any]
"""A JSON object that Windlass carries without reading all of it, such as a pod template. Never changed in place."""

_UPPERCASE_WORDS = {"uid": "UID", "ip": "IP"}


def wire_name(field: str) -> str:
    """`pod_host_ip` → `podHostIP`, as the API has it. A trailing underscore only dodges a Python keyword."""
    first, *rest = field.rstrip("_").split("_")
    return first + "".join(_UPPERCASE_WORDS.get(word, word.capitalize()) for word in rest)


class Dense(msgspec.Struct, frozen=True, rename=wire_name, gc=False):
    """A value whose fields are all written out, absent ones as null: how the reference writes a status."""


class Sparse(msgspec.Struct, frozen=True, rename=wire_name, gc=False, omit_defaults=True):
    """A value that leaves out what has its default: how people write a spec."""
