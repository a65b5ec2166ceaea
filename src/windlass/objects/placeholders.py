"""Placeholders such as `{{FC_TASK_INDEX}}` in a pod template (statement 9 of docs/behaviours.md).

All pods of a role have one template, so its placeholders are located once (`find`), and `fill` changes only these
places. Keys are not changed: they are names that Kubernetes or the user has chosen.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from windlass.model import names

NAMES = (
    names.FRAMEWORK_NAMESPACE,
    names.FRAMEWORK_NAME,
    names.TASKROLE_NAME,
    names.TASK_INDEX,
    names.CONFIGMAP_NAME,
    names.POD_NAME,
)

_PLACEHOLDER = re.compile(r"\{\{(" + "|".join(NAMES) + r")\}\}")

MAX_DEPTH = 100
"""Maximum depth of the search, so that no template exhausts the stack. No field of a pod is nested this deep."""

Places = dict[Any, "Places"]
"""The keys and list indexes that lead to placeholders. Empty: the value itself is a string with placeholders."""


def find(value: Any, depth: int = 0) -> Places | None:
    """Return the places of the placeholders in a JSON value; None if it has none."""
    if isinstance(value, str):
        return {} if _PLACEHOLDER.search(value) else None
    if depth == MAX_DEPTH:
        return None
    places: Places = {}
    for key, item in _items(value):
        nested = find(item, depth + 1)
        if nested is not None:
            places[key] = nested
    return places or None


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list):
        return enumerate(value)
    return ()


def fill(value: Any, places: Places | None, values: Mapping[str, str]) -> Any:
    """Return the JSON value with its placeholders replaced. Parts without placeholders are shared, not copied."""
    if places is None:
        return value
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: values[found[1]], value)
    copy = value.copy()
    for key, nested in places.items():
        copy[key] = fill(value[key], nested, values)
    return copy
