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
from windlass.client import lookup, tasks, views
from windlass.client.connection import Connection
from windlass.client.events import Event
from windlass.client.explain import failures, pending
from windlass.client.explain import retries as explain_retries
from windlass.client.explain.failures import Failure
from windlass.client.explain.pending import PendingTasks
from windlass.client.explain.retries import Retries
from windlass.client.logs import container_log
from windlass.client.logs.container_log import LogOptions, Source
from windlass.client.pods import Pod
from windlass.client.views import JobState, JobView
from windlass.kubeapi.errors import ApiError, ForbiddenError
from windlass.model.framework import Framework

NO_CONTROLLER_SECONDS = 15.0
"""Age after which a job without status is assumed to have no controller."""
LAST_LINES = 10
MAX_HISTORY = 10
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
    summary: str
    """The explanation in one sentence."""
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


def explain(framework: Framework, pods: Sequence[Pod], events: Sequence[Event], now: datetime) -> Explanation:
    view = views.job_view(framework)
    failure = failures.first_failure(framework)
    outcome = _outcome(framework)
    explanation = Explanation(
        job=framework.name,
        namespace=framework.namespace,
        state=view.state,
        summary="",
        attempt=view.attempt,
        since=view.completed or view.changed or view.created,
        outcome=outcome,
        failure=failure,
        job_retries=explain_retries.of_job(framework),
        task_retries=explain_retries.of_task(framework, failure.task) if failure is not None else None,
        waits=() if outcome is not None else pending.pending_tasks(framework, pods, events),
        history=_history(framework, events),
    )
    summary, advice = _summarize(framework, view, explanation, now)
    return msgspec.structs.replace(explanation, summary=f"{framework.name} {summary}", advice=advice)


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
        else ended.diagnostics,
    )


def _history(framework: Framework, events: Sequence[Event]) -> tuple[Event, ...]:
    status = framework.status
    if status is None:
        return ()
    has_earlier = status.retry_policy_status.total_retried_count > 0 or any(
        task.retry_policy_status.total_retried_count > 0 for _, task in tasks.statuses(framework)
    )
    if not has_earlier:
        return ()
    earlier = [event for event in events if event.uid == framework.uid and event.reason in _HISTORY_REASONS]
    return tuple(earlier[-MAX_HISTORY:])


# Summaries and advice by state


def _summarize(
    framework: Framework, view: JobView, explanation: Explanation, now: datetime
) -> tuple[str, str]:
    """Return the summary without the name of the job, and advice, which may be empty."""
    match explanation.state:
        case JobState.SUBMITTED:
            return _summarize_submitted(framework, now)
        case JobState.BLOCKED:
            return f"is blocked: {view.reason}", ""
        case JobState.HELD:
            return "is held: its executionType is Create", "Set its executionType to Start to start it."
        case JobState.SUSPENDED:
            return "is suspended", f"Resume it with `windlass resume {view.name}`."
        case JobState.PENDING:
            return _summarize_pending(view, explanation)
        case JobState.RUNNING:
            return _summarize_running(view, explanation), ""
        case JobState.STOPPING:
            return (
                f"is stopping attempt {view.attempt}: {_cause(explanation)}; its pods are being deleted",
                "",
            )
        case JobState.RETRYING:
            return f"is retrying: attempt {view.attempt} ended: {_cause(explanation)}", ""
        case JobState.SUCCEEDED:
            retries = explanation.job_retries.total if explanation.job_retries is not None else 0
            attempt = f" in attempt {retries}" if retries else ""
            failed = f", although {view.failed} of its tasks failed" if view.failed else ""
            return f"succeeded{attempt}{failed}", ""
        case JobState.FAILED:
            return f"failed: {_cause(explanation)}", ""
        case JobState.STOPPED:
            return "was stopped on request", ""
    return "is being deleted", ""


