"""Read the records of finished attempts, which remain after their Framework and its pods are deleted."""

import functools
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec

from windlass.client import events, jobs, lookup, views
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.explain import failures
from windlass.client.explain.failures import Failure
from windlass.client.views import JobState, JobView, TaskState
from windlass.decide import messages
from windlass.k8s.formats import is_object_name
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import ATTEMPT_RECORDS
from windlass.model import names
from windlass.model.completion import CompletionCode
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord
from windlass.model.status import EndedTaskAttempt
from windlass.wire import attempt_records


async def list_records(
    connection: Connection, *, name: str = "", uid: str = "", in_all_namespaces: bool = False
) -> tuple[AttemptRecord, ...]:
    """Return the records of a job by its name or by the UID of its Framework, or of all jobs; oldest first.

    Several Frameworks may have had the name, one after the other. Records whose details are compressed are expanded.
    Empty if the cluster keeps no records or the user may not read them. Raises the errors of `Connection.send`.
    """
    if name and not is_object_name(name):
        return ()
    labels = {names.FRAMEWORK_NAME: name, names.FRAMEWORK_UID: uid}
    selector = ",".join(f"{label}={value}" for label, value in labels.items() if value)
    namespace = "" if in_all_namespaces else connection.namespace
    try:
        found = await lookup.list_objects(connection, ATTEMPT_RECORDS, namespace, selector)
    except (NotFoundError, ForbiddenError):
        return ()
    return tuple(sorted(map(attempt_records.decode, found), key=_time_and_attempt))


async def of_job(connection: Connection, name: str, framework: Framework | None) -> tuple[AttemptRecord, ...]:
    """Return the records of a Framework, oldest first; without one, those of the last Framework of that name."""
    if framework is not None:
        return await list_records(connection, uid=framework.uid)
    return of_last_framework(await list_records(connection, name=name)) if name else ()


def of_last_framework(records: Sequence[AttemptRecord]) -> tuple[AttemptRecord, ...]:
    """Return the records that belong to the same Framework as the last one."""
    if not records:
        return ()
    uid = records[-1].spec.framework_uid
    return tuple(record for record in records if record.spec.framework_uid == uid)


def _time_and_attempt(record: AttemptRecord) -> tuple[float, str, int]:
    spec = record.spec
    return spec.completion_time.timestamp(), spec.framework_uid, spec.attempt


# Views


