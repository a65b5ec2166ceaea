"""Keep the current state of a run: collect reports about jobs and tasks, and return a `View`.

This module does not draw and does not read a clock.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from windlass.cli.terminal import text as terminal_text
from windlass.cli.terminal.live_view import JobSummary, Phase, Row, View
from windlass.client.usage import Usage
from windlass.model import names
from windlass.model.completion import CompletionCode
from windlass.model.framework import Framework
from windlass.model.states import OVER_STATES, State
from windlass.model.status import FrameworkStatus, TaskStatus
from windlass.render.manifest import Manifest
from windlass.runner.report import Line, LogLines, ProgressLine, Topic, UnfinishedLine
from windlass.wire import progress

MAX_LINE_LENGTH = 1000
"""Maximum number of characters to keep of a log line or of a message about a problem."""

_PHASES = {
    State.ATTEMPT_CREATION_PENDING: Phase.WAITING,
    State.ATTEMPT_CREATION_REQUESTED: Phase.STARTING,
    State.ATTEMPT_PREPARING: Phase.STARTING,
    State.ATTEMPT_RUNNING: Phase.RUNNING,
    State.ATTEMPT_DELETION_PENDING: Phase.STOPPING,
    State.ATTEMPT_DELETION_REQUESTED: Phase.STOPPING,
    State.ATTEMPT_DELETING: Phase.STOPPING,
    State.ATTEMPT_COMPLETED: Phase.RETRYING,
}
_STOPPED_CODES = frozenset(
    {
        CompletionCode.STOP_FRAMEWORK_REQUESTED,
        CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION,
        CompletionCode.DELETE_TASK_REQUESTED,
        CompletionCode.FRAMEWORK_SUSPENDED,
    }
)
USAGE_FIELDS = tuple(field.name for field in msgspec.structs.fields(Usage))
"""Fields of a row with the resource usage of the task."""
REASONS_IN_TABLE = ("Scheduled", "Running", "Succeeded", "Failed", "Stopped")
"""Reasons of lines about pods that repeat what the table, a line about a retry or the verdict shows."""
_LIFECYCLE_REASONS = (*REASONS_IN_TABLE, "Deleted", "Restarted")
"""Reasons of lines about the lifecycle of a pod. A line with any other reason reports a problem."""


class Board:
    def __init__(self, jobs: Sequence[Manifest], start: datetime) -> None:
        self._jobs = jobs
        self._start = start
        self._frameworks: dict[tuple[str, str], Framework] = {}
        self._rows = {job.key: {name: Row(name) for name in job.display_names} for job in jobs}
        self._attempts: dict[str, tuple[int, int]] = {}
        """IDs of the current attempts of the job and of the task, by task name."""
        self._job_of = {name: job.key for job in jobs for name in job.display_names}
        self._output_pods: dict[str, str] = {}
        """UIDs of the pods whose output was seen last, by task name."""
        self._ended_pods: set[str] = set()
        """UIDs of the pods of earlier attempts, whose output may arrive late."""

    def update_status(self, job: Manifest, framework: Framework) -> None:
        status = framework.status
        if status is None:
            return
        self._frameworks[job.key] = framework
        spec_rows = {name: Row(name) for name in _spec_task_names(job, framework)}
        status_rows = {}
        for role in status.attempt_status.roles:
            for task in role.task_statuses:
                name = f"{job.display_prefix}{names.host_name(role.name, task.index)}"
                row = _updated_row(self._previous_row(job, name, status, task), task)
                if row.phase.is_starting and name in self._output_pods:
                    row = msgspec.structs.replace(row, phase=Phase.RUNNING, problem="")
                status_rows[name] = row
        self._rows[job.key] = status_rows | {
            name: row for name, row in spec_rows.items() if name not in status_rows
        }
        self._job_of.update((name, job.key) for name in self._rows[job.key])

    def add_log_lines(self, item: LogLines) -> None:
        """Show the last line that is not empty, and remember the last result line."""
        self._note_output(item)
        lines = item.data.split(b"\n")
        if result := next((line for line in reversed(lines) if progress.is_result(line)), b""):
            self._change(item.object, result=_visible(result))
        if line := next(filter(None, map(_visible, reversed(lines))), ""):
            self._change(item.object, line=line)

    def show_unfinished_line(self, item: UnfinishedLine) -> None:
        """Show the state of an incomplete line, e.g. of a progress bar."""
        if state := _visible(item.state):
            self._note_output(item)
            self._change(item.object, line=state)

    def _note_output(self, item: LogLines | UnfinishedLine) -> None:
        """Show a task as running when its output appears: its status arrives later."""
        row = self._row(item.object)
        if row is None or item.is_init or item.pod in self._ended_pods:
            return
        self._output_pods[item.object] = item.pod
        if row.phase.is_starting:
            self._change(item.object, phase=Phase.RUNNING, problem="")

    def show_problem(self, item: Line) -> None:
        """If the line reports a problem of a starting task, show it in the row of the task until the task runs."""
        is_problem = item.event is Topic.POD and item.reason not in _LIFECYCLE_REASONS
        row = self._row(item.object)
        if is_problem and row is not None and row.phase.is_starting:
            self._change(item.object, problem=terminal_text.printable(item.message[:MAX_LINE_LENGTH]))

    def update_progress(self, item: ProgressLine) -> None:
        values = terminal_text.printable(" ".join(f"{name}={value}" for name, value in item.values.items()))
        line = {"line": values} if values else {}
        self._change(item.object, progress=item.progress, remaining=item.remaining, **line)

    def update_usage(self, usage: Mapping[tuple[str, str], Usage]) -> None:
        """Update the resource usage, given by namespace and name of the pods."""
        for job in self._jobs:
            for name, row in self._rows[job.key].items():
                pod = f"{job.name}-{name.removeprefix(job.display_prefix)}"
                used = usage.get((job.namespace, pod)) if row.phase is Phase.RUNNING else None
                values = {field: getattr(used, field, None) for field in USAGE_FIELDS}
                if any(getattr(row, field) != value for field, value in values.items()):
                    self._change(name, **values)

    def view(self, now: datetime, *, has_colours: bool = False) -> View:
        rows = tuple(row for job in self._jobs for row in self._rows[job.key].values())
        return View(tuple(self._job_summary(job, now) for job in self._jobs), rows, has_colours)

    def _previous_row(self, job: Manifest, name: str, status: FrameworkStatus, task: TaskStatus) -> Row:
        """Return the row to update: in a new attempt, a row with only the name and the last log line."""
        row = self._rows[job.key].get(name) or Row(name)
        attempt = (status.attempt_status.id, task.attempt_status.id)
        is_new_attempt = self._attempts.get(name, attempt) != attempt
        self._attempts[name] = attempt
        if not is_new_attempt:
            return row
        if pod := self._output_pods.pop(name, ""):
            self._ended_pods.add(pod)
        return Row(name, line=row.line)

    def _job_summary(self, job: Manifest, now: datetime) -> JobSummary:
        counts = tuple(Counter(row.phase for row in self._rows[job.key].values()).items())
        framework = self._frameworks.get(job.key)
        status = framework.status if framework is not None else None
        if status is None:
            return JobSummary(job.name, "submitted", _seconds(now, self._start), tasks=counts)
        seconds = _seconds(status.completion_time or now, self._start)
        retries = status.retry_policy_status.total_retried_count
        return JobSummary(job.name, _state(status), seconds, retries, counts)

    def _row(self, name: str) -> Row | None:
        key = self._job_of.get(name)
        return self._rows[key].get(name) if key is not None else None

    def _change(self, name: str, **fields: object) -> None:
        row = self._row(name)
        if row is not None:
            self._rows[self._job_of[name]][name] = msgspec.structs.replace(row, **fields)


def _visible(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    if len(text) > MAX_LINE_LENGTH:
        # The latest state of a progress bar is at the end of the line.
        text = text[-MAX_LINE_LENGTH:] if "\r" in text else text[:MAX_LINE_LENGTH]
    return terminal_text.printable(text).strip()


def _spec_task_names(job: Manifest, framework: Framework) -> Iterator[str]:
    for role in framework.spec.task_roles:
        for index in range(role.task_number):
            yield f"{job.display_prefix}{names.host_name(role.name, index)}"


def _updated_row(row: Row, task: TaskStatus) -> Row:
    attempt = task.attempt_status
    phase, code = _phase_and_code(task)
    return msgspec.structs.replace(
        row,
        phase=phase,
        code=code,
        attempt=attempt.id,
        node=terminal_text.printable(attempt.pod_node_name or ""),
        **({} if phase is Phase.RUNNING else dict.fromkeys(USAGE_FIELDS)),
        problem=row.problem if phase.is_starting else "",
    )


def _phase_and_code(task: TaskStatus) -> tuple[Phase, int | None]:
    completion = task.attempt_status.completion_status
    if task.state not in OVER_STATES or completion is None:
        return _PHASES.get(task.state, Phase.STOPPED), None
    if not completion.type.is_failed:
        return Phase.SUCCEEDED, None
    if completion.code in _STOPPED_CODES:
        return Phase.STOPPED, None
    return (Phase.FAILED if task.state is State.COMPLETED else Phase.RETRYING), completion.code


def _state(status: FrameworkStatus) -> str:
    completion = status.attempt_status.completion_status
    if status.state is not State.COMPLETED or completion is None:
        return _PHASES.get(status.state, Phase.STOPPED)
    if completion.code == CompletionCode.STOP_FRAMEWORK_REQUESTED:
        return Phase.STOPPED
    return Phase.FAILED if completion.type.is_failed else Phase.SUCCEEDED


def _seconds(end: datetime, start: datetime) -> int:
    return max(0, int((end - start).total_seconds()))
