"""Why a job failed, or what it waits for: the first task that failed, its last lines, and what the retry policies did.

What is said follows from the Framework, its pods and its events by a pure function; without pods and events, from what
the status keeps.
"""

import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from windlass.client import events as happenings
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

NOTICE_SECONDS = 15.0
"""A job that nobody has taken up by then has no controller."""
LAST_LINES = 10
MOST_HISTORY = 10
_OF_EARLIER_ATTEMPTS = ("TaskFailed", "TaskRetried", "AttemptEnding", "FrameworkRetried", "RetryScheduled")
"""The events of the controller that say how earlier attempts ended and what followed."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the attempt of the job ended."""

    code: int
    phrase: str
    failure_class: str = msgspec.field(name="class", default="")
    """Empty for a success."""
    because: str = ""
    """Which rule was met, or what ended it otherwise."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    job: str
    namespace: str
    state: JobState
    summary: str
    """All of it in one sentence."""
    attempt: int = 0
    since: datetime | None = None
    """When it came into this state."""
    outcome: Outcome | None = None
    """Of the attempt, once that is decided."""
    failure: Failure | None = None
    """The first of the attempt."""
    task_retries: Retries | None = None
    """Of the task that failed."""
    job_retries: Retries | None = None
    waits: tuple[Wait, ...] = ()
    advice: str = ""
    history: tuple[Event, ...] = ()
    """What the controller has said of the attempts before this one, of the job and of its tasks."""


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
    summary, advice = _said(_Case(framework, known, now))
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
    return f"{trigger.message} (decided by {trigger.task_role_name}-{trigger.task_index})"


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
    told = [event for event in events if event.uid == framework.uid and event.reason in _OF_EARLIER_ATTEMPTS]
    return tuple(told[-MOST_HISTORY:])


# What each state is called in words, and what to do about it

_Said = tuple[str, str]


class _Case(msgspec.Struct, frozen=True):
    framework: Framework
    known: Explanation
    now: datetime


def _of_submitted(case: _Case) -> _Said:
    created = case.framework.metadata.creation_timestamp
    age = (case.now - created).total_seconds() if created is not None else 0.0
    if age < NOTICE_SECONDS:
        return "was submitted a moment ago, and no controller has taken it up yet", ""
    advice = (
        "Look whether one runs (`kubectl get pods -A | grep windlass`), put one on the cluster with "
        "`windlass install --apply`, or run one from here with `windlass controller`."
    )
    return f"waits for a controller: none has taken it up in {duration(age)}, so none seems to run", advice


def _of_blocked(case: _Case) -> _Said:
    return f"is not run by the controller: {views.job_view(case.framework).reason}", ""


def _of_suspended(case: _Case) -> _Said:
    return "is suspended, and has no pods", f"`windlass resume {case.framework.name}` lets it go on."


def _of_pending(case: _Case) -> _Said:
    if case.known.waits:
        first = case.known.waits[0]
        return f"waits: {pending.named(first.tasks)}: {first.reason}", ""
    has_tasks = any(role.task_number for role in case.framework.spec.task_roles)
    if not has_tasks:
        scale = f"`windlass scale {case.framework.name} ROLE=1` gives it one."
        return "waits: it has no tasks", scale
    return f"is about to start attempt {case.known.attempt}", ""


def _of_running(case: _Case) -> _Said:
    view = views.job_view(case.framework)
    how = f"runs: {view.running} of {view.total} tasks run"
    again = f", in attempt {case.known.attempt}" if case.known.attempt else ""
    if case.known.failure is not None:
        return f"{how}{again}; {_failed(case.known.failure)}", ""
    waiting = [name for wait in case.known.waits for name in wait.tasks]
    return f"{how}{again}" + (f"; {pending.named(waiting)} wait" if waiting else ""), ""


def _of_stopping(case: _Case) -> _Said:
    return f"ends attempt {case.known.attempt}: {_ended(case.known)}; its pods are on their way out", ""


def _of_retrying(case: _Case) -> _Said:
    return f"has ended attempt {case.known.attempt}: {_ended(case.known)}", ""


def _of_succeeded(case: _Case) -> _Said:
    failed = 0 if case.framework.status is None else case.framework.status.summary.failed
    although = f", although {failed} of its tasks failed" if failed else ""
    retries = case.known.job_retries.total if case.known.job_retries is not None else 0
    after = f" at attempt {retries}" if retries else ""
    return f"succeeded{after}{although}", ""


def _of_failed(case: _Case) -> _Said:
    return f"failed: {_ended(case.known)}", ""


_SUMMARIES: dict[JobState, Callable[[_Case], _Said]] = {
    JobState.SUBMITTED: _of_submitted,
    JobState.BLOCKED: _of_blocked,
    JobState.SUSPENDED: _of_suspended,
    JobState.PENDING: _of_pending,
    JobState.RUNNING: _of_running,
    JobState.STOPPING: _of_stopping,
    JobState.RETRYING: _of_retrying,
    JobState.SUCCEEDED: _of_succeeded,
    JobState.FAILED: _of_failed,
}


_FIXED: dict[JobState, _Said] = {
    JobState.HELD: (
        "is held: its executionType is Create",
        "It begins when its executionType becomes Start.",
    ),
    JobState.STOPPED: ("was stopped: somebody asked for it", ""),
    JobState.DELETING: ("is being deleted", ""),
}


def _said(case: _Case) -> _Said:
    state = case.known.state
    return _FIXED[state] if state in _FIXED else _SUMMARIES[state](case)


def _ended(known: Explanation) -> str:
    """By a task, or in another way."""
    outcome, failure = known.outcome, known.failure
    if failure is not None and (outcome is None or outcome.code == failure.code):
        return _failed(failure)
    if outcome is None:
        return "how is not known"
    said = f"{outcome.phrase} ({outcome.code})"
    return f"{said}: {outcome.because}" if outcome.because else said


def _failed(failure: Failure) -> str:
    on = f" on {failure.node}" if failure.node else ""
    return f"{failure.task} ended with {failure.code} ({failure.phrase}){on}"


def duration(seconds: float) -> str:
    """`3 min`; the largest two units at most, so that it is read at a glance."""
    whole = max(0, int(seconds))
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {name}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


# With what the cluster says


async def read(
    connection: Connection,
    name: str,
    *,
    lines: int = LAST_LINES,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Explanation:
    """Raises NotThereError, and what `Connection.send` raises. Rights on pods and events are not needed."""
    framework = await lookup.find(connection, name)
    pods: list[Pod] = []
    events: list[Event] = []
    with contextlib.suppress(ForbiddenError):
        pods = await tasks.list_pods(connection, framework)
    with contextlib.suppress(ForbiddenError):
        events = await happenings.read(connection, framework)
    found = explain(framework, pods, events, now())
    if found.failure is None:
        return found
    failure = await _with_lines(connection, found.failure, pods, lines)
    return msgspec.structs.replace(found, failure=failure)


async def _with_lines(connection: Connection, failure: Failure, pods: Sequence[Pod], count: int) -> Failure:
    """Those of the log, where there is one; otherwise what the status keeps of it."""
    kept = failure.lines[-count:] if count else ()
    failure = msgspec.structs.replace(failure, lines=kept, lines_from=failure.lines_from if kept else "")
    pod = next((each for each in pods if each.uid == failure.pod_uid), None)
    if pod is None or not count:
        return failure
    container = failure.container or pod.default_container
    source = Source(pod, container, failure.task)
    # With times: they tell a line of the log from what a node says in place of one that is gone.
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
