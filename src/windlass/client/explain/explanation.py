"""Explain why a job failed or is pending: the first failed task, its last log lines, and the retries.

`explain` is a pure function of the Framework, its pods and its events. Without pods and events it uses the status only.
"""

import contextlib
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
from windlass.client.explain.pending import Wait
from windlass.client.explain.retries import Retries
from windlass.client.logs import container_log
from windlass.client.logs.container_log import LogOptions, Source
from windlass.client.pods import Pod
from windlass.client.views import JobState
from windlass.kubeapi.errors import ApiError, ForbiddenError
from windlass.model.completion import FrameworkAttemptCompletionStatus
from windlass.model.framework import Framework

NO_CONTROLLER_SECONDS = 15.0
"""Age after which a job without status is assumed to have no controller."""
LAST_LINES = 10
MAX_HISTORY = 10
_HISTORY_REASONS = ("TaskFailed", "TaskRetried", "AttemptEnding", "FrameworkRetried", "RetryScheduled")
"""Reasons of the events about the ends of earlier attempts."""


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
    """Outcome of the attempt; None while it is running."""
    failure: Failure | None = None
    """First failure of the attempt."""
    task_retries: Retries | None = None
    """Retries of the failed task."""
    job_retries: Retries | None = None
    waits: tuple[Wait, ...] = ()
    advice: str = ""
    history: tuple[Event, ...] = ()
    """Events about earlier attempts of the job and its tasks."""


# Pure


def explain(framework: Framework, pods: Sequence[Pod], events: Sequence[Event], now: datetime) -> Explanation:
    seen = views.job_view(framework)
    failure = failures.first_failure(framework)
    outcome = _outcome(framework)
    known = Explanation(
        job=framework.name,
        namespace=framework.namespace,
        state=seen.state,
        summary="",
        attempt=seen.attempt,
        since=seen.completed or seen.changed or seen.created,
        outcome=outcome,
        failure=failure,
        job_retries=explain_retries.of_job(framework),
        task_retries=_retries_of(framework, failure),
        waits=() if outcome is not None else pending.waits(framework, pods, events),
        history=_history(framework, events),
    )
    summary, advice = _summarize(_Case(framework, known, now))
    return msgspec.structs.replace(known, summary=f"{framework.name} {summary}", advice=advice)


def _outcome(framework: Framework) -> Outcome | None:
    ended = None if framework.status is None else framework.status.attempt_status.completion_status
    if ended is None:
        return None
    return Outcome(
        code=ended.code,
        phrase=ended.phrase,
        failure_class=failures.class_of(ended.type) if ended.type.is_failed else "",
        because=_because(ended),
    )


def _because(ended: FrameworkAttemptCompletionStatus) -> str:
    trigger = ended.trigger
    if trigger is None:
        return ended.diagnostics
    return f"{trigger.message} (by {trigger.task_role_name}-{trigger.task_index})"


def _retries_of(framework: Framework, failure: Failure | None) -> Retries | None:
    if failure is None:
        return None
    return explain_retries.of_task(framework, tasks.parse_task(f"{framework.name}/{failure.task}")[1])


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

_Summary = tuple[str, str]


class _Case(msgspec.Struct, frozen=True):
    framework: Framework
    known: Explanation
    now: datetime


def _submitted(case: _Case) -> _Summary:
    created = case.framework.metadata.creation_timestamp
    age = (case.now - created).total_seconds() if created is not None else 0.0
    if age < NO_CONTROLLER_SECONDS:
        return "was just submitted; no controller has processed it yet", ""
    advice = (
        "Check whether a controller is running (`kubectl get pods -A | grep windlass`), install one with "
        "`windlass install --apply`, or run one on this machine with `windlass controller`."
    )
    return f"is pending: no controller has processed it for {duration(age)}", advice


def _blocked(case: _Case) -> _Summary:
    return f"is blocked: {views.job_view(case.framework).reason}", ""


def _suspended(case: _Case) -> _Summary:
    return "is suspended", f"Resume it with `windlass resume {case.framework.name}`."


def _pending(case: _Case) -> _Summary:
    if case.known.waits:
        first = case.known.waits[0]
        return f"is pending: {pending.named(first.tasks)}: {first.reason}", ""
    has_tasks = any(role.task_number for role in case.framework.spec.task_roles)
    if not has_tasks:
        scale = f"Add a task with `windlass scale {case.framework.name} ROLE=1`."
        return "is pending: it has no tasks", scale
    return f"is about to start attempt {case.known.attempt}", ""


