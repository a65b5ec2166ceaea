"""Decides which roles wait for other roles to start (B3)."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from windlass.model import names, verdict
from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    FrameworkAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.framework import FrameworkSpec, StartAfter, StartCondition, TaskRoleSpec
from windlass.model.pods import PodView
from windlass.model.states import COMPLETED, CREATION_PENDING
from windlass.model.status import TaskRoleStatus, TaskStatus

IsReady = Callable[[TaskStatus], bool]
_VERBS = {
    StartCondition.RUNNING: "run",
    StartCondition.READY: "be ready",
    StartCondition.SUCCEEDED: "succeed",
}


class Waiting(msgspec.Struct, frozen=True):
    """A condition that a role waits for."""

    role: str
    start: StartAfter
    needed: int
    unable: tuple[TaskStatus, ...]
    """Tasks that have completed without reaching the condition."""
    is_reachable: bool

    @property
    def reason(self) -> str:
        """Return e.g. `waiting for 2 ps to be ready`."""
        return f"waiting for {verdict.count(self.start.task_role, self.needed)} to {_VERBS[self.start.condition]}"


def waiting_roles(
    spec: FrameworkSpec, roles: Iterable[TaskRoleStatus], is_ready: IsReady
) -> Mapping[str, Waiting]:
    """Return the first unreached condition of each role that waits. A role of which a task has had a pod in this
    attempt does not wait again."""
    ordered = [role for role in spec.task_roles if role.start_after]
    if not ordered:
        return {}
    tasks = {role.name: role.task_statuses for role in roles}
    numbers = {role.name: role.task_number for role in spec.task_roles}
    found: dict[str, Waiting] = {}
    for role in ordered:
        if not any(map(has_started, tasks.get(role.name, ()))):
            waiting = _first_unreached(role, tasks, numbers, is_ready)
            if waiting is not None:
                found[role.name] = waiting
    return found


def ready_in(pods: Mapping[str, PodView]) -> IsReady:
    """Return the function that tells from the pods whether a task is ready."""

    def is_ready(task: TaskStatus) -> bool:
        pod = pods.get(task.attempt_status.pod_name)
        return pod is not None and pod.uid == task.attempt_status.pod_uid and pod.has_condition("Ready")

    return is_ready


def unreachable(waiting: Mapping[str, Waiting]) -> FrameworkAttemptCompletionStatus | None:
    """Return the completion status of an attempt in which a role waits for a condition that cannot be reached."""
    for each in waiting.values():
        if not each.is_reachable:
            task = each.unable[0]
            name = names.host_name(each.start.task_role, task.index)
            message = (
                f"{each.role} cannot start: it waits for {each.start.task_role} to "
                f"{_VERBS[each.start.condition]} (startAfter), but {name} has completed without"
            )
            return framework_completion(
                CompletionCode.START_CONDITION_UNREACHABLE,
                message,
                CompletionTrigger(
                    message=message, task_role_name=each.start.task_role, task_index=task.index
                ),
            )
    return None


def has_started(task: TaskStatus) -> bool:
    """Return whether the task has had a pod in this attempt."""
    return task.state is not CREATION_PENDING or task.retry_policy_status.total_retried_count > 0


def _first_unreached(
    role: TaskRoleSpec,
    tasks: Mapping[str, tuple[TaskStatus, ...]],
    numbers: Mapping[str, int],
    is_ready: IsReady,
) -> Waiting | None:
    for start in role.start_after:
        number = numbers.get(start.task_role, 0)
        needed = min(start.min_task_count or number, number)
        present = [task for task in tasks.get(start.task_role, ()) if not task.deletion_pending]
        reached, unable = 0, []
        for task in present:
            if _has_reached(start.condition, task, is_ready):
                reached += 1
            elif task.state is COMPLETED:
                unable.append(task)
        if reached < needed:
            is_reachable = number - len(unable) >= needed
            return Waiting(role.name, start, needed, tuple(unable), is_reachable)
    return None


def _has_reached(condition: StartCondition, task: TaskStatus, is_ready: IsReady) -> bool:
    match condition:
        case StartCondition.RUNNING:
            return task.run_time is not None or _has_succeeded(task)
        case StartCondition.READY:
            return is_ready(task) or _has_succeeded(task)
        case StartCondition.SUCCEEDED:
            return _has_succeeded(task)


def _has_succeeded(task: TaskStatus) -> bool:
    completion = task.attempt_status.completion_status
    return task.state is COMPLETED and completion is not None and not completion.type.is_failed