def _summarize_submitted(framework: Framework, now: datetime) -> tuple[str, str]:
    created = framework.metadata.creation_timestamp
    age = (now - created).total_seconds() if created is not None else 0.0
    if age < NO_CONTROLLER_SECONDS:
        return "was just submitted; no controller has processed it yet", ""
    advice = (
        "Check whether a controller is running (`kubectl get pods -A | grep windlass`), install one with "
        "`windlass install --apply`, or run one on this machine with `windlass controller`."
    )
    return f"is pending: it was submitted {duration(age)} ago, and no controller has processed it", advice


def _summarize_pending(view: JobView, explanation: Explanation) -> tuple[str, str]:
    if explanation.waits:
        first = explanation.waits[0]
        return f"is pending: {pending.shorten_names(first.tasks)}: {first.reason}", ""
    if not any(view.roles.values()):
        return "is pending: it has no tasks", f"Add a task with `windlass scale {view.name} ROLE=1`."
    return f"is about to start attempt {view.attempt}", ""


def _summarize_running(view: JobView, explanation: Explanation) -> str:
    attempt = f", in attempt {view.attempt}" if view.attempt else ""
    summary = f"is running: {view.running} of {view.total} tasks{attempt}"
    if explanation.failure is not None:
        return f"{summary}; {_failure_text(explanation.failure)}"
    waiting = [name for wait in explanation.waits for name in wait.tasks]
    return f"{summary}; pending: {pending.shorten_names(waiting)}" if waiting else summary


def _cause(explanation: Explanation) -> str:
    """Return how the attempt ended: by a failed task or by another cause."""
    outcome, failure = explanation.outcome, explanation.failure
    if failure is not None and (outcome is None or outcome.code == failure.code):
        return _failure_text(failure)
    if outcome is None:
        return "unknown outcome"
    code = f"{outcome.phrase} ({outcome.code})"
    return f"{code}: {outcome.because}" if outcome.because else code


def _failure_text(failure: Failure) -> str:
    on = f" on {failure.node}" if failure.node else ""
    return f"{views.failure_text(failure.task, failure.code, failure.phrase)}{on}"


def duration(seconds: float) -> str:
    """Return the duration in at most two units, e.g. `3 min` or `1 h 5 min`."""
    total = max(0, int(seconds))
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if total >= size:
            rest = total % size // smaller
            return f"{total // size} {unit} {rest} {name}" if rest else f"{total // size} {unit}"
    return f"{total} s"


# Reading from the cluster


async def read(
    connection: Connection,
    name: str,
    *,
    lines: int = LAST_LINES,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Explanation:
    """Explain a job. Permissions for pods and events are optional.

    Raises ObjectNotFoundError, and the errors of `Connection.send`.
    """
    framework = await lookup.find(connection, name)
    pods: list[Pod] = []
    events: list[Event] = []
    with contextlib.suppress(ForbiddenError):
        pods = await tasks.list_pods(connection, framework)
    with contextlib.suppress(ForbiddenError):
        events = await job_events.read(connection, framework)
    explanation = explain(framework, pods, events, now())
    if explanation.failure is None:
        return explanation
    failure = await _with_lines(connection, explanation.failure, pods, lines)
    return msgspec.structs.replace(explanation, failure=failure)


async def _with_lines(connection: Connection, failure: Failure, pods: Sequence[Pod], count: int) -> Failure:
    """Add the last lines of the log, or those stored in the status if the log has none or cannot be read."""
    stored = failure.lines[-count:] if count else ()
    failure = msgspec.structs.replace(failure, lines=stored, lines_from=failure.lines_from if stored else "")
    pod = next((each for each in pods if each.uid == failure.pod_uid), None)
    if pod is None or not count:
        return failure
    container = failure.container or pod.default_container
    source = Source(pod, container, failure.task)
    # Timestamps distinguish log lines from a message that the kubelet sends in place of a log.
    request = container_log.request(source, connection.namespace, LogOptions(tail=count), has_timestamps=True)
    log: deque[str] = deque(maxlen=count)
    try:
        async for batch in container_log.read_batches(connection, request, source, has_timestamps=True):
            log.extend(line.text for line in batch)
    except ApiError:
        return failure
    if not any(log):
        return failure
    return msgspec.structs.replace(failure, lines=tuple(log), lines_from="log")
