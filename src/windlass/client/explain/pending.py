"""What the tasks of a job wait for, in the words of whoever keeps them waiting. Pure."""

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
"""The event by which the controller says that the API server did not take a pod."""
STARTING = "its containers are being started"
NO_POD = "its pod is not made yet"


class Wait(msgspec.Struct, frozen=True):
    """What some tasks wait for."""

    tasks: tuple[str, ...]
    reason: str


def waits(framework: Framework, pods: Sequence[Pod], events: Sequence[Event]) -> tuple[Wait, ...]:
    """Tasks that wait for the same are named together. In the order of the tasks."""
    by_name = {pod.name: pod for pod in pods}
    found: dict[str, list[str]] = {}
    for task, status in tasks.statuses(framework):
        reason = "" if status.deletion_pending else _reason(status, by_name, events)
        if reason:
            found.setdefault(reason, []).append(str(task))
    return tuple(Wait(tuple(names), reason) for reason, names in found.items())


def _reason(status: TaskStatus, pods: dict[str, Pod], events: Sequence[Event]) -> str:
    """Empty for a task that does not wait."""
    pod = _pod_of(status.attempt_status, pods)
    if status.state is RUNNING and pod is not None:
        return _why_restarted(pod)
    if status.state not in _WAITING:
        return ""
    if pod is None:
        return _last(events, lambda event: event.reason == _POSTPONED) or NO_POD
    said = next(filter(None, (tasks.waiting_reason(pod, name) for name in pod.main_containers)), "")
    is_said_by_a_word = said in ("", "ContainerCreating", "PodInitializing")
    if is_said_by_a_word:
        return _last(events, lambda event: event.is_warning and event.uid == pod.uid) or STARTING
    return said


def _pod_of(attempt: TaskAttemptStatus, pods: dict[str, Pod]) -> Pod | None:
    """That of this attempt, which the status may not know yet."""
    pod = pods.get(attempt.pod_name)
    if pod is None or attempt.pod_uid not in (None, pod.uid):
        return None
    is_of_attempt = attempt.pod_uid is not None or pod.attempt == attempt.id
    return pod if is_of_attempt else None


def _why_restarted(pod: Pod) -> str:
    """Of a pod that runs: a container that is down for now."""
    for container in pod.status.container_statuses:
        waiting, last = container.state.waiting, container.last_state.terminated
        if waiting is None:
            continue
        ended = f", after it ended with {last.exit_code}" if last is not None else ""
        times = f"container {container.name} was restarted {container.restart_count} times{ended}"
        return f"{waiting.reason}: {times}"
    return ""


def _last(events: Sequence[Event], is_meant: Callable[[Event], bool]) -> str:
    found = [event for event in events if is_meant(event)]
    return f"{found[-1].reason}: {found[-1].message}" if found else ""


def named(names: Sequence[str], most: int = 4) -> str:
    """`worker-0, worker-1, worker-2 and 5 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
