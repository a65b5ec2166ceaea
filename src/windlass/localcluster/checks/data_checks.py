"""What ConfigMaps and Secrets have in common: their data."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.localcluster import failures, formats
from windlass.localcluster.checks import basics
from windlass.localcluster.failures import Fault

LIMIT = 1024 * 1024
_FIXED = "field is immutable when `immutable` is set"


def key_faults(data: Iterable[str], field: str) -> Iterator[Fault]:
    for key in data:
        yield from basics.each(f"{field}[{key}]", key, formats.data_key(key))


def size(data: Mapping[str, str]) -> int:
    """Of data in base64, as it is without."""
    return sum(len(base64.b64decode(value)) for value in data.values())


def immutability_faults(new: Mapping[str, Any], old: Mapping[str, Any], *fields: str) -> Iterator[Fault]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield failures.forbidden_field("immutable", _FIXED)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield failures.forbidden_field(field, _FIXED)
