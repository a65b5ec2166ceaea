"""Files that a viewer pastes: check them, simulate their jobs, and submit them.

With a link, the server runs as the viewer, and paths are relative to its working directory. Otherwise a file that names
files of the submitting machine is rejected: they would be those of the server.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from windlass.client.submit import apply, sources, submission
from windlass.client.submit.file_checks import FileChecks
from windlass.client.submit.plan import SubmitOptions
from windlass.client.submit.sources import Source
from windlass.client.timeline import Outcome
from windlass.k8s.formats import is_object_name
from windlass.model.states import State
from windlass.render import documents
from windlass.simulate.plan import simulation
from windlass.simulate.plan.events import Event
from windlass.simulate.plan.pods import TaskBehavior
from windlass.simulate.plan.simulation import Plan
from windlass.web import problems, rows
from windlass.web.calls import Call
from windlass.web.schema import (
    BAR_COLUMNS,
    Diagnostic,
    EventTick,
    JobAttempt,
    JobKey,
    LintAnswer,
    LintRequest,
    PlanAnswer,
    PlanRequest,
    SubmitAnswer,
    SubmitRequest,
    TimelineAnswer,
)
from windlass.web.viewers import Work
from windlass.wire import durations, fault_injection
from windlass.wire.fault_injection import InjectionError

MAX_TEXT_BYTES = 1024 * 1024
MAX_FAULTS = 100
_UNTIL_SECONDS = 30 * 86400.0
_COMPLETION = re.compile(r"\((?P<code>-?\d+)\)(?:, Failed ?(?P<class>[^;]*))?(?:; retrying in .*)?$")
FILE = "job.yaml"


async def lint(call: Call) -> LintAnswer:
    request = await call.body(LintRequest)
    data, name = _bytes_of(request.text), request.name or FILE
    if call.is_own_machine:
        folder = Path.cwd()
        checks = FileChecks(folder, packs_code=True)
        source = await call.viewer.in_thread(
            Work.CHECK, lambda: sources.decode(data, name, folder, checks=checks)
        )
        contents = source.contents
    else:
        contents = await call.viewer.in_thread(Work.CHECK, lambda: documents.read(data, name))
    return LintAnswer(
        jobs=[each.name for each in contents.submissions],
        diagnostics=[
            Diagnostic(severity=each.severity, line=each.line, column=each.column, message=each.message)
            for each in contents.diagnostics
        ],
    )


async def submit(call: Call) -> SubmitAnswer:
    request = await call.body(SubmitRequest)
    connection = call.viewer.at(_namespace_of(call, request.namespace))
    data, is_own_machine = _bytes_of(request.text), call.is_own_machine
    source = await call.viewer.in_thread(Work.CHECK, lambda: _source(data, is_own_machine=is_own_machine))
    _require_jobs(source)
    messages: list[str] = []
    (planned,) = await submission.plan(connection, (source,), SubmitOptions(is_rerun=request.rerun))
    created: list[JobKey] = []
    async for each in apply.apply(connection, planned, lambda progress: messages.append(str(progress))):
        if each.framework is not None:
            created.append(JobKey(namespace=each.framework.namespace, name=each.framework.name))
            messages.append(f"{each.framework.name} submitted to namespace {each.framework.namespace}")
    return SubmitAnswer(created=created, messages=messages)


def _bytes_of(text: str) -> bytes:
    """Return the file. Raises ProblemError if it is too large."""
    data = text.encode(errors="replace")
    if len(data) > MAX_TEXT_BYTES:
        raise problems.ProblemError(
            413, "too-large", f"the file has {len(data):,} bytes; at most {MAX_TEXT_BYTES:,} are accepted"
        )
    return data


def _source(data: bytes, *, is_own_machine: bool) -> Source:
    if is_own_machine:
        folder = Path.cwd()
        return sources.decode(data, FILE, folder, checks=FileChecks(folder))
    return sources.decode_remote(data, FILE)


def _require_jobs(source: Source) -> None:
    """Raise ProblemError with the line of the first error."""
    errors = source.contents.errors
    if errors:
        raise problems.ProblemError(
            400, "invalid-job", "\n".join(str(each) for each in errors[:10]), line=errors[0].line
        )
    if not source.contents.submissions:
        raise problems.ProblemError(400, "invalid-job", f"the file has no job: {sources.NO_JOB}")


# Simulation


async def plan(call: Call) -> PlanAnswer:
    request = await call.body(PlanRequest)
    data, namespace = _bytes_of(request.text), _namespace_of(call, request.namespace)
    if len(request.faults) > MAX_FAULTS:
        raise problems.invalid(f"faults: {len(request.faults)} are too many: at most {MAX_FAULTS}")
    # A simulation of a shared server is part of submitting: it uses the processors of all viewers.
    if not call.is_own_machine and not await call.viewer.may("create", namespace):
        raise problems.forbidden(f"you may not submit jobs in the namespace {namespace}, nor simulate them")
    return await call.viewer.in_thread(Work.SIMULATE, lambda: _plan(data, request.faults, request.job))


def _namespace_of(call: Call, name: str) -> str:
    if name and not is_object_name(name):
        raise problems.invalid(f"namespace: {name[:100]!r} is not a name of Kubernetes")
    return name or call.viewer.connection.namespace


def _plan(data: bytes, faults: Sequence[str], job: str = "") -> PlanAnswer:
    source = Source(documents.read(data, FILE), Path())
    _require_jobs(source)
    chosen = next((each for each in source.contents.submissions if job in ("", each.name)), None)
    if chosen is None:
        raise problems.invalid(f"job: the file has no job {job[:100]!r}")
    framework = simulation.framework_of(chosen)
    tasks = {role.name: role.task_number for role in framework.spec.task_roles}
    try:
        injections = [fault_injection.parse(each) for each in faults]
        fault_injection.require_tasks(injections, tasks)
    except InjectionError as error:
        raise problems.invalid(f"fault: {error}") from error
    behavior = TaskBehavior().with_endless(simulation.endless_roles(chosen))
    found = simulation.plan(framework, injections, behavior, until=_UNTIL_SECONDS)
    total = rows.resources_of(framework.spec)
    return PlanAnswer(verdict=_verdict(found), timeline=_timeline(found, datetime.now(UTC)), requests=total)


def _verdict(found: Plan) -> str:
    outcome = found.outcome
    if outcome.code is None:
        return f"{found.job} does not end: {outcome.why}"
    length = durations.format_seconds(int(outcome.seconds))
    never = "".join(f"\nfault that never occurred: {each}" for each in outcome.never)
    return f"{found.job} ends with {outcome.phrase} ({outcome.code}) after {length}. {outcome.why}{never}"


class _Bar(msgspec.Struct):
    role: str
    index: int
    attempt: int
    task_attempt: int
    created: float
    started: float | None = None
    finished: float | None = None
    outcome: Outcome = Outcome.PENDING
    code: int | None = None
    failure_class: str = ""


def _timeline(found: Plan, start: datetime) -> TimelineAnswer:
    """Convert the events of a plan to the timeline of a job that starts now."""

    def ms(seconds: float | None) -> int | None:
        return None if seconds is None else int((start + timedelta(seconds=seconds)).timestamp() * 1000)

    bars, attempts = _bars(found.events)
    ends = [found.outcome.seconds, *(each.at for each in found.events)]
    last = max(ends) if found.outcome.code is None else found.outcome.seconds
    outcome = Outcome.SUCCEEDED if found.outcome.succeeded else Outcome.FAILED
    return TimelineAnswer(
        now=ms(last) or 0,
        start=ms(0) or 0,
        end=ms(last) or 0,
        columns=BAR_COLUMNS,
        bars=[
            (
                each.role,
                each.index,
                each.attempt,
                each.task_attempt,
                "",
                ms(each.created),
                None,
                None,
                None,
                ms(each.started),
                ms(each.finished),
                each.outcome.value,
                each.code,
                each.failure_class,
                None,
            )
            for each in bars
        ],
        job_attempts=[
            JobAttempt(
                attempt=number,
                started=ms(begin),
                finished=ms(attempts[number + 1] if number + 1 < len(attempts) else found.outcome.seconds),
                outcome=outcome.value if number + 1 == len(attempts) else Outcome.FAILED.value,
                reason=found.outcome.why if number + 1 == len(attempts) else "",
            )
            for number, begin in enumerate(attempts)
        ],
        events=[
            EventTick(
                time=ms(each.at) or 0,
                reason=each.state or "Fault",
                message=each.what,
                object=each.who or found.job,
                type="Normal" if each.state else "Warning",
            )
            for each in found.events
        ],
    )


def _bars(events: Sequence[Event]) -> tuple[list[_Bar], list[float]]:
    """Return the attempts of tasks, and the times at which attempts of the job started."""
    bars: list[_Bar] = []
    latest: dict[tuple[str, int], _Bar] = {}
    attempts = [0.0]
    for event in events:
        if not event.role:
            if "(retries:" in event.what:
                attempts.append(event.at)
            continue
        ended = _COMPLETION.search(event.what)
        for index in event.tasks:
            key = event.role, index
            bar = latest.get(key)
            if event.state == State.ATTEMPT_PREPARING:
                is_retry = bar is not None and bar.attempt == len(attempts) - 1
                number = bar.task_attempt + 1 if bar is not None and is_retry else 0
                bar = latest[key] = _Bar(event.role, index, len(attempts) - 1, number, event.at)
                bars.append(bar)
            elif bar is not None and bar.finished is None and event.state == State.ATTEMPT_RUNNING:
                bar.started, bar.outcome = event.at, Outcome.RUNNING
            elif bar is not None and bar.finished is None and event.state and ended:
                bar.finished, bar.code = event.at, int(ended["code"])
                is_stopped = event.what.startswith("ended with the job")
                failed = Outcome.STOPPED if is_stopped else Outcome.FAILED
                bar.outcome = Outcome.SUCCEEDED if bar.code == 0 else failed
                bar.failure_class = ended["class"] or ""
    return bars, attempts
