"""Adapts roles and tasks to the spec (statements 36 to 39).

`resize_roles` is called before the tasks are updated, `drop_deleted_tasks` afterwards: a task to remove has to end
before it is dropped. `copy_timeouts` is called until the Framework has completed, and while it is being
deleted, because users shorten a timeout to force the deletion of pods on a lost node, also while the attempt ends. A
task marked for deletion stays marked even if its role is scaled up again, because users may have seen the mark.
"""

import operator
from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from windlass.decide import initial_status
from windlass.model.framework import Framework, FrameworkSpec, TaskRoleSpec
from windlass.model.status import TaskRoleStatus, TaskStatus

T = TypeVar("T")


def resize_roles(
    framework: Framework, roles: tuple[TaskRoleStatus, ...], attempt_id: int, now: datetime
) -> tuple[TaskRoleStatus, ...]:
    """Return the roles adapted to the spec: missing roles and tasks are added, and the tasks with the highest indexes
    are marked for deletion if there are too many."""
    task_roles = framework.spec.task_roles
    if len(task_roles) == len(roles) and all(map(_matches_spec, task_roles, roles)):
        return roles
    specs = {spec.name: spec for spec in task_roles}
    rescaled = [_rescale_role(framework, specs.get(role.name), role, attempt_id, now) for role in roles]
    existing = {role.name for role in roles}
    added = [
        initial_status.task_role(framework, spec, attempt_id, now)
        for spec in specs.values()
        if spec.name not in existing
    ]
    return same_if_unchanged([*rescaled, *added], roles)


def _matches_spec(spec: TaskRoleSpec, role: TaskRoleStatus) -> bool:
    """Return whether the role matches its spec. The tasks are not read, only counted."""
    return spec.name == role.name and spec.task_number == len(role.task_statuses)


def _rescale_role(
    framework: Framework, spec: TaskRoleSpec | None, role: TaskRoleStatus, attempt_id: int, now: datetime
) -> TaskRoleStatus:
    size = 0 if spec is None else spec.task_number
    tasks = role.task_statuses
    if len(tasks) > size and any(not task.deletion_pending for task in tasks[size:]):
        marked = (
            task if task.deletion_pending else msgspec.structs.replace(task, deletion_pending=True)
            for task in tasks[size:]
        )
        tasks = (*tasks[:size], *marked)
    elif len(tasks) < size:
        added = (
            initial_status.task(framework, role.name, index, attempt_id, now)
            for index in range(len(tasks), size)
        )
        tasks = (*tasks, *added)
    if tasks is role.task_statuses:
        return role
    return msgspec.structs.replace(role, task_statuses=tasks)


def copy_timeouts(spec: FrameworkSpec, roles: tuple[TaskRoleStatus, ...]) -> tuple[TaskRoleStatus, ...]:
    """Return the roles with the podGracefulDeletionTimeoutSec of the spec. A role that the spec no longer has keeps
    its last timeout."""
    timeouts = {role.name: role.task.pod_graceful_deletion_timeout_sec for role in spec.task_roles}
    updated = []
    for role in roles:
        timeout = timeouts.get(role.name, role.pod_graceful_deletion_timeout_sec)
        is_unchanged = timeout == role.pod_graceful_deletion_timeout_sec
        updated.append(
            role if is_unchanged else msgspec.structs.replace(role, pod_graceful_deletion_timeout_sec=timeout)
        )
    return same_if_unchanged(updated, roles)


def drop_deleted_tasks(
    framework: Framework, roles: tuple[TaskRoleStatus, ...], attempt_id: int, now: datetime
) -> tuple[tuple[TaskRoleStatus, ...], tuple[tuple[str, TaskStatus], ...]]:
    """Drop completed tasks that are marked for deletion, from the highest index downwards, or replace them if the spec
    contains them again. Drop empty roles that the spec no longer contains. Return the new roles, and the dropped or
    replaced tasks with the names of their roles."""
    sizes = {spec.name: spec.task_number for spec in framework.spec.task_roles}
    remaining: list[TaskRoleStatus] = []
    dropped: list[tuple[str, TaskStatus]] = []
    for role in roles:
        size = sizes.get(role.name, 0)
        new = _drop_from_role(framework, role, size, attempt_id, now)
        if new is not role:
            new_ids = {id(task) for task in new.task_statuses}
            dropped.extend((role.name, task) for task in role.task_statuses if id(task) not in new_ids)
        if role.name in sizes or new.task_statuses:
            remaining.append(new)
    return same_if_unchanged(remaining, roles), tuple(dropped)


def _drop_from_role(
    framework: Framework, role: TaskRoleStatus, size: int, attempt_id: int, now: datetime
) -> TaskRoleStatus:
    if not any(_is_deleted(task) for task in role.task_statuses):
        return role
    tasks = list(role.task_statuses)
    while len(tasks) > size and _is_deleted(tasks[-1]):
        tasks.pop()
    # A deleted task below the new size is replaced by a new instance.
    tasks = [
        initial_status.task(framework, role.name, task.index, attempt_id, now)
        if task.index < size and _is_deleted(task)
        else task
        for task in tasks
    ]
    remaining = same_if_unchanged(tasks, role.task_statuses)
    return role if remaining is role.task_statuses else msgspec.structs.replace(role, task_statuses=remaining)


def same_if_unchanged(new: Sequence[T], old: tuple[T, ...]) -> tuple[T, ...]:
    """Return `old` if both have the same objects, so that callers can detect a change by identity."""
    is_unchanged = len(new) == len(old) and all(map(operator.is_, new, old))
    return old if is_unchanged else tuple(new)


def _is_deleted(task: TaskStatus) -> bool:
    return task.deletion_pending and task.is_completed
