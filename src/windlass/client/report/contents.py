"""The contents of a report, as data: read from the job if it exists, from the records of its attempts, and from events.

The logs are read separately by `logs`, because they may not fit into memory.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

import windlass
from windlass.client import events as job_events
from windlass.client import history, views
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.explain import explanation, failures
from windlass.client.explain.explanation import Explanation
from windlass.client.history import AttemptOfTasks, AttemptView, JobHistory
from windlass.client.report import masking
from windlass.client.report.masking import Variable
from windlass.client.views import TaskState
from windlass.kubeapi.errors import ForbiddenError
from windlass.model import names
from windlass.model.base import Json
from windlass.model.status import EndedTaskAttempt, TaskAttemptStatus

FORMAT_VERSION = 1
"""Version of the JSON format. It increases when a field is renamed or removed, or changes its meaning."""
LAST_LINES = 50


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a report."""


class PhaseState(StrEnum):
    PENDING = "Pending"
    """The pod is not created, or no node is assigned."""
    STARTING = "Starting"
    """The node mounts volumes, pulls images, runs init containers and starts the containers."""
    PULLING = "Pulling"
    """The node pulls images. Only in timelines of attempts whose events the API server still has."""
    RUNNING = "Running"
    ENDING = "Ending"
    """A container has ended or the pod is being deleted, and the controller has not observed its end."""


PENDING, STARTING, PULLING, RUNNING, ENDING = PhaseState
"""For loops over all attempts: Python 3.11 looks up a member of an enumeration slowly."""


class Phase(Part, frozen=True, gc=False):
    """The time from which an attempt of a task was in a state."""

    state: PhaseState
    since: datetime


