"""Placeholders such as `{{FC_TASK_INDEX}}` in a pod template (statement 9 of docs/behaviours.md).

All pods of a role have one template, so its placeholders are located once (`find`), and `fill` changes only these
places. FrameworkController replaces placeholders in the JSON text of the template, so placeholders in keys, e.g. of
labels, are replaced too.

In addition to those of FrameworkController there are `{{FC_FRAMEWORK_ATTEMPT_ID}}` and, for the index, a division, a
remainder and a sum: `{{FC_TASK_INDEX/4}}`, `{{FC_TASK_INDEX%4}}`, `{{FC_TASK_INDEX+2}}`, `{{FC_TASK_INDEX/4+2}}`.
"""

import operator
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
    names.FRAMEWORK_ATTEMPT_ID,
)

_PLACEHOLDER = re.compile(
    r"\{\{(?:("
    + "|".join(NAMES)
    + r")|"
    + names.TASK_INDEX
    + r"(?:([/%])([1-9][0-9]{0,4}))?(?:\+([0-9]{1,5}))?)\}\}"
)

MAX_DEPTH = 100
"""Maximum depth of the search, so that no template exhausts the stack. No field of a pod is nested this deep."""

Places = dict[Any, "Places | None"]
"""A tree of the keys and list indexes that lead to placeholders. An empty dict stands for a string with placeholders.
None below a key means that only the key has placeholders."""


def find(value: Any, depth: int = 0) -> Places | None:
    """Return the places of the placeholders in a JSON value; None if it has none."""
    if isinstance(value, str):
        return {} if _PLACEHOLDER.search(value) else None
    if depth == MAX_DEPTH:
        return None
    places: Places = {}
    for key, item in _items(value):
        nested = find(item, depth + 1)
        if nested is not None or (isinstance(key, str) and _PLACEHOLDER.search(key)):
            places[key] = nested
    return places or None


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        # As in FrameworkController, a key with placeholders sorts after other keys, so that it overrides a key that is
        # equal to it after the replacement.
        return sorted(value.items(), key=operator.itemgetter(0))
    if isinstance(value, list):
        return enumerate(value)
    return ()


def fill(value: Any, places: Places | None, values: Mapping[str, str]) -> Any:
    """Return the JSON value with its placeholders replaced. Parts without placeholders are shared, not copied."""
    if places is None:
        return value
    if isinstance(value, str):
        return _replaced(value, values)
    copy = value.copy()
    for key, nested in places.items():
        replaced = _replaced(key, values) if isinstance(key, str) else key
        if replaced != key:
            del copy[key]
        copy[replaced] = fill(value[key], nested, values)
    return copy


def _replaced(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: _value(found, values), text)


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    name, operation, divisor, summand = found.groups()
    if name is not None:
        return values[name]
    number = int(values[names.TASK_INDEX])
    if operation == "/":
        number //= int(divisor)
    elif operation == "%":
        number %= int(divisor)
    return str(number + int(summand or 0))
