"""`{{FC_TASK_INDEX}}` and its like in a pod template (statement 9).

All pods of a role are made from one template, so where its placeholders are is found out once (`find`), and filling
them in (`fill`) touches those places only. Keys are left alone: a key is a name that Kubernetes or its user gave.
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

_DEEPEST = 100
"""No field of a pod lies so deep. Further down nothing is looked for, so that no template exhausts the stack."""

Places = dict[Any, "Places"]
"""The keys and list indices that lead to placeholders. Empty: they are in the value itself, which is a string."""


def find(value: Any, depth: int = 0) -> Places | None:
    """Where the placeholders in a JSON value are; None if it has none."""
    if isinstance(value, str):
        return {} if _PLACEHOLDER.search(value) else None
    if depth == _DEEPEST:
        return None
    places: Places = {}
    for key, item in _items(value):
        inside = find(item, depth + 1)
        if inside is not None:
            places[key] = inside
    return places or None


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list):
        return enumerate(value)
    return ()


def fill(value: Any, places: Places | None, values: Mapping[str, str]) -> Any:
    """The JSON value with its placeholders replaced. What holds none is shared with the original, not copied."""
    if places is None:
        return value
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: values[found[1]], value)
    filled = value.copy()
    for key, inside in places.items():
        filled[key] = fill(value[key], inside, values)
    return filled