class TaskAttempt(Part, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An attempt of a task. `attempt` is counted within the attempt of the job; both are counted from 0."""

    job_attempt: int
    role: str
    index: int
    attempt: int
    state: TaskState
    phases: tuple[Phase, ...] = ()
    ended: datetime | None = None
    code: int | None = None
    failure_class: str = msgspec.field(name="class", default="")
    """Empty unless the attempt failed."""
    reason: str = ""
    is_retried: bool | None = None
    retry_reason: str = ""
    node: str = ""
    pod: str = ""
    pod_uid: str = ""

    @property
    def task(self) -> str:
        return names.host_name(self.role, self.index)

    @property
    def is_failed(self) -> bool:
        return self.state is TaskState.FAILED


class FailureGroup(Part, frozen=True, kw_only=True):
    """Failed attempts of tasks that have the same class and code."""

    failure_class: str = msgspec.field(name="class")
    meaning: str
    code: int
    phrase: str
    count: int
    first_task: str
    first_reason: str


class ContainerEnvironment(Part, frozen=True, kw_only=True):
    """The image and the environment variables of a container in the spec."""

    role: str
    container: str
    image: str
    variables: tuple[Variable, ...] = ()


class Log(Part, frozen=True, kw_only=True):
    """The log of a container of an attempt of a task."""

    task: str
    job_attempt: int
    attempt: int
    container: str
    lines: tuple[str, ...] = ()
    """Each line with its timestamp, if it is known."""
    note: str = ""
    """Why the log is incomplete; empty if it is complete."""


class Report(Part, frozen=True, kw_only=True):
    version: int = FORMAT_VERSION
    generated: datetime
    windlass: str
    """Version of Windlass that wrote the report."""
    cluster: str
    """Version of the API server; empty if it is unknown."""
    notes: tuple[str, ...] = ()
    """Facts about the report or the run, e.g. that the run has timed out."""
    is_deleted: bool = False
    uid: str
    created: datetime | None = None
    completed: datetime | None = None
    roles: dict[str, int] = {}
    """Number of tasks of each role in the spec."""
    explanation: Explanation
    """The state of the job, as `windlass why` explains it."""
    attempts: tuple[AttemptView, ...] = ()
    """The attempts of the job. Their `taskAttempts` are empty: all attempts of tasks are in `tasks`."""
    failures: tuple[FailureGroup, ...] = ()
    events: tuple[Event, ...] = ()
    tasks: tuple[TaskAttempt, ...] = ()
    environment: tuple[ContainerEnvironment, ...] = ()
    framework: Json
    """The Framework without its status. Values that may be secret are masked."""
    logs: tuple[Log, ...] = ()
    """The last field. Writers append the logs while they are read."""


async def read(connection: Connection, found: JobHistory, now: datetime, notes: Sequence[str] = ()) -> Report:
    """Return the report of a job without its logs. Raises the errors of `Connection.send`."""
    view, framework = found.view, found.framework
    events: list[Event] = []
    with contextlib.suppress(ForbiddenError):
        events = await job_events.read(connection, framework)
    manifest = masking.framework_manifest(framework)
    task_attempts = tuple(task_attempts_of(found))
    return Report(
        generated=now,
        windlass=windlass.__version__,
        cluster=await connection.version(),
        notes=tuple(notes),
        is_deleted=found.is_deleted,
        uid=view.uid,
        created=view.created,
        completed=view.completed,
        roles=view.roles,
        explanation=await explanation.read_history(connection, found, LAST_LINES, now),
        attempts=tuple(msgspec.structs.replace(each, task_attempts=()) for each in found.attempts),
        failures=tuple(_failure_groups(found.task_attempts)),
        events=tuple(history.with_recorded(events, found.records)),
        tasks=task_attempts,
        environment=tuple(_environment(manifest)),
        framework=manifest,
    )


def is_failed(ended: EndedTaskAttempt) -> bool:
    """Return whether the attempt of the task failed, and was not ended by the controller."""
    return views.ended_state(ended.attempt.completion_status) is TaskState.FAILED


def task_attempts_of(found: JobHistory) -> Iterator[TaskAttempt]:
    """Yield all attempts of all tasks, by attempt of the job."""
    current = None if found.is_deleted else found.task_attempts[-1].number if found.task_attempts else None
    recorded = {record.spec.attempt for record in found.records}
    for attempt in found.task_attempts:
        is_over = attempt.number != current or attempt.number in recorded
        for each in attempt.tasks:
            yield _task_attempt(attempt.number, each, is_over=is_over)


def _task_attempt(number: int, ended: EndedTaskAttempt, *, is_over: bool) -> TaskAttempt:
    attempt, retry = ended.attempt, ended.retry
    completion = attempt.completion_status
    state = TaskState.PENDING if attempt.run_time is None else TaskState.RUNNING
    if is_over or completion is not None:
        state = views.ended_state(completion) if completion is not None else TaskState.ENDED
    is_failed = state is TaskState.FAILED
    return TaskAttempt(
        job_attempt=number,
        role=ended.role,
        index=ended.index,
        attempt=attempt.id,
        state=state,
        phases=tuple(_phases(attempt)),
        ended=attempt.completion_time,
        code=None if completion is None else completion.code,
        failure_class=failures.class_of(completion.type) if completion is not None and is_failed else "",
        reason=views.task_reason(attempt, completion),
        is_retried=None if retry is None else retry.should_retry,
        retry_reason="" if retry is None else retry.reason,
        node=attempt.pod_node_name or "",
        pod=attempt.pod_name,
        pod_uid=attempt.pod_uid or "",
    )


def _phases(attempt: TaskAttemptStatus) -> Iterator[Phase]:
    """Yield the phases in their order. Their times are from several clocks, so they are kept in order too."""
    times, completed, since = attempt.times_of_pod, attempt.completion_time, attempt.start_time
    ended = times.ended or times.deletion_requested
    if ended is not None and times.deletion_requested is not None:
        ended = min(ended, times.deletion_requested)
    yield Phase(PENDING, since)
    for state, begin in (
        (STARTING, times.scheduled),
        (RUNNING, times.started or attempt.run_time),
        (ENDING, ended),
    ):
        if begin is not None:
            since = max(since, begin if completed is None else min(begin, completed))
            yield Phase(state, since)


def _failure_groups(attempts: Iterable[AttemptOfTasks]) -> Iterator[FailureGroup]:
    """Yield the groups of failed attempts of tasks, the largest first."""
    groups: dict[tuple[str, int, str], list[EndedTaskAttempt]] = {}
    for attempt in attempts:
        for each in attempt.tasks:
            ended = each.attempt.completion_status
            if ended is not None and is_failed(each):
                key = failures.class_of(ended.type), ended.code, ended.phrase
                groups.setdefault(key, []).append(each)
    for (name, code, phrase), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        first = members[0]
        yield FailureGroup(
            failure_class=name,
            meaning=failures.meaning_of(name),
            code=code,
            phrase=phrase,
            count=len(members),
            first_task=names.host_name(first.role, first.index),
            first_reason=views.task_reason(first.attempt, first.attempt.completion_status),
        )


def _environment(manifest: Json) -> Iterator[ContainerEnvironment]:
    for role in manifest["spec"].get("taskRoles") or ():
        pod = (role.get("task") or {}).get("pod") or {}
        spec = pod.get("spec") or {}
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            yield ContainerEnvironment(
                role=role.get("name", ""),
                container=container.get("name", ""),
                image=container.get("image", ""),
                variables=tuple(masking.variables(container)),
            )
