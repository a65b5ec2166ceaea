"""Decides whether a status must be stored before the actions run or may be stored later, with the next change."""

import itertools
from collections.abc import Mapping, Sequence

from windlass.decide import start_order
from windlass.decide.types import Action, CreateConfigMap, CreatePod, CreateService
from windlass.model.framework import Framework, FrameworkSpec, TaskRoleSpec
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus

Tasks = Mapping[str, Sequence[TaskStatus]]


def may_wait(framework: Framework, new: FrameworkStatus, actions: Sequence[Action]) -> bool:
    """Return whether the status may be stored later: after a crash, the objects lead to the same decision."""
    if new.state is State.COMPLETED:
        return False
    before, after = _stored_tasks(framework.status, new), _tasks_by_role(new)
    return all(_may_precede_store(action, framework.spec, before, after) for action in actions)


def is_resumable(framework: Framework, unstored: FrameworkStatus | None) -> bool:
    """Return whether a decision can continue from the unstored status. It cannot if the unstored status
    has the ConfigMap of an attempt that was never stored: the attempt might start and end without a record."""
    return unstored is not None and _config_map_of(unstored) in (None, _config_map_of(framework.status))


def _config_map_of(status: FrameworkStatus | None) -> str | None:
    return None if status is None else status.attempt_status.config_map_uid


def _may_precede_store(action: Action, spec: FrameworkSpec, before: Tasks, after: Tasks) -> bool:
    match action:
        case CreateConfigMap() | CreateService():
            # The ConfigMap's annotations name its Framework and attempt, and all attempts share the Service.
            return True
        case CreatePod(role, index):
            # The pods of a gang are created in batches, and its tasks were stored before the first batch.
            stored = before.get(role, ())
            is_stored = index < len(stored) and stored[index] is after[role][index]
            return is_stored and _is_start_stored(spec.role(role), before, after)
    return False


def _is_start_stored(role: TaskRoleSpec | None, before: Tasks, after: Tasks) -> bool:
    """Return whether the stored status shows why the role may start. Otherwise, a task that the role waited for might
    run again after a crash if its pod, which proves its success, is deleted."""
    if role is None or any(map(start_order.has_started, before.get(role.name, ()))):
        return True
    awaited = {start.task_role for start in role.start_after}
    return all(
        old is new
        for name in awaited
        for old, new in itertools.zip_longest(before.get(name, ()), after.get(name, ()))
    )


def _stored_tasks(stored: FrameworkStatus | None, new: FrameworkStatus) -> Tasks:
    """Return the stored tasks by role; empty if the stored status has another ConfigMap."""
    if stored is None or stored.attempt_status.config_map_uid != new.attempt_status.config_map_uid:
        return {}
    return _tasks_by_role(stored)


def _tasks_by_role(status: FrameworkStatus) -> Tasks:
    return {role.name: role.task_statuses for role in status.attempt_status.roles}
