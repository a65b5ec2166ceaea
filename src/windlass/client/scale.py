"""Change the number of tasks of a job that has not completed.

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
from windlass.model import verdict
from windlass.model.base import Json
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import MAX_TASK_NUMBER, Framework, TaskRoleSpec
from windlass.wire import codec, diagnostics

_ATTEMPTS = 8
"""Maximum number of attempts. The patch conflicts if the controller writes the status between read and patch."""
_POLICY = "frameworkAttemptCompletionPolicy"


class ScalePlan(msgspec.Struct, frozen=True):
    """The changes of a spec, and messages about them."""

    operations: tuple[Json, ...]
    """A JSON patch; empty if nothing changes."""
    notes: tuple[str, ...]
    """One for each change, and one for each role that does not change."""


async def scale(connection: Connection, name: str, task_numbers: Mapping[str, int]) -> lifecycle.Change:
    """Set the numbers of tasks, by role. Raises InvalidJobError for invalid numbers or roles, CompletedError, and the
    errors of `lookup.find`."""
    for _ in range(_ATTEMPTS):
        framework = await lookup.find(connection, name)
        lifecycle.require_active(framework, "scaled")
        planned = plan_scaling(framework, task_numbers)
        message = "; ".join(planned.notes)
        if not planned.operations:
            return lifecycle.Change(framework, f"{name}: {message}")
        try:
            return lifecycle.Change(await _send(connection, framework, planned), f"{name}: {message}")
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


def plan_scaling(framework: Framework, task_numbers: Mapping[str, int]) -> ScalePlan:
    """Return the changes that set the numbers of tasks, by role. Raises InvalidJobError."""
    operations: list[Json] = []
    notes: list[str] = []
    elastic = requested_features(framework.metadata.annotations).elastic
    positions = {role.name: at for at, role in enumerate(framework.spec.task_roles)}
    for name, number in task_numbers.items():
        if name not in positions:
            hint = diagnostics.did_you_mean(name, tuple(positions))
            raise InvalidJobError(f"{framework.name} has no role {diagnostics.quoted(name)}. {hint}")
        if not 0 <= number <= MAX_TASK_NUMBER:
            raise InvalidJobError(f"{name}={number}: expected a number of tasks from 0 to {MAX_TASK_NUMBER}")
        at = positions[name]
        if name in elastic and not elastic[name].min <= number <= elastic[name].max:
            raise InvalidJobError(
                f"{name}={number}: {framework.name} is elastic, expected {elastic[name].min} to {elastic[name].max} "
                f"tasks. To stop the training for a while, use `windlass suspend {framework.name}`."
            )
        for field, value, note in _changes(framework.spec.task_roles[at], number, is_elastic=name in elastic):
            operations.append({"op": "add", "path": f"/spec/taskRoles/{at}/{field}", "value": value})
            notes.append(note)
        if framework.spec.task_roles[at].task_number == number:
            notes.append(f"{name} already has {verdict.count('task', number)}")
    return ScalePlan(tuple(operations), tuple(notes))


def _changes(role: TaskRoleSpec, new: int, *, is_elastic: bool) -> Iterator[tuple[str, Any, str]]:
    """Yield the changed fields of a role with their new values and descriptions.

    If a count of the policy equals the number of tasks, it is set to the new number, except a minFailedTaskCount of 1.
    Any other count is only reduced, to the new number if it exceeds it. Scaling to 0, or scaling an elastic role, keeps
    the policy.
    """
    old, policy = role.task_number, role.framework_attempt_completion_policy
    if old == new:
        return
    yield "taskNumber", new, f"scaled {role.name} from {old} to {verdict.count('task', new)}"
    if new == 0 or is_elastic:
        return
    succeeded, failed = policy.min_succeeded_task_count, policy.min_failed_task_count
    for field, count, is_changeable, means_all in (
        ("minSucceededTaskCount", succeeded, succeeded > 0, succeeded >= old),
        # If a single failure ended the job before, it still does.
        ("minFailedTaskCount", failed, failed > 1, failed == old),
    ):
        changed = new if means_all else min(count, new)
        if is_changeable and changed != count:
            yield f"{_POLICY}/{field}", changed, f"changed its {field} from {count} to {changed}"
