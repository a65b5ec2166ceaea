"""The attempts of a job and of its tasks with their times, for a chart."""

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.client import events, history, tasks, views
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.explain import failures
from windlass.client.history import AttemptView, JobHistory
from windlass.client.logs import earlier
from windlass.client.pods import Pod
from windlass.kubeapi.errors import ForbiddenError
from windlass.model.completion import CompletionCode, TaskAttemptCompletionStatus
from windlass.model.status import EndedTaskAttempt

MAX_TASKS_WITH_PODS = 1_000
"""Number of tasks up to which the pods are read too. Only they tell when they were scheduled."""
_LOST = (CompletionCode.POD_EXTERNAL_DELETED, CompletionCode.CONFIG_MAP_EXTERNAL_DELETED)


class Outcome(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """Ended by the controller, e.g. with the attempt of its job."""
    LOST = "lost"
    """The pod was deleted by another client or with its node, or the end was not recorded."""


class TaskBar(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt of a task."""

    role: str
    index: int
    attempt: int
    """Attempt of the job."""
    task_attempt: int
    node: str
    created: datetime
    scheduled: datetime | None = None
    started: datetime | None = None
    finished: datetime | None = None
    outcome: Outcome
    code: int | None = None
    failure_class: str = ""


class Timeline(msgspec.Struct, frozen=True):
    bars: tuple[TaskBar, ...]
    """Attempts of tasks, by attempt of the job."""
    attempts: tuple[AttemptView, ...]
    events: tuple[Event, ...]


async def read(connection: Connection, name: str) -> Timeline:
    """Return the timeline of a job, also of a deleted one that has records. Raises as `history.find`."""
    found = await history.find(connection, name)
    pods: list[Pod] = []
    api_events: list[Event] = []
    is_small = sum(found.view.roles.values()) <= MAX_TASKS_WITH_PODS
    with contextlib.suppress(ForbiddenError):
        pods = [] if found.is_deleted or not is_small else await tasks.list_pods(connection, found.framework)
    with contextlib.suppress(ForbiddenError):
        api_events = await events.read(connection, found.framework)
    return Timeline(
        tuple(bars(found, pods)), found.attempts, tuple(history.with_recorded(api_events, found.records))
    )


def bars(job: JobHistory, pods: Iterable[Pod] = ()) -> Iterator[TaskBar]:
    scheduled = {pod.uid: pod.scheduled_at for pod in pods}
    last = job.framework.status.attempt_status.id if job.framework.status is not None else -1
    for number, _, ended in earlier.attempts_of(job):
        may_run = number == last and not job.is_deleted and not job.view.is_completed
        for each in ended:
            attempt = each.attempt
            completion = attempt.completion_status
            yield TaskBar(
                role=each.role,
                index=each.index,
                attempt=number,
                task_attempt=attempt.id,
                node=attempt.pod_node_name or "",
                created=attempt.start_time,
                scheduled=scheduled.get(attempt.pod_uid or ""),
                started=attempt.run_time,
                finished=attempt.completion_time,
                outcome=_outcome(each, may_run=may_run),
                code=None if completion is None else completion.code,
                failure_class=failure_class(completion),
            )


def failure_class(completion: TaskAttemptCompletionStatus | None) -> str:
    """Return the class of a failure; empty for a task that runs, has succeeded or was ended by the controller."""
    is_failure = completion is not None and completion.type.is_failed
    if completion is None or not is_failure or completion.code in views.ENDED_BY_CONTROLLER:
        return ""
    return failures.class_of(completion.type)


def _outcome(ended: EndedTaskAttempt, *, may_run: bool) -> Outcome:
    completion = ended.attempt.completion_status
    if completion is None:
        running = Outcome.RUNNING if ended.attempt.run_time is not None else Outcome.PENDING
        return running if may_run else Outcome.LOST
    if not completion.type.is_failed:
        return Outcome.SUCCEEDED
    if completion.code in _LOST:
        return Outcome.LOST
    is_stopped = completion.code in (*views.ENDED_BY_CONTROLLER, CompletionCode.STOP_FRAMEWORK_REQUESTED)
    return Outcome.STOPPED if is_stopped else Outcome.FAILED


async def find_task_attempt(
    connection: Connection, name: str, attempt: int, role: str, index: int, task_attempt: int
) -> EndedTaskAttempt | None:
    """Return an attempt of a task, which may still run. None if it does not exist or was not recorded."""
    found = await history.find(connection, name)
    wanted = (role, index, task_attempt)
    return next(
        (
            each
            for number, _, ended in earlier.attempts_of(found)
            if number == attempt
            for each in ended
            if (each.role, each.index, each.attempt.id) == wanted
        ),
        None,
    )