def _running(case: _Case) -> _Summary:
    view = views.job_view(case.framework)
    how = f"is running: {view.running} of {view.total} tasks"
    again = f", in attempt {case.known.attempt}" if case.known.attempt else ""
    if case.known.failure is not None:
        return f"{how}{again}; {_failed(case.known.failure)}", ""
    waiting = [name for wait in case.known.waits for name in wait.tasks]
    return f"{how}{again}" + (f"; pending: {pending.named(waiting)}" if waiting else ""), ""


def _stopping(case: _Case) -> _Summary:
    return f"is stopping attempt {case.known.attempt}: {_ended(case.known)}; its pods are being deleted", ""


def _retrying(case: _Case) -> _Summary:
    return f"completed attempt {case.known.attempt}: {_ended(case.known)}", ""


def _succeeded(case: _Case) -> _Summary:
    failed = 0 if case.framework.status is None else case.framework.status.summary.failed
    although = f", although {failed} of its tasks failed" if failed else ""
    retries = case.known.job_retries.total if case.known.job_retries is not None else 0
    after = f" in attempt {retries}" if retries else ""
    return f"succeeded{after}{although}", ""


def _failed_job(case: _Case) -> _Summary:
    return f"failed: {_ended(case.known)}", ""


_SUMMARIES: dict[JobState, Callable[[_Case], _Summary]] = {
    JobState.SUBMITTED: _submitted,
    JobState.BLOCKED: _blocked,
    JobState.SUSPENDED: _suspended,
    JobState.PENDING: _pending,
    JobState.RUNNING: _running,
    JobState.STOPPING: _stopping,
    JobState.RETRYING: _retrying,
    JobState.SUCCEEDED: _succeeded,
    JobState.FAILED: _failed_job,
}


_FIXED: dict[JobState, _Summary] = {
    JobState.HELD: (
        "is held: its executionType is Create",
        "Set its executionType to Start to start it.",
    ),
    JobState.STOPPED: ("was stopped on request", ""),
    JobState.DELETING: ("is being deleted", ""),
}


def _summarize(case: _Case) -> _Summary:
    state = case.known.state
    return _FIXED[state] if state in _FIXED else _SUMMARIES[state](case)


def _ended(known: Explanation) -> str:
    """Return how the attempt ended: by a failed task or by another cause."""
    outcome, failure = known.outcome, known.failure
    if failure is not None and (outcome is None or outcome.code == failure.code):
        return _failed(failure)
    if outcome is None:
        return "unknown outcome"
    code = f"{outcome.phrase} ({outcome.code})"
    return f"{code}: {outcome.because}" if outcome.because else code


def _failed(failure: Failure) -> str:
    on = f" on {failure.node}" if failure.node else ""
    return f"{views.failure_text(failure.task, failure.code, failure.phrase)}{on}"


def duration(seconds: float) -> str:
    """Return the duration in at most two units, e.g. `3 min` or `1 h 5 min`."""
    whole = max(0, int(seconds))
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {name}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


# Reading from the cluster


async def read(
    connection: Connection,
    name: str,
    *,
    lines: int = LAST_LINES,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Explanation:
    """Explain a job. Permissions for pods and events are optional.

    Raises ObjectNotFoundError, and what `Connection.send` raises.
    """
    framework = await lookup.find(connection, name)
    pods: list[Pod] = []
    events: list[Event] = []
    with contextlib.suppress(ForbiddenError):
        pods = await tasks.list_pods(connection, framework)
    with contextlib.suppress(ForbiddenError):
        events = await job_events.read(connection, framework)
    found = explain(framework, pods, events, now())
    if found.failure is None:
        return found
    failure = await _with_lines(connection, found.failure, pods, lines)
    return msgspec.structs.replace(found, failure=failure)


async def _with_lines(connection: Connection, failure: Failure, pods: Sequence[Pod], count: int) -> Failure:
    """Add the last lines of the log, or those stored in the status if there is no log."""
    kept = failure.lines[-count:] if count else ()
    failure = msgspec.structs.replace(failure, lines=kept, lines_from=failure.lines_from if kept else "")
    pod = next((each for each in pods if each.uid == failure.pod_uid), None)
    if pod is None or not count:
        return failure
    container = failure.container or pod.default_container
    source = Source(pod, container, failure.task)
    # A message of the kubelet in place of a log has no timestamp.
    request = container_log.request(source, connection.namespace, LogOptions(tail=count), times=True)
    try:
        written = [
            line.text async for line in container_log.lines_of(connection, request, source, times=True)
        ]
    except ApiError:
        return failure
    if not any(written):
        return failure
    return msgspec.structs.replace(failure, lines=tuple(written[-count:]), lines_from="log")
