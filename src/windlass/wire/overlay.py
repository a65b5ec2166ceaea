"""The model written over an object that somebody else wrote: what the model does not know survives."""

import functools
from typing import Any

import msgspec

from windlass.model.base import Json
from windlass.model.completion import ContainerCompletionStatus
from windlass.model.framework import Framework, TaskRoleSpec
from windlass.model.status import Condition, TaskRoleStatus, TaskStatus
from windlass.wire import codec

_IDENTITY: dict[type[msgspec.Struct], str] = {
    TaskRoleSpec: "name",
    TaskRoleStatus: "name",
    TaskStatus: "index",
    ContainerCompletionStatus: "name",
    Condition: "type",
}
"""By which field two elements of a list are the same thing; it has the same name in the model and on the wire."""


def laid_over(raw: Json, framework: Framework) -> Json:
    """The raw object with the model's fields written over it: fields that the model does not know survive.

    What the model knows is replaced, or left out where the model leaves it out. A list has the elements that the model
    gives it, each laid over the raw element of the same identity. Neither argument is changed.
    """
    result: Json = msgspec.json.decode(codec.encode_framework(framework))
    _keep_unknown(_with_expanded_roles(raw), framework, result)
    return result


def _keep_unknown(raw: Json, value: msgspec.Struct, result: Json) -> None:
    """Put into `result`, which is `value` as JSON, what `raw` has beside it."""
    attributes = _attributes_by_key(type(value))
    for key, item in raw.items():
        if key not in attributes:
            result[key] = item
        elif isinstance(item, dict) and isinstance(part := getattr(value, attributes[key]), msgspec.Struct):
            _keep_unknown(item, part, result.setdefault(key, {}))
        elif isinstance(item, list) and (parts := _identified(getattr(value, attributes[key]))):
            _keep_unknown_of_each(item, parts, result[key])


def _keep_unknown_of_each(raw: list[Any], values: tuple[msgspec.Struct, ...], result: list[Json]) -> None:
    identity = _IDENTITY[type(values[0])]
    same = {item.get(identity): item for item in raw if isinstance(item, dict)}
    for value, written in zip(values, result, strict=True):
        if (before := same.get(getattr(value, identity))) is not None:
            _keep_unknown(before, value, written)


def _identified(values: Any) -> tuple[msgspec.Struct, ...]:
    has_identity = isinstance(values, tuple) and bool(values) and type(values[0]) in _IDENTITY
    return values if has_identity else ()


@functools.cache
def _attributes_by_key(kind: type[msgspec.Struct]) -> dict[str, str]:
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


def _with_expanded_roles(raw: Json) -> Json:
    """The same with the task role statuses in the open, so that the model can be laid over them."""
    status = raw.get("status") or {}
    attempt = status.get("attemptStatus") or {}
    compressed = attempt.get("taskRoleStatusesCompressed")
    if not isinstance(compressed, str) or attempt.get("taskRoleStatuses"):
        return raw
    roles = codec.expanded_roles(compressed)
    return {**raw, "status": {**status, "attemptStatus": {**attempt, "taskRoleStatuses": roles}}}
