"""Reports with any number of tasks and any text, for the tests of their formats."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from builders import NOW

from windlass.client.events import Event
from windlass.client.explain.explanation import Explanation
from windlass.client.explain.failures import Failure
from windlass.client.history import AttemptView
from windlass.client.report.contents import (
    ContainerEnvironment,
    FailureGroup,
    Log,
    Phase,
    PhaseState,
    Report,
    TaskAttempt,
)
from windlass.client.report.masking import Variable
from windlass.client.report.writing import Writer
from windlass.client.views import JobState, TaskState

HOSTILE = "</script><img src=x onerror=alert(1)> --> ]]> `|` ``` @user #1 \x1b[31mred\x1b]0;title\x07 \x00 \u202eabc"
SECOND = timedelta(seconds=1)


def task(index: int = 0, *, is_failed: bool = False, text: str = "", **more: Any) -> TaskAttempt:
    begin = NOW + index % 100 * SECOND
    failed: dict[str, Any] = {
        "state": TaskState.FAILED,
        "code": 3,
        "failure_class": "Permanent",
        "reason": f"exited with code 3: {text}",
        "is_retried": False,
        "retry_reason": "permanent failure",
    }
    ended: dict[str, Any] = {
        "job_attempt": 0,
        "role": "worker",
        "index": index,
        "attempt": 0,
        "phases": (
            Phase(state=PhaseState.PENDING, since=begin),
            Phase(state=PhaseState.STARTING, since=begin + SECOND),
            Phase(state=PhaseState.RUNNING, since=begin + 5 * SECOND),
            Phase(state=PhaseState.ENDING, since=begin + 28 * SECOND),
        ),
        "ended": begin + 30 * SECOND,
        "node": "node-1",
        "pod": f"digits-worker-{index}",
    }
    outcome = failed if is_failed else {"state": TaskState.SUCCEEDED, "code": 0}
    return TaskAttempt(**(ended | outcome | more))


def report(tasks: Sequence[TaskAttempt] = (), text: str = "", events: int = 1, **more: Any) -> Report:
    """Return a report in which `text` is everywhere where users, tasks and servers determine the text."""
    failure = Failure(
        task="worker-1",
        attempt=0,
        code=3,
        phrase="",
        failure_class="Permanent",
        message=text,
        lines=(text, "last line"),
        lines_from="log",
        hint=text,
    )
    happened = Event(NOW, NOW, 1, "Warning", "TaskFailed", "worker-1", text)
    return Report(
        generated=NOW + 200 * SECOND,
        windlass="1.0",
        cluster="v1.36.0+windlass",
        notes=(text,) if text else (),
        uid="uid-1",
        created=NOW,
        completed=NOW + 150 * SECOND,
        roles={"worker": len(tasks)},
        explanation=Explanation(
            job="digits",
            namespace="default",
            state=JobState.FAILED,
            verdict="failed",
            message=f"digits failed: worker-1 exited with code 3: {text}",
            failure=failure,
        ),
        attempts=(
            AttemptView(
                attempt=0,
                state=JobState.FAILED,
                reason=text,
                started=NOW,
                is_retried=False,
                retry_reason=text,
            ),
        ),
        failures=(
            FailureGroup(
                failure_class="Permanent",
                meaning="would fail again when retried",
                code=3,
                phrase="",
                count=1,
                first_task="worker-1",
                first_reason=text,
            ),
        ),
        events=(happened,) * events,
        tasks=tuple(tasks),
        environment=(
            ContainerEnvironment(
                role="worker", container="main", image="python", variables=(Variable("TEXT", text),)
            ),
        ),
        framework={
            "metadata": {"name": "digits", "annotations": {"text": text}},
            "spec": {"description": text},
        },
        **more,
    )


def log_of(attempt: TaskAttempt) -> Log:
    return Log(task=attempt.task, job_attempt=attempt.job_attempt, attempt=attempt.attempt, container="main")


def write(
    make: Callable[[Callable[[bytes], object]], Writer],
    write_bytes: Callable[[bytes], object],
    contents: Report,
    logs: Iterable[tuple[Log, Iterable[str]]] = (),
    note: str = "",
) -> None:
    """Write a report with logs whose lines have timestamps."""
    writer = make(write_bytes)
    writer.begin(contents)
    for log, lines in logs:
        writer.begin_log(log)
        for line in lines:
            writer.add_line("2026-01-01T10:11:12.5Z", line)
        writer.end_log(note)
    writer.end()
