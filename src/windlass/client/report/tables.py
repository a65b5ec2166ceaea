"""The tables of a report, as rows of plain texts that `markdown` and `page` escape."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from windlass.client.report.contents import PhaseState, Report, TaskAttempt
from windlass.model import verdict

Row = Sequence[str]


class Table(NamedTuple):
    heads: Row
    rows: Sequence[Row]


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield names and values of the facts about a job."""
    explanation, outcome = report.explanation, report.explanation.outcome
    deleted = " (deleted; read from the records of its attempts)" if report.is_deleted else ""
    yield "job", f"{explanation.job} in the namespace {explanation.namespace}{deleted}"
    yield "state", explanation.state.value
    if outcome is not None:
        yield "code", f"{outcome.code} {outcome.phrase}".strip()
        if outcome.failure_class:
            yield "class", outcome.failure_class
        if outcome.because:
            yield "cause", outcome.because
    yield "tasks", ", ".join(verdict.count(role, number) for role, number in report.roles.items()) or "none"
    yield "created", time(report.created)
    if report.completed is not None:
        yield "completed", f"{time(report.completed)}, after {duration(report.created, report.completed)}"
    yield "UID", report.uid
    for each in report.environment:
        yield f"image of {each.role}/{each.container}", each.image
    yield "versions", f"Windlass {report.windlass}, API server {report.cluster or 'unknown'}"
    yield "report", f"written at {time(report.generated)}"


def job_attempts(report: Report) -> Table:
    rows = [
        (
            str(each.attempt),
            each.state.value,
            time(each.started),
            duration(each.started, each.ended or report.generated),
            each.reason,
            _retried(each.is_retried, each.retry_reason),
        )
        for each in report.attempts
    ]
    return Table(("attempt", "state", "started", "duration", "reason", "retried"), rows)


def task_attempts(report: Report, limit: int) -> Table:
    """Return failed attempts before the others."""
    heads = (
        *("task", "job attempt", "attempt", "state", "code", "class", "node"),
        *("started", "ran", "reason", "retried"),
    )
    return Table(
        heads, [_task_row(each) for each in sorted(report.tasks, key=lambda each: not each.is_failed)[:limit]]
    )


def _task_row(each: TaskAttempt) -> Row:
    since = {phase.state: phase.since for phase in each.phases}
    ran = duration(since.get(PhaseState.RUNNING), since.get(PhaseState.ENDING, each.ended))
    return (
        each.task,
        str(each.job_attempt),
        str(each.attempt),
        each.state.value,
        "" if each.code is None else str(each.code),
        each.failure_class,
        each.node,
        time(each.phases[0].since),
        ran,
        each.reason,
        _retried(each.is_retried, each.retry_reason),
    )


def failures(report: Report) -> Table:
    rows = [
        (
            str(each.count),
            each.failure_class,
            each.meaning,
            f"{each.code} {each.phrase}",
            each.first_task,
            each.first_reason,
        )
        for each in report.failures
    ]
    return Table(("count", "class", "meaning", "code", "first task", "reason"), rows)


def events(report: Report, limit: int) -> Table:
    """Return the last events."""
    rows = [
        (time(each.last), str(each.count), each.type, each.object, each.reason, each.message)
        for each in report.events[-limit:]
    ]
    return Table(("last", "count", "type", "object", "reason", "message"), rows)


def variables(report: Report) -> Table:
    rows = [
        (each.role, each.container, variable.name, variable.value or variable.source)
        for each in report.environment
        for variable in each.variables
    ]
    return Table(("role", "container", "name", "value"), rows)


def time(moment: datetime | None) -> str:
    """Return the time in UTC."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(begin: datetime | None, end: datetime | None) -> str:
    """Return the duration in words; empty if a time is unknown."""
    return verdict.format_duration((end - begin).total_seconds()) if begin and end else ""


def _retried(is_retried: bool | None, reason: str) -> str:
    if is_retried is None:
        return ""
    answer = "yes" if is_retried else "no"
    return f"{answer}: {reason}" if reason else answer
