"""Change the number of tasks of a running job.

The completion policy is updated in the same request: if two workers that both must succeed were scaled to four, the job
would otherwise complete when half of them have succeeded.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.client import lifecycle, lookup
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, InvalidJobError
from windlass.k8s.json_patch import require_version
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError
from windlass.kubeapi.resources import frameworks
from windlass.model.base import Json
from windlass.model.framework import MAX_TASK_NUMBER, CompletionPolicySpec, Framework, TaskRoleSpec
from windlass.wire import codec, diagnostics

_ATTEMPTS = 8
"""The controller may write the status of a busy job between our read and our patch, which then conflicts."""
_POLICY = "frameworkAttemptCompletionPolicy"


class ScalePlan(msgspec.Struct, frozen=True):
    """The changes of a spec and their descriptions."""

    operations: tuple[Json, ...]
    """A JSON patch; empty if nothing changes."""
    notes: tuple[str, ...]


async def scale(connection: Connection, name: str, wanted: Mapping[str, int]) -> lifecycle.Change:
    """Raises InvalidJobError for invalid numbers or roles, CompletedError, and what `lookup.find` raises."""
    for _ in range(_ATTEMPTS):
        framework = await lookup.find(connection, name)
        lifecycle.require_active(framework, "scaled")
        planned = plan_scaling(framework, wanted)
        said = "; ".join(planned.notes)
        if not planned.operations:
            return lifecycle.Change(framework, f"{name}: {said}", has_happened=False)
        try:
            return lifecycle.Change(await _send(connection, framework, planned), f"{name}: {said}")
        except ConflictError:
            continue
    raise ClientError(
        f"cannot scale {name}: it was changed {_ATTEMPTS} times meanwhile. Run the command again."
    )


async def _send(connection: Connection, framework: Framework, planned: ScalePlan) -> Framework:
    version = require_version(framework.metadata.resource_version)
    request = requests.json_patch(
        frameworks(framework.group),
        connection.namespace,
        framework.name,
        msgspec.json.encode([version, *planned.operations]),
        field_manager=lifecycle.FIELD_MANAGER,
    )
    return codec.decode_framework(await connection.send(request))


def plan_scaling(framework: Framework, wanted: Mapping[str, int]) -> ScalePlan:
    """Raises InvalidJobError."""
    operations: list[Json] = []
    notes: list[str] = []
    positions = {role.name: at for at, role in enumerate(framework.spec.task_roles)}
    for name, number in wanted.items():
        if name not in positions:
            known = tuple(positions)
            raise InvalidJobError(
                f"{framework.name} has no role {diagnostics.quoted(name)}. {diagnostics.did_you_mean(name, known)}"
            )
        if not 0 <= number <= MAX_TASK_NUMBER:
            raise InvalidJobError(f"{name}={number}: expected a number of tasks from 0 to {MAX_TASK_NUMBER}")
        at = positions[name]
        for field, value, note in _changes(framework.spec.task_roles[at], number):
            operations.append({"op": "add", "path": f"/spec/taskRoles/{at}/{field}", "value": value})
            notes.append(note)
        if framework.spec.task_roles[at].task_number == number:
            notes.append(f"{name} already has {number} tasks")
    return ScalePlan(tuple(operations), tuple(notes))


def _changes(role: TaskRoleSpec, new: int) -> Iterator[tuple[str, Any, str]]:
    """Yield the changed fields of a role with their new values and descriptions."""
    old, policy = role.task_number, role.framework_attempt_completion_policy
    if old == new:
        return
    yield "taskNumber", new, f"scaled {role.name} from {old} to {new} tasks"
    for field, value, becomes in (
        ("minSucceededTaskCount", policy.min_succeeded_task_count, _succeeded(policy, old, new)),
        ("minFailedTaskCount", policy.min_failed_task_count, _failed(policy, old, new)),
    ):
        if value != becomes:
            yield f"{_POLICY}/{field}", becomes, f"changed its {field} from {value} to {becomes}"


def _succeeded(policy: CompletionPolicySpec, old: int, new: int) -> int:
    """Return the new minSucceededTaskCount: all tasks if it was all before, and never more than there are tasks.

    It does not change when a role is scaled to 0.
    """
    least = policy.min_succeeded_task_count
    if least <= 0 or new == 0:
        return least
    meant_all = least >= old
    return new if meant_all else min(least, new)


def _failed(policy: CompletionPolicySpec, old: int, new: int) -> int:
    """Return the new minFailedTaskCount. A single failure that ends the job still does."""
    least = policy.min_failed_task_count
    if least <= 1 or new == 0:
        return least
    meant_all = least == old
    return new if meant_all else min(least, new)
