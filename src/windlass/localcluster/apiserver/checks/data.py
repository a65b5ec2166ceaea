"""What ConfigMaps and Secrets have in common: their data."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics

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
        yield api_errors.forbidden_field("immutable", _FIXED)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield api_errors.forbidden_field(field, _FIXED)
