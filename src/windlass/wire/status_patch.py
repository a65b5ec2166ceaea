"""Compute the JSON patch from a stored status to the next one.

A patch contains only the changes where possible. Its first operation sets the resourceVersion, so that a concurrent
update makes the server answer 409. A `test` operation would make it answer 422.
"""

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.k8s.json_patch import require_version
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskRoleStatus,
    TaskStatus,
)
from windlass.wire import codec

MAX_OPERATIONS = 2000
"""The server accepts at most 10,000, and applies them one by one."""

_ENCODER = msgspec.json.Encoder()
_COMPARED_BY_FIELD: tuple[type[msgspec.Struct], ...] = (
    FrameworkStatus,
    FrameworkAttemptStatus,
    TaskRoleStatus,
)
"""Types whose fields are compared one by one. Lists of roles and tasks are compared item by item. Other values are
replaced as a whole."""
_IDENTITY: dict[type, str] = {TaskRoleStatus: "name", TaskStatus: "index"}
"""The field that identifies an item of a list."""


def status_patch(
    framework: Framework, status: FrameworkStatus, *, compress: bool, threshold: int | None = None
) -> bytes:
    """Return the patch that changes the status of a stored Framework to `status`."""
    if framework.status is None:
        return full_status_patch(framework, status, compress=compress, threshold=threshold)
    stored = codec.compress_status(status, threshold) if compress else status
    has_same_roles = _have_same_identities(
        framework.status.attempt_status.task_role_statuses, status.attempt_status.task_role_statuses
    )
    if stored is not status or not has_same_roles:
        # If the roles differ, a patch of only the uncompressed field would succeed even if the stored status is
        # compressed, and would leave the compressed field in place.
        return _encoded(framework, _with_whole_attempt(framework.status, stored))
    operations: list[Json] = []
    for operation in _differences("/status", framework.status, status):
        operations.append(operation)
        if len(operations) == MAX_OPERATIONS:
            return _encoded(framework, _with_whole_attempt(framework.status, status))
    return _encoded(framework, operations)


def full_status_patch(
    framework: Framework, status: FrameworkStatus, *, compress: bool, threshold: int | None = None
) -> bytes:
    """Return a patch that replaces the whole status, whatever is stored."""
    stored = codec.compress_status(status, threshold) if compress else status
    return _encoded(framework, [_set("/status", stored)])


def _encoded(framework: Framework, operations: list[Json]) -> bytes:
    return _ENCODER.encode([require_version(framework.metadata.resource_version), *operations])


def _set(path: str, value: Any) -> Json:
    """Return an `add` operation, which also replaces an existing field."""
    return {"op": "add", "path": path, "value": value}


def _with_whole_attempt(old: FrameworkStatus, new: FrameworkStatus) -> list[Json]:
    """Return operations that replace the attempt as a whole and other fields as needed."""
    return [
        *_differences("/status", old, msgspec.structs.replace(new, attempt_status=old.attempt_status)),
        _set("/status/attemptStatus", new.attempt_status),
    ]


def _differences(path: str, old: msgspec.Struct, new: msgspec.Struct) -> Iterator[Json]:
    for field, key in _fields(type(new)):
        before, after = getattr(old, field), getattr(new, field)
        if before is after or after is msgspec.UNSET:
            continue
        place = f"{path}/{key}"
        if isinstance(after, _COMPARED_BY_FIELD):
            yield from _differences(place, before, after)
        elif _have_same_identities(before, after):
            yield from _item_differences(place, before, after)
        elif before != after:
            yield _set(place, after)


def _item_differences(
    path: str, old: tuple[msgspec.Struct, ...], new: tuple[msgspec.Struct, ...]
) -> Iterator[Json]:
    for position, (before, after) in enumerate(zip(old, new, strict=True)):
        if before is after:
            continue
        place = f"{path}/{position}"
        if isinstance(after, _COMPARED_BY_FIELD):
            yield from _differences(place, before, after)
        elif before != after:
            # At a position of a list, `add` would insert.
            yield {"op": "replace", "path": place, "value": after}


def _have_same_identities(old: Any, new: Any) -> bool:
    """Return whether two lists contain the same roles or tasks, at least one, in the same order."""
    is_list = isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new) > 0
    identity = _IDENTITY.get(type(new[0])) if is_list else None
    if identity is None:
        return False
    return all(
        before is after or getattr(before, identity) == getattr(after, identity)
        for before, after in zip(old, new, strict=True)
    )


@functools.cache
def _fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