class AttemptView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An attempt of a job: a finished one from its record, or the current one."""

    attempt: int
    state: JobState
    """How the attempt ended, e.g. Failed or Suspended; the state of the job for its current attempt."""
    reason: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    failure: Failure | None = None
    """The first failure of the attempt."""
    is_retried: bool | None = None
    """None before the attempt has ended."""
    retry_reason: str = ""
    """Why it is retried or not."""
    task_attempts: tuple[EndedTaskAttempt, ...] = ()
    """All recorded attempts of all tasks. Empty for the current attempt of the job."""


class AttemptOfTasks(msgspec.Struct, frozen=True):
    """An attempt of a job with all attempts of its tasks."""

    number: int
    framework: Framework
    """The Framework at the end of the attempt, or now."""
    tasks: tuple[EndedTaskAttempt, ...]
    """The last one of a task may still run."""
    record: AttemptRecord | None = None


class JobHistory(msgspec.Struct, frozen=True, dict=True):
    """A job that exists or was deleted, with the records of its attempts, oldest first."""

    framework: Framework
    """The Framework, or its last recorded state if it was deleted."""
    records: tuple[AttemptRecord, ...]
    is_deleted: bool

    @functools.cached_property
    def view(self) -> JobView:
        view = views.job_view(self.framework)
        return _deleted_view(view) if self.is_deleted else view

    @functools.cached_property
    def task_attempts(self) -> tuple[AttemptOfTasks, ...]:
        """The attempts whose records exist, oldest first, and the current one, with all attempts of their tasks."""
        found = [
            AttemptOfTasks(each.spec.attempt, each.framework, tuple(each.task_attempts()), each)
            for each in self.records
        ]
        status = self.framework.status
        if status is not None and all(each.number != status.attempt_status.id for each in found):
            current = tuple(
                EndedTaskAttempt(role=role.name, index=task.index, attempt=task.attempt_status)
                for role in status.attempt_status.roles
                for task in role.task_statuses
            )
            ended = (*status.earlier_attempts, *current)
            found.append(AttemptOfTasks(status.attempt_status.id, self.framework, ended))
        return tuple(found)

    @property
    def attempts(self) -> tuple[AttemptView, ...]:
        """The attempts whose records exist, oldest first, then the current one."""
        found = tuple(map(_recorded_attempt, self.records))
        status = self.framework.status
        is_recorded = any(each.attempt == self.view.attempt for each in found)
        if status is None or is_recorded:
            return found
        view, attempt = self.view, status.attempt_status
        return (
            *found,
            AttemptView(
                attempt=view.attempt,
                state=view.state,
                reason=view.reason,
                started=attempt.start_time,
                ended=attempt.completion_time,
            ),
        )


async def find(connection: Connection, name: str) -> JobHistory:
    """Return the job of that name, or the last one if it was deleted. Raises ObjectNotFoundError, and the errors of
    `Connection.send`."""
    framework = await jobs.find_or_none(connection, name)
    records = await of_job(connection, name, framework)
    if framework is not None:
        return JobHistory(framework, records, is_deleted=False)
    if not records:
        raise await jobs.not_found_error(connection, name)
    return JobHistory(records[-1].framework, records, is_deleted=True)


async def deleted_jobs(
    connection: Connection, existing_uids: Collection[str], *, in_all_namespaces: bool = False
) -> tuple[JobHistory, ...]:
    """Return the deleted jobs that have records, in the order of their last attempt."""
    by_uid: dict[str, list[AttemptRecord]] = {}
    for record in await list_records(connection, in_all_namespaces=in_all_namespaces):
        if record.spec.framework_uid not in existing_uids:
            by_uid.setdefault(record.spec.framework_uid, []).append(record)
    found = (JobHistory(each[-1].framework, tuple(each), is_deleted=True) for each in by_uid.values())
    return tuple(sorted(found, key=lambda job: job.records[-1].spec.completion_time))


def _recorded_attempt(record: AttemptRecord) -> AttemptView:
    spec = record.spec
    view = views.job_view(record.framework)
    return AttemptView(
        attempt=spec.attempt,
        state=_attempt_state(record),
        reason=view.reason,
        started=spec.start_time,
        ended=spec.completion_time,
        failure=failures.first_failure(record.framework),
        is_retried=spec.retry.should_retry,
        retry_reason=spec.retry.reason,
        task_attempts=tuple(record.task_attempts()),
    )


def _attempt_state(record: AttemptRecord) -> JobState:
    spec = record.spec
    if spec.retry.reason == messages.FRAMEWORK_DELETED:
        return JobState.DELETED
    if not spec.type.is_failed:
        return JobState.SUCCEEDED
    by_code = {
        CompletionCode.FRAMEWORK_SUSPENDED: JobState.SUSPENDED,
        CompletionCode.STOP_FRAMEWORK_REQUESTED: JobState.STOPPED,
    }
    return next((state for code, state in by_code.items() if code == spec.code), JobState.FAILED)


def _deleted_view(view: JobView) -> JobView:
    """Return the view of a deleted job. One that had completed is shown as before."""
    if view.is_completed:
        return view
    ended = tuple(
        task
        if task.state in (TaskState.SUCCEEDED, TaskState.FAILED)
        else msgspec.structs.replace(task, state=TaskState.ENDED)
        for task in view.tasks
    )
    message = f"{view.name} was deleted before it completed"
    return msgspec.structs.replace(view, state=JobState.DELETED, message=message, tasks=ended, running=0)


# Events


def recorded_events(records: Iterable[AttemptRecord]) -> list[Event]:
    """Return the events that the controller reported about the recorded attempts."""
    return [
        Event(
            time,
            time,
            1,
            "Warning" if reason.is_warning else "Normal",
            reason.kind.value,
            record.spec.framework_name,
            reason.message,
            record.spec.framework_uid,
        )
        for record in records
        for time, reason in messages.reasons_of(record)
    ]


def with_recorded(found: Sequence[Event], records: Iterable[AttemptRecord]) -> list[Event]:
    """Return the events of the API server, and those of the records that it no longer has, in order of time."""
    known = {(event.uid, event.reason, event.message) for event in found}
    missing = [
        event for event in recorded_events(records) if (event.uid, event.reason, event.message) not in known
    ]
    return events.in_order((*missing, *found))
