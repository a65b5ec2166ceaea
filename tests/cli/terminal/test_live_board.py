"""The current state of a run: reports in, a view out."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import builders
import msgspec
import pytest

from windlass.cli.terminal import live_view
from windlass.cli.terminal.live_board import Board
from windlass.cli.terminal.live_view import JobSummary, Phase, Row
from windlass.client.usage import Usage
from windlass.model.completion import (
    PERMANENT,
    SUCCEEDED,
    CompletionCode,
    FrameworkAttemptCompletionStatus,
    TaskAttemptCompletionStatus,
    task_completion,
)
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    RetryPolicyStatus,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)
from windlass.render.manifest import Manifest
from windlass.runner.report import Line, LogLines, ProgressLine, Source, Topic, UnfinishedLine
from windlass.wire.progress import Progress

BEGAN = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)
NOW = BEGAN + timedelta(seconds=65)


def job(prefix: str = "", name: str = "job") -> Manifest:
    return Manifest(
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": 2}]},
        },
        prefix,
    )


def task(
    index: int, state: State, ended: TaskAttemptCompletionStatus | None = None, attempt: int = 0
) -> TaskStatus:
    of_attempt = TaskAttemptStatus(
        id=attempt,
        start_time=BEGAN,
        pod_name=f"job-worker-{index}",
        pod_node_name="laptop",
        completion_status=ended,
    )
    return TaskStatus(
        index=index, start_time=BEGAN, state=state, transition_time=BEGAN, attempt_status=of_attempt
    )


def framework(
    *tasks: TaskStatus, state: State = State.ATTEMPT_RUNNING, attempt: int = 0, **status: Any
) -> Framework:
    roles = (TaskRoleStatus(name="worker", task_statuses=tasks),)
    of_attempt = FrameworkAttemptStatus(
        id=attempt,
        start_time=BEGAN,
        config_map_name="job-attempt",
        task_role_statuses=roles,
        completion_status=status.pop("ended", None),
    )
    found = FrameworkStatus(
        start_time=BEGAN, transition_time=BEGAN, state=state, attempt_status=of_attempt, **status
    )
    role = builders.role("worker", 2)
    return builders.framework("job", role).with_status(found)


def board(*frameworks: Framework) -> Board:
    found = Board([job()], BEGAN)
    for each in frameworks:
        found.update_status(job(), each)
    return found


def rows(found: Board) -> Sequence[Row]:
    return found.view(NOW).rows


FAILED = TaskAttemptCompletionStatus(137, "Killed", PERMANENT, "")
DONE = TaskAttemptCompletionStatus(0, "Succeeded", SUCCEEDED, "")
STATES = {
    "nothing-yet": (State.ATTEMPT_CREATION_PENDING, None, Phase.WAITING, None),
    "asked-for": (State.ATTEMPT_CREATION_REQUESTED, None, Phase.STARTING, None),
    "preparing": (State.ATTEMPT_PREPARING, None, Phase.STARTING, None),
    "running": (State.ATTEMPT_RUNNING, None, Phase.RUNNING, None),
    "being-deleted": (State.ATTEMPT_DELETING, DONE, Phase.STOPPING, None),
    "retrying": (State.ATTEMPT_COMPLETED, FAILED, Phase.RETRYING, 137),
    "failed": (State.COMPLETED, FAILED, Phase.FAILED, 137),
    "succeeded": (State.COMPLETED, DONE, Phase.SUCCEEDED, None),
    "stopped-with-the-job": (
        State.COMPLETED,
        task_completion(CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, ""),
        Phase.STOPPED,
        None,
    ),
}


@pytest.mark.parametrize(("state", "ended", "phase", "code"), STATES.values(), ids=STATES.keys())
def test_phase_of_a_task(
    state: State, ended: TaskAttemptCompletionStatus | None, phase: Phase, code: int | None
) -> None:
    first, second = rows(board(framework(task(0, state, ended))))
    assert (first.phase, first.code, first.node) == (phase, code, "laptop")
    assert second == Row("worker-1"), "it has no status yet"


RUNNING = framework(task(0, State.ATTEMPT_RUNNING), task(1, State.ATTEMPT_RUNNING))


def log(line: str, name: str = "worker-0") -> LogLines:
    return LogLines(Topic.LOG, NOW, name, "main", line.encode())


LINES = {
    "last-line-is-used": (["a", "b"], "b"),
    "blank-lines-are-ignored": (["a", "", " \t"], "a"),
    "control-characters-are-removed": (["\x1b[2J\x1b[31mred\x07"], "red"),
    "very-long-line": (["x" * 100_000], "x" * 1000),
    "long-progress-bar": (["." * 5000 + "\r99%"], "99%"),
}


@pytest.mark.parametrize(("lines", "expected"), LINES.values(), ids=LINES.keys())
def test_last_log_line_is_shown(lines: list[str], expected: str) -> None:
    found = board(RUNNING)
    for line in lines:
        found.add_log_lines(log(line))
    found.add_log_lines(log("of a pod that runs no task", "sidecar"))
    assert [row.line for row in rows(found)] == [expected, ""]


def test_ended_task_shows_its_last_result_line() -> None:
    """Libraries write messages after the result, e.g. when they disconnect from peers."""
    found = board(RUNNING)
    for line in ("result: accuracy=0.5", "Result: accuracy=0.97", "rendezvous closed"):
        found.add_log_lines(log(line))
    over = framework(task(0, State.COMPLETED, DONE), task(1, State.COMPLETED, DONE))
    lines = []
    for each in (RUNNING, over):
        found.update_status(job(), each)
        (line,) = {text for text in live_view.render(found.view(NOW), 100, 10) if text.startswith("worker-0")}
        lines.append(line.partition("laptop")[2].strip(" -"))
    assert lines == ["rendezvous closed", "Result: accuracy=0.97"]


def test_progress_bar_updates_the_row() -> None:
    """The complete line follows when the bar has ended."""
    found = board(RUNNING)
    shown = []
    for state in (b" 45%|####", b" 46%|####", b""):
        found.show_unfinished_line(UnfinishedLine(Topic.LOG, NOW, "worker-0", "main", state))
        shown.append(rows(found)[0].line)
    assert shown == ["45%|####", "46%|####", "46%|####"]


PREPARING = framework(task(0, State.ATTEMPT_PREPARING), task(1, State.ATTEMPT_PREPARING))


def test_task_is_shown_as_running_once_its_output_appears() -> None:
    """Its status may arrive later."""
    found = board(PREPARING)
    found.add_log_lines(LogLines(Topic.LOG, NOW, "worker-0", "main", b"step 1\n", pod="a"))
    found.add_log_lines(LogLines(Topic.LOG, NOW, "worker-1", "setup", b"waits\n", pod="b", is_init=True))
    assert [row.phase for row in rows(found)] == [Phase.RUNNING, Phase.STARTING]
    found.update_status(job(), PREPARING)
    assert [row.phase for row in rows(found)] == [Phase.RUNNING, Phase.STARTING]


def test_late_output_of_an_earlier_attempt_does_not_show_the_task_as_running() -> None:
    found = board(PREPARING)
    output = LogLines(Topic.LOG, NOW, "worker-0", "main", b"step 1\n", pod="a")
    found.add_log_lines(output)
    found.update_status(job(), framework(task(0, State.ATTEMPT_PREPARING, attempt=1)))
    found.add_log_lines(output)
    assert rows(found)[0].phase is Phase.STARTING


def test_stopped_job_is_not_shown_as_failed() -> None:
    stop = task_completion(CompletionCode.STOP_FRAMEWORK_REQUESTED, "")
    ended = FrameworkAttemptCompletionStatus(stop.code, stop.phrase, stop.type, "")
    over = framework(task(0, State.COMPLETED, stop), state=State.COMPLETED, ended=ended)
    assert board(over).view(NOW).jobs[0].state == "stopped"


def test_progress_is_shown() -> None:
    found = board(RUNNING)
    found.add_log_lines(log("windlass progress 3/10 loss=0.5"))
    found.update_progress(
        ProgressLine(Topic.PROGRESS, NOW, "worker-0", 3, 10, {"loss": "0.5"}, Source.LOG, 7.0)
    )
    (row, _) = rows(found)
    assert (row.progress, row.remaining, row.line) == (Progress(3, 10, {"loss": "0.5"}), 7.0, "loss=0.5")


AGAIN = {
    "task": framework(task(0, State.ATTEMPT_RUNNING, attempt=1), task(1, State.ATTEMPT_RUNNING)),
    "job": framework(task(0, State.ATTEMPT_RUNNING), task(1, State.ATTEMPT_RUNNING), attempt=1),
}


@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN.keys())
def test_new_attempt_keeps_only_the_last_log_line(again: Framework) -> None:
    found = board(RUNNING)
    found.add_log_lines(log("last words"))
    found.update_progress(ProgressLine(Topic.PROGRESS, NOW, "worker-0", 3, 10, {}, Source.LOG))
    found.update_status(job(), again)
    (row, _) = rows(found)
    assert (row.progress, row.line) == (None, "last words")


def test_usage_is_shown_for_running_tasks() -> None:
    found = board(framework(task(0, State.ATTEMPT_RUNNING), task(1, State.COMPLETED, DONE)))
    used = {("default", f"job-worker-{index}"): Usage(0.5, 1024, 1.75, 2048) for index in range(2)}
    found.update_usage(used)
    none = (None, None, None, None)
    shown = [(row.cpu, row.memory, row.gpus, row.gpu_memory) for row in rows(found)]
    assert shown == [(0.5, 1024, 1.75, 2048), none]
    found.update_usage({})
    assert [(row.cpu, row.memory, row.gpus, row.gpu_memory) for row in rows(found)] == [none, none]


def reason(word: str, message: str) -> Line:
    return Line(Topic.POD, NOW, "worker-0", word, message)


def test_problem_is_shown_until_the_task_runs() -> None:
    found = board(framework(task(0, State.ATTEMPT_PREPARING)))
    found.show_problem(reason("Scheduled", "is scheduled to laptop"))
    assert rows(found)[0].problem == ""
    found.show_problem(reason("FailedScheduling", "FailedScheduling: 0/1 nodes\x1b[2J"))
    assert rows(found)[0].problem == "FailedScheduling: 0/1 nodes"
    found.update_status(job(), RUNNING)
    assert rows(found)[0].problem == ""
    found.show_problem(reason("Unhealthy", "Unhealthy: a probe failed"))
    assert rows(found)[0].problem == "", "a running task has no problem"


ENDED = FrameworkAttemptCompletionStatus(3, "Phrase", PERMANENT, "")
SUMMARIES = {
    "without-status": ([], JobSummary("job", "submitted", 65, 0, ((Phase.WAITING, 2),))),
    "running": ([RUNNING], JobSummary("job", "running", 65, 0, ((Phase.RUNNING, 2),))),
    "tried-again": (
        [
            framework(
                task(0, State.ATTEMPT_RUNNING),
                attempt=2,
                retry_policy_status=RetryPolicyStatus(total_retried_count=2),
            )
        ],
        JobSummary("job", "running", 65, 2, ((Phase.RUNNING, 1), (Phase.WAITING, 1))),
    ),
    "failed": (
        [
            framework(
                task(0, State.COMPLETED, FAILED),
                task(1, State.COMPLETED, FAILED),
                state=State.COMPLETED,
                ended=ENDED,
                completion_time=BEGAN + timedelta(seconds=9),
            )
        ],
        JobSummary("job", "failed", 9, 0, ((Phase.FAILED, 2),)),
    ),
}


@pytest.mark.parametrize(("frameworks", "expected"), SUMMARIES.values(), ids=SUMMARIES.keys())
def test_summary_of_a_job(frameworks: list[Framework], expected: JobSummary) -> None:
    assert board(*frameworks).view(NOW).jobs == (expected,)


def test_tasks_of_several_jobs_are_prefixed() -> None:
    first, second = job("job/"), job("other/", "other")
    found = Board([first, second], BEGAN)
    found.update_status(first, RUNNING)
    found.add_log_lines(log("mine", "other/worker-1"))
    assert [(row.name, row.phase, row.line) for row in rows(found)] == [
        ("job/worker-0", Phase.RUNNING, ""),
        ("job/worker-1", Phase.RUNNING, ""),
        ("other/worker-0", Phase.WAITING, ""),
        ("other/worker-1", Phase.RUNNING, "mine"),
    ]


def test_removed_task_disappears() -> None:
    role = msgspec.structs.replace(RUNNING.spec.task_roles[0], task_number=1)
    spec = msgspec.structs.replace(RUNNING.spec, task_roles=(role,))
    smaller = framework(task(0, State.ATTEMPT_RUNNING))
    found = board(RUNNING, msgspec.structs.replace(smaller, spec=spec))
    found.add_log_lines(log("of one that is gone", "worker-1"))
    assert [row.name for row in rows(found)] == ["worker-0"]
