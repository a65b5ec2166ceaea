"""Find out why tasks are pending."""

import contextlib
from collections.abc import Callable, Sequence

import msgspec

from windlass.client import lookup, plain_jobs, pods, tasks, waiting
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.pods import Pod
from windlass.client.views import JobState, JobView
from windlass.client.waiting import Waiting
from windlass.decide import parallelism, start_order
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.resources import PODS
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.states import CREATION_PENDING, CREATION_REQUESTED, PREPARING, RUNNING
from windlass.model.status import TaskAttemptStatus, TaskStatus
from windlass.wire.codec import InvalidFramework

_WAITING = (CREATION_PENDING, CREATION_REQUESTED, PREPARING)
_POSTPONED = "Postponed"
"""Reason of the controller's event about a refused request, e.g. to create pods."""
STARTING = "its containers are starting"
NO_POD = "its pod is not created yet"


class PendingTasks(msgspec.Struct, frozen=True):
    """Tasks that are pending, or have a waiting container, for the same reason."""

    tasks: tuple[str, ...]
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{shorten_names(self.tasks)}: {self.reason}"


def pending_tasks(
    framework: Framework, pods: Sequence[Pod], events: Sequence[Event]
) -> tuple[PendingTasks, ...]:
    """Group pending tasks by reason, in the order of the tasks. Tasks that a scale-down deletes are left out."""
    by_name = {pod.name: pod for pod in pods}
    found: dict[Waiting, list[str]] = {}
    held_back = _held_back_roles(framework, by_name) if framework.spec.has_rules else {}
    for task, status in tasks.statuses(framework):
        cause = (
            None if status.deletion_pending else _cause(status, by_name, events, held_back.get(task.role, ""))
        )
        if cause is not None and cause.text:
            found.setdefault(cause, []).append(str(task))
    return tuple(PendingTasks(tuple(each), cause.text, cause.advice) for cause, each in found.items())


def _held_back_roles(framework: Framework, pods: dict[str, Pod]) -> dict[str, str]:
    """Return why the controller does not create pods of a role yet, by role."""

    def is_ready(task: TaskStatus) -> bool:
        pod = _pod_of(task.attempt_status, pods)
        return pod is not None and pod.is_ready

    roles = framework.status.attempt_status.roles if framework.status is not None else ()
    found = {
        name: each.reason for name, each in start_order.waiting_roles(framework.spec, roles, is_ready).items()
    }
    for role in roles:
        spec = framework.spec.role(role.name)
        limit = spec.parallelism if spec is not None else None
        if limit is not None and parallelism.active_count(role.task_statuses) >= limit:
            found.setdefault(role.name, f"waiting for another {role.name} to end (parallelism {limit})")
    return found


def _cause(
    status: TaskStatus, pods: dict[str, Pod], events: Sequence[Event], held_back: str
) -> Waiting | None:
    """Return why the task is pending or a container of its pod is waiting; None if neither is the case."""
    is_running = status.state is RUNNING
    if not is_running and status.state not in _WAITING:
        return None
    pod = _pod_of(status.attempt_status, pods)
    if is_running:
        return None if pod is None else Waiting(_restart_reason(pod))
    if pod is None and held_back:
        return Waiting(held_back)
    if pod is None:
        return _last_message(events, lambda event: event.reason == _POSTPONED) or Waiting(NO_POD)
    causes = (waiting.of_container(pod, name) for name in pod.main_container_names)
    cause = next((each for each in causes if each.text), Waiting(""))
    if waiting.is_starting(cause.text):
        last = _last_message(events, lambda event: event.is_warning and event.uid == pod.uid)
        return last or Waiting(STARTING)
    return cause


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


def _last_message(events: Sequence[Event], matches: Callable[[Event], bool]) -> Waiting | None:
    found = [event for event in events if matches(event)]
    return waiting.describe(found[-1].reason, found[-1].message) if found else None


# Reasons in the views of jobs


async def with_reasons(
    connection: Connection,
    jobs: Sequence[tuple[Framework | InvalidFramework, JobView]],
    *,
    in_all_namespaces: bool = False,
) -> list[JobView]:
    """Return the views, with the reasons of pending tasks. The permission for pods is optional."""
    found: dict[tuple[str, str], list[Pod]] = {}
    if any(_may_wait(framework, view) for framework, view in jobs):
        namespace = "" if in_all_namespaces else connection.namespace
        with contextlib.suppress(ForbiddenError):
            listed = await lookup.list_objects(
                connection, PODS, namespace, names.FRAMEWORK_NAME, field_selector="status.phase=Pending"
            )
            for pod in map(pods.decode, listed):
                found.setdefault(pod.job_key, []).append(pod)
    return [_with_reason(framework, view, found) for framework, view in jobs]


def _may_wait(framework: Framework | InvalidFramework, view: JobView) -> bool:
    """Return whether a task may be pending. The pods of a job without a Framework have other labels."""
    if isinstance(framework, InvalidFramework) or plain_jobs.is_plain(framework):
        return False
    return view.state is JobState.PENDING or (view.state is JobState.RUNNING and view.running < view.total)


def _with_reason(
    framework: Framework | InvalidFramework, view: JobView, pods_by_job: dict[tuple[str, str], list[Pod]]
) -> JobView:
    of_name = pods_by_job.get((view.namespace, view.name), ())
    if isinstance(framework, InvalidFramework) or not _may_wait(framework, view):
        return view
    if not of_name and not framework.spec.has_rules:
        return view
    found = [pod for pod in of_name if pod.may_belong_to(framework)]
    waits = [each for each in pending_tasks(framework, found, ()) if each.reason not in (STARTING, NO_POD)]
    if not waits:
        return view
    reasons = {name: each.reason for each in waits for name in each.tasks}
    reason = "; ".join(map(str, waits))
    separator = "; pending: " if view.state is JobState.RUNNING else ": "
    return msgspec.structs.replace(
        view,
        reason=reason,
        message=f"{view.message}{separator}{reason}",
        tasks=tuple(
            msgspec.structs.replace(task, reason=reasons.get(task.name, task.reason)) for task in view.tasks
        ),
    )


def shorten_names(names: Sequence[str], max_names: int = 4) -> str:
    """Return the names in a short form: `worker-0, worker-1, worker-2 and 5 more`."""
    if len(names) <= max_names:
        return ", ".join(names)
    return f"{', '.join(names[: max_names - 1])} and {len(names) - max_names + 1} more"
