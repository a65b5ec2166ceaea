"""Explain why a job failed or is pending: the first failed task, its last log lines, and the retries.

`explain` is a pure function of the Framework, its pods, its events and the time. Without pods and events it uses
only the Framework.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from windlass.client import events as job_events
from windlass.client import history, plain_jobs, tasks, views, waiting
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.explain import failures, pending
from windlass.client.explain import retries as explain_retries
from windlass.client.explain.failures import Failure
from windlass.client.explain.pending import PendingTasks
from windlass.client.explain.retries import Retries
from windlass.client.history import JobHistory
from windlass.client.logs import container_log, earlier
from windlass.client.logs.container_log import LogOptions, Source
from windlass.client.pods import Pod
from windlass.client.submit import node_capacity
from windlass.client.views import JobState, JobView
from windlass.kubeapi.errors import ApiError, ForbiddenError
from windlass.model import tracebacks, verdict
from windlass.model.framework import Framework
from windlass.wire import codec

NO_CONTROLLER_SECONDS = 15.0
"""Age after which a job without status is assumed to have no controller."""
LAST_LINES = 10
MAX_HISTORY = 10
LOG_LINES = 200
"""Number of last log lines in which a traceback is searched."""
_HISTORY_REASONS = ("TaskFailed", "TaskRetried", "AttemptEnding", "FrameworkRetried", "RetryScheduled")
"""Reasons of the events about the end or the retry of an attempt."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of an attempt of the job."""

    code: int
    phrase: str
    failure_class: str = msgspec.field(name="class", default="")
    """Empty for a success."""
    because: str = ""
    """The completion policy that was met, or another cause."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    job: str
    namespace: str
    state: JobState
    message: str
    """The explanation in one sentence: the message of the job, with details about pending tasks."""
    verdict: str = ""
    """The state as the word that `message` uses, e.g. `failed`."""
    attempt: int = 0
    since: datetime | None = None
    """When the job entered this state."""
    outcome: Outcome | None = None
    """Outcome of the attempt; None until it has ended."""
    failure: Failure | None = None
    """First failure of the attempt."""
    task_retries: Retries | None = None
    """Retries of the failed task."""
    job_retries: Retries | None = None
    waits: tuple[PendingTasks, ...] = ()
    advice: str = ""
    history: tuple[Event, ...] = ()
    """Latest events about the ends of attempts of the job and its tasks; empty before the first retry."""


# Explanation without access to the cluster


def explain(
    framework: Framework,
    pods: Sequence[Pod],
    events: Sequence[Event],
    now: datetime,
    view: JobView | None = None,
) -> Explanation:
    """Explain a job. `view` is that of a deleted job."""
    view = view or views.job_view(framework)
    failure = failures.first_failure(framework)
    outcome = _outcome(framework)
    can_wait = outcome is None and view.state not in (JobState.SUSPENDED, JobState.HELD)
    is_plain = plain_jobs.is_plain(framework)  # Kubernetes retries its pods, and does not say why
    explanation = Explanation(
        job=framework.name,
        namespace=framework.namespace,
        state=view.state,
        message="",
        verdict=view.verdict,
        attempt=view.attempt,
        since=view.completed or view.changed or view.created,
        outcome=outcome,
        failure=None if failure is None else failures.with_hint(failure, framework),
        job_retries=None if is_plain else explain_retries.of_job(framework),
        task_retries=explain_retries.of_task(framework, failure.task) if failure and not is_plain else None,
        waits=pending.pending_tasks(framework, pods, events) if can_wait else (),
        history=_history(framework, events),
    )
    message, advice = _summarize(framework, view, explanation, now)
    return msgspec.structs.replace(explanation, message=message, advice=advice)


def _outcome(framework: Framework) -> Outcome | None:
    ended = None if framework.status is None else framework.status.attempt_status.completion_status
    if ended is None:
        return None
    trigger = ended.trigger
    return Outcome(
        code=ended.code,
        phrase=ended.phrase,
        failure_class=failures.class_of(ended.type) if ended.type.is_failed else "",
        because=f"{trigger.message} (by {trigger.task_role_name}-{trigger.task_index})"
        if trigger is not None and trigger.message != ended.diagnostics
        else verdict.readable_diagnostics(ended.diagnostics),
    )


def _history(framework: Framework, events: Sequence[Event]) -> tuple[Event, ...]:
    status = framework.status
    if status is None:
        return ()
    has_earlier = status.retry_policy_status.total_retried_count > 0 or any(
        task.retry_policy_status.total_retried_count > 0
        for role in status.attempt_status.roles
        for task in role.task_statuses
    )
    if not has_earlier:
        return ()
    earlier = [event for event in events if event.uid == framework.uid and event.reason in _HISTORY_REASONS]
    return tuple(earlier[-MAX_HISTORY:])


# Summaries and advice by state


def _summarize(
    framework: Framework, view: JobView, explanation: Explanation, now: datetime
) -> tuple[str, str]:
    """Return the message, and advice, which may be empty."""
    match explanation.state:
        case JobState.SUBMITTED:
            message, advice = _summarize_submitted(framework, now)
            return f"{view.name} {message}", advice
        case JobState.HELD:
            return (
                f"{view.name} is held: its executionType is Create",
                "Set its executionType to Start to start it.",
            )
        case JobState.SUSPENDED:
            return view.message, f"Its pods are deleted. Resume it with `windlass resume {view.name}`."
        case JobState.PENDING:
            message, advice = _summarize_pending(view, explanation)
            return f"{view.name} {message}", advice
        case JobState.RUNNING:
            return _summarize_running(view, explanation)
        case JobState.STOPPING:
            return f"{view.message}; its pods are being deleted", ""
    return view.message, ""


def _summarize_submitted(framework: Framework, now: datetime) -> tuple[str, str]:
    created = framework.metadata.creation_timestamp
    age = (now - created).total_seconds() if created is not None else 0.0
    if age < NO_CONTROLLER_SECONDS:
        return "was just submitted; no controller has processed it yet", ""
    advice = (
        "Check whether a controller is running (`kubectl get pods -A | grep windlass`), install one with "
        "`windlass install --apply`, or run one on this machine with `windlass controller`."
    )
    return (
        f"is pending: it was submitted {verdict.format_duration(age)} ago, and no controller has processed it",
        advice,
    )


def _summarize_pending(view: JobView, explanation: Explanation) -> tuple[str, str]:
    named, advice = _summarize_waits(explanation.waits)
    if named:
        return f"is pending: {named}", advice
    if not any(view.roles.values()):
        return "is pending: it has no tasks", f"Add a task with `windlass scale {view.name} ROLE=1`."
    return f"is about to start attempt {view.attempt}", ""


def _summarize_running(view: JobView, explanation: Explanation) -> tuple[str, str]:
    if explanation.failure is not None:
        return f"{view.message}; {explanation.failure.message}", ""
    named, advice = _summarize_waits(explanation.waits)
    return f"{view.message}; pending: {named}" if named else view.message, advice


def _summarize_waits(waits: Sequence[PendingTasks]) -> tuple[str, str]:
    """Return the pending tasks with their reason and advice, or only their names if there are several reasons."""
    if len(waits) == 1:
        return str(waits[0]), waits[0].advice
    return pending.shorten_names([name for wait in waits for name in wait.tasks]), ""


# Reading from the cluster


async def read(
    connection: Connection,
    name: str,
    *,
    lines: int = LAST_LINES,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Explanation:
    """Explain a job, or the last one of that name from its records if it was deleted. Raises ObjectNotFoundError, and
    the errors of `Connection.send`."""
    return await read_history(connection, await history.find(connection, name), lines, now())


async def read_history(
    connection: Connection, found: JobHistory, lines: int, now: datetime, *, has_pods: bool = True
) -> Explanation:
    """Explain a job. Permissions for pods and events are optional. Raises the errors of `Connection.send`.

    Without `has_pods`, the pods are not read, because there are too many.
    """
    framework = found.framework
    pods: list[Pod] = []
    events: list[Event] = []
    if has_pods and not found.is_deleted:
        with contextlib.suppress(ForbiddenError):
            pods = await tasks.list_pods(connection, framework)
    with contextlib.suppress(ForbiddenError):
        events = await job_events.read(connection, framework)
    events = history.with_recorded(events, found.records)
    explanation = await _with_shortages(
        connection, framework, explain(framework, pods, events, now, found.view)
    )
    if explanation.failure is None:
        return explanation
    failure, log = await _with_lines(connection, explanation.failure, found, pods, lines)
    error = "" if ": " in failure.message else tracebacks.find_error(log)
    if error:
        # The status does not contain the last lines of every container.
        is_cause = explanation.message.startswith(f"{explanation.job} failed: {failure.message}")
        message = f"{explanation.message}: {error}" if is_cause else explanation.message
        explanation = msgspec.structs.replace(explanation, message=message)
        failure = msgspec.structs.replace(failure, message=f"{failure.message}: {error}")
    return msgspec.structs.replace(explanation, failure=failures.with_hint(failure, framework))


async def _with_shortages(
    connection: Connection, framework: Framework, explanation: Explanation
) -> Explanation:
    """Replace the advice if every node of the cluster is too small for a pending task."""
    if not any(wait.reason.startswith(waiting.NO_NODE) for wait in explanation.waits):
        return explanation
    body = msgspec.json.decode(codec.encode_framework(framework))
    found = await node_capacity.shortages(connection, [(framework.name, body)])
    if not found:
        return explanation
    sentences = (f"{each[0].upper()}{each[1:]}." for _, each in found)
    advice = " ".join((*sentences, "Request less, or add a node that is large enough."))
    return msgspec.structs.replace(explanation, advice=advice)


async def _with_lines(
    connection: Connection, failure: Failure, job: JobHistory, pods: Sequence[Pod], count: int
) -> tuple[Failure, tuple[str, ...]]:
    """Add the last lines of the log, or those stored in the status if the log has none or cannot be read. Also return
    the end of the log."""
    stored = tuple(tracebacks.select_last_lines(failure.lines, count))
    failure = msgspec.structs.replace(failure, lines=stored, lines_from=failure.lines_from if stored else "")
    if not count:
        return failure, ()
    source = await _log_source(connection, failure, job, pods)
    log = () if source is None else await _read_end(connection, source, max(count, LOG_LINES))
    log = log if any(log) else _recorded_log(failure, job)
    if not any(log):
        return failure, ()
    lines = tuple(tracebacks.select_last_lines(log, count))
    return msgspec.structs.replace(failure, lines=lines, lines_from="log"), log


async def _log_source(
    connection: Connection, failure: Failure, job: JobHistory, pods: Sequence[Pod]
) -> Source | None:
    """Return the failed container; None if its pod is deleted and the cluster keeps no logs of deleted pods."""
    pod = next((each for each in pods if each.uid == failure.pod_uid), None)
    is_deleted = pod is None
    if is_deleted and failure.pod_uid and await connection.is_embedded():
        found = (
            earlier.deleted_pod(job.framework, task, status.attempt_status)
            for task, status in tasks.statuses(job.framework)
            if str(task) == failure.task
        )
        pod = next(found, None)
    if pod is None:
        return None
    return Source(pod, failure.container or pod.default_container, failure.task, is_deleted)


def _recorded_log(failure: Failure, job: JobHistory) -> tuple[str, ...]:
    """Return the end of the log from the record of the attempt, if the controller has read it."""
    status, (role, _, index) = job.framework.status, failure.task.rpartition("-")
    attempt = -1 if status is None else status.attempt_status.id
    record = next((each for each in job.records if each.spec.attempt == attempt), None)
    if record is None:
        return ()
    return tuple(record.log_of(role, int(index), failure.attempt, failure.container).splitlines())


async def _read_end(connection: Connection, source: Source, count: int) -> tuple[str, ...]:
    """Return the last lines of a log; none if it cannot be read."""
    # Timestamps distinguish log lines from a message that the kubelet sends in place of a log.
    request = container_log.request(source, connection.namespace, LogOptions(tail=count), has_timestamps=True)
    log: deque[str] = deque(maxlen=count)
    try:
        async for batch in container_log.read_batches(connection, request, source, has_timestamps=True):
            log.extend(line.text for line in batch)
    except ApiError:
        return ()
    return tuple(log)
