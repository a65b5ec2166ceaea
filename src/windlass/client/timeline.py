"""The attempts of a job and of its tasks with their times, for a chart: the data of a report, without its texts."""

import contextlib
from collections import deque
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
from windlass.client.report.contents import TaskAttempt
from windlass.client.tasks import TaskSelector
from windlass.client.views import TaskState
from windlass.kubeapi.errors import ApiError, ForbiddenError
from windlass.model import verdict
from windlass.model.completion import CompletionCode
from windlass.model.status import EndedTaskAttempt

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
        tuple(contents.task_attempts_of(found)),
        found.attempts,
        tuple(history.with_recorded(api_events, found.records)),
    )


def outcome_of(attempt: TaskAttempt) -> Outcome:
    if attempt.code in _LOST:
        return Outcome.LOST
    outcomes = {
        TaskState.PENDING: Outcome.PENDING,
        TaskState.SUCCEEDED: Outcome.SUCCEEDED,
        TaskState.FAILED: Outcome.FAILED,
        TaskState.ENDED: Outcome.STOPPED,
    }
    return outcomes.get(attempt.state, Outcome.RUNNING)


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
