"""The attempts of a job and of its tasks with their times, for a chart: the data of a report, without its texts."""

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from windlass.client import events, history
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError
from windlass.client.events import Event
from windlass.client.explain import failures
from windlass.client.history import AttemptView
from windlass.client.logs import earlier
from windlass.client.logs.container_log import LogOptions, ignore_note
from windlass.client.report import contents
from windlass.client.report.contents import Phase, PhaseState, TaskAttempt
from windlass.client.tasks import TaskSelector
from windlass.client.views import TaskState
from windlass.kubeapi.errors import ApiError, ForbiddenError
from windlass.model import verdict
from windlass.model.completion import CompletionCode
from windlass.model.status import EndedTaskAttempt

_ALREADY_PRESENT = "already present"
"""Part of the message of an event `Pulled` without a pull."""
_LOST = (CompletionCode.POD_EXTERNAL_DELETED, CompletionCode.CONFIG_MAP_EXTERNAL_DELETED)


class Outcome(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """Ended by the controller, e.g. with the attempt of its job."""
    LOST = "lost"
    """The pod was deleted by another client or with its node."""


_OUTCOMES = {
    TaskState.PENDING: Outcome.PENDING,
    TaskState.SUCCEEDED: Outcome.SUCCEEDED,
    TaskState.FAILED: Outcome.FAILED,
    TaskState.ENDED: Outcome.STOPPED,
}


class Timeline(msgspec.Struct, frozen=True):
    tasks: tuple[TaskAttempt, ...]
    """Attempts of tasks, by attempt of the job."""
    attempts: tuple[AttemptView, ...]
    events: tuple[Event, ...]


async def read(connection: Connection, name: str) -> Timeline:
    """Return the timeline of a job, also of a deleted one that has records. Raises as `history.find`."""
    found = await history.find(connection, name)
    api_events: list[Event] = []
    with contextlib.suppress(ForbiddenError):
        api_events = await events.read(connection, found.framework)
    return Timeline(
        with_phases_of_pods(contents.task_attempts_of(found), api_events),
        found.attempts,
        tuple(history.with_recorded(api_events, found.records)),
    )


def with_phases_of_pods(attempts: Iterable[TaskAttempt], found: Iterable[Event]) -> tuple[TaskAttempt, ...]:
    """Return the attempts with the phases that only the events of their pods show."""
    by_pod: dict[str, dict[str, list[Event]]] = {}
    for event in found:
        by_pod.setdefault(event.uid, {}).setdefault(event.reason, []).append(event)
    return tuple(
        msgspec.structs.replace(each, phases=_with_events(each, by_pod[each.pod_uid]))
        if each.pod_uid in by_pod
        else each
        for each in attempts
    )


def _with_events(attempt: TaskAttempt, found: Mapping[str, Sequence[Event]]) -> tuple[Phase, ...]:
    """Return the phases of an attempt with the times of its pod's events, whose resolution may be a second.

    A pod with several images pulls them one after the other; they are one phase, which ends with the last of them.
    """
    phases = {phase.state: phase for phase in attempt.phases}
    pending, running = phases.get(PhaseState.PENDING), phases.get(PhaseState.RUNNING)
    if pending is None:
        return attempt.phases
    latest = running.since if running is not None else attempt.ended
    scheduled, pulling, pulled = (found.get(reason, ()) for reason in ("Scheduled", "Pulling", "Pulled"))
    starting = phases.get(PhaseState.STARTING)
    begin = starting.since if starting is not None else min((each.first for each in scheduled), default=None)
    preparing: list[tuple[PhaseState, datetime]] = []
    if begin is not None:
        preparing.append((PhaseState.STARTING, begin))
    if pulling:
        preparing.append((PhaseState.PULLING, min(each.first for each in pulling)))
        end = max((each.last for each in pulled if _ALREADY_PRESENT not in each.message), default=None)
        if end is not None and end >= max(each.last for each in pulling):
            preparing.append((PhaseState.STARTING, end))
    since = pending.since
    timed = [pending]
    for state, time in preparing:
        since = max(since, min(time, latest or time))
        timed.append(Phase(state=state, since=since))
    rest = (each for each in attempt.phases if each.state in (PhaseState.RUNNING, PhaseState.ENDING))
    return (*timed, *rest)


def outcome_of(attempt: TaskAttempt) -> Outcome:
    if attempt.code in _LOST:
        return Outcome.LOST
    return _OUTCOMES.get(attempt.state, Outcome.RUNNING)


def class_of(ended: EndedTaskAttempt) -> str:
    """Return the class of a failure; empty for a task that runs, has succeeded or was ended by the controller."""
    completion = ended.attempt.completion_status
    return failures.class_of(completion.type) if completion is not None and contents.is_failed(ended) else ""


async def find_task_attempt(
    connection: Connection, name: str, attempt: int, role: str, index: int, task_attempt: int, lines: int
) -> tuple[EndedTaskAttempt, tuple[str, ...]]:
    """Return an attempt of a task, which may still run, and the last lines of its log. Raises ObjectNotFoundError if it
    does not exist or was not recorded."""
    found = await history.find(connection, name)
    wanted = (role, index, task_attempt)
    of_job = next((each for each in found.task_attempts if each.number == attempt), None)
    tasks = of_job.tasks if of_job is not None else ()
    ended = next((each for each in tasks if (each.role, each.index, each.attempt.id) == wanted), None)
    if ended is None:
        raise ObjectNotFoundError(
            f"attempt {task_attempt} of {role}-{index} in attempt {attempt} of {name} is not recorded"
        )
    log: deque[str] = deque(maxlen=lines)
    batches = earlier.read_batches(
        connection, found, attempt, TaskSelector(role, index), LogOptions(tail=lines), ignore_note
    )
    with contextlib.suppress(ApiError, ClientError):
        async with contextlib.aclosing(batches):
            async for batch in batches:
                log.extend(line.text for line in batch if line.attempt == task_attempt)
    completion = ended.attempt.completion_status
    stored = verdict.last_lines(completion) if completion is not None and not log else ()
    return ended, (*log, *stored)
