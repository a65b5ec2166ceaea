"""Decides which missing pods of a role may be created if the role limits its number of pods (B4)."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from windlass.model.framework import TaskRoleSpec
from windlass.model.states import COMPLETED, CREATION_PENDING
from windlass.model.status import TaskStatus


def limit(
    role: TaskRoleSpec | None,
    tasks: Iterable[TaskStatus],
    missing: list[TaskStatus],
    uncertain: AbstractSet[str],
) -> list[TaskStatus]:
    """Return the tasks whose pods may be created now, lowest indexes first. A task whose pod may exist, because its
    creation got no response, comes first. A task that waits for its retry keeps its place."""
    if role is None or role.parallelism is None:
        return missing
    active = active_count(tasks)
    ordered = sorted(missing, key=lambda task: (task.attempt_status.pod_name not in uncertain, task.index))
    return ordered[: max(0, role.parallelism - active)]


def active_count(tasks: Iterable[TaskStatus]) -> int:
    """Return the number of tasks whose pods count for the limit."""
    return sum(1 for task in tasks if task.state is not CREATION_PENDING and task.state is not COMPLETED)
