"""Find out why tasks are pending, without I/O."""

from collections.abc import Callable, Sequence

import msgspec

from windlass.client import tasks
from windlass.client.events import Event
from windlass.client.pods import Pod
from windlass.model.framework import Framework
from windlass.model.states import CREATION_PENDING, CREATION_REQUESTED, PREPARING, RUNNING
from windlass.model.status import TaskAttemptStatus, TaskStatus

_WAITING = (CREATION_PENDING, CREATION_REQUESTED, PREPARING)
_POSTPONED = "Postponed"
"""Reason of the controller's event about a refused request, e.g. to create pods."""
STARTING = "its containers are starting"
NO_POD = "its pod is not created yet"


class PendingTasks(msgspec.Struct, frozen=True):
    """Tasks that are pending, or have a waiting container, for the same reason."""

    tasks: tuple[str, ...]
    reason: str


def pending_tasks(
    framework: Framework, pods: Sequence[Pod], events: Sequence[Event]
) -> tuple[PendingTasks, ...]:
    """Group pending tasks by reason, in the order of the tasks. Tasks that a scale-down deletes are left out."""
    by_name = {pod.name: pod for pod in pods}
    found: dict[str, list[str]] = {}
    for task, status in tasks.statuses(framework):
        reason = "" if status.deletion_pending else _reason(status, by_name, events)
        if reason:
            found.setdefault(reason, []).append(str(task))
    return tuple(PendingTasks(tuple(names), reason) for reason, names in found.items())


def _reason(status: TaskStatus, pods: dict[str, Pod], events: Sequence[Event]) -> str:
    """Return why the task is pending or a container of its pod is waiting; empty if neither is the case."""
    pod = _pod_of(status.attempt_status, pods)
    if status.state is RUNNING and pod is not None:
        return _restart_reason(pod)
    if status.state not in _WAITING:
        return ""
    if pod is None:
        return _last_message(events, lambda event: event.reason == _POSTPONED) or NO_POD
    reason = next(filter(None, (tasks.waiting_reason(pod, name) for name in pod.main_container_names)), "")
    is_unspecific = reason in ("", "ContainerCreating", "PodInitializing")
    if is_unspecific:
        return _last_message(events, lambda event: event.is_warning and event.uid == pod.uid) or STARTING
    return reason


def _pod_of(attempt: TaskAttemptStatus, pods: dict[str, Pod]) -> Pod | None:
    """Return the pod of this attempt, even if the status does not contain its UID yet."""
    pod = pods.get(attempt.pod_name)
    if pod is None or attempt.pod_uid not in (None, pod.uid):
        return None
    is_of_attempt = attempt.pod_uid is not None or pod.attempt == attempt.id
    return pod if is_of_attempt else None


def _restart_reason(pod: Pod) -> str:
    """Return why a container of a running pod is waiting, usually for its restart; empty if none is."""
    for container in pod.status.container_statuses:
        waiting, last = container.state.waiting, container.last_state.terminated
        if waiting is None:
            continue
        ended = f" after exit code {last.exit_code}" if last is not None else ""
        restarts = f"container {container.name} was restarted {container.restart_count} times{ended}"
        return f"{waiting.reason}: {restarts}"
    return ""


def _last_message(events: Sequence[Event], matches: Callable[[Event], bool]) -> str:
    found = [event for event in events if matches(event)]
    return f"{found[-1].reason}: {found[-1].message}" if found else ""


def shorten_names(names: Sequence[str], max_names: int = 4) -> str:
    """Return the names in a short form: `worker-0, worker-1, worker-2 and 5 more`."""
    if len(names) <= max_names:
        return ", ".join(names)
    return f"{', '.join(names[: max_names - 1])} and {len(names) - max_names + 1} more"
