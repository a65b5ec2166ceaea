"""Format the live view of a run as the lines of a table, without side effects.

On a narrow terminal, columns are omitted. On a terminal with few lines, some tasks are only counted; tasks
with problems are the last to be hidden.
`live_terminal` draws the lines.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from windlass.cli.terminal import text as terminal_text
from windlass.wire.progress import Progress

GAP = "  "
_MAX_NAME_WIDTH = 32
_MAX_NODE_WIDTH = 16
_BAR_WIDTH = 10
_FULL, _EMPTY = "█", "░"
_NO_VALUE = "-"


class Phase(StrEnum):
    """Phase of a task, as shown in the table."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def is_starting(self) -> bool:
        return self in (Phase.WAITING, Phase.STARTING)

    @property
    def is_over(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class Row(msgspec.Struct, frozen=True):
    """The row of one task."""

    name: str
    phase: Phase = Phase.WAITING
    code: int | None = None
    """Completion code of a failed attempt."""
    attempt: int = 0
    node: str = ""
    cpu: float | None = None
    """Used CPU cores."""
    memory: int | None = None
    """Used memory in bytes."""
    gpus: float | None = None
    """GPU usage as a number of GPUs."""
    gpu_memory: int | None = None
    """Used GPU memory in bytes."""
    progress: Progress | None = None
    remaining: float | None = None
    """Estimated seconds until the task is done."""
    line: str = ""
    """Last line of the log, or values of the last progress report. Control characters are removed: see
    `terminal_text`."""
    result: str = ""
    """Last result line of the log, which is shown when the task is over."""
    problem: str = ""
    """Why the task does not start."""

    @property
    def has_problem(self) -> bool:
        return bool(self.problem) or self.phase in (Phase.FAILED, Phase.RETRYING)


class JobSummary(msgspec.Struct, frozen=True):
    """The summary line of one job."""

    name: str
    state: str
    seconds: int
    """Time from the start of the run until the job completed, or until now."""
    attempt: int = 0
    tasks: Sequence[tuple[Phase, int]] = ()
    """Number of tasks by phase."""


class View(msgspec.Struct, frozen=True):
    jobs: tuple[JobSummary, ...]
    rows: tuple[Row, ...]
    has_colours: bool = False


class _Column(msgspec.Struct, frozen=True):
    title: str
    width: int
    is_number: bool = False


_STATE = _Column("STATE", 10)
_ATTEMPT = _Column("ATTEMPT", 7, is_number=True)
_CPU = _Column("CPU", 5, is_number=True)
_MEMORY = _Column("MEMORY", 6, is_number=True)
_GPU = _Column("GPU", 5, is_number=True)
_GPU_MEMORY = _Column("GPU MEM", 7, is_number=True)
_PERCENT = _Column("DONE", 4, is_number=True)
_PROGRESS = _Column("PROGRESS", _BAR_WIDTH + 5 + 8)
_MIN_WIDTH = 24
_MIN_LINE_WIDTH, _GOOD_LINE_WIDTH = 10, 24
"""Minimum width of the column LAST LINE beside DONE, and beside any other optional column."""

_COLOURS = {
    Phase.WAITING: "33",
    Phase.STARTING: "33",
    Phase.RUNNING: "32",
    Phase.STOPPING: "33",
    Phase.RETRYING: "35",
    Phase.SUCCEEDED: "32",
    Phase.FAILED: "31",
    Phase.STOPPED: "2",
}
_BOLD, _DIM = "1", "2"


def render(view: View, width: int, height: int) -> list[str]:
    """Return at most `height` lines, but up to 2 if `height` is smaller, with at most `width` columns each."""
    if width < _MIN_WIDTH:
        wider = render(msgspec.structs.replace(view, has_colours=False), _MIN_WIDTH, height)
        return [terminal_text.truncate(line, width) for line in wider]
    height = max(height, 2)
    lines = _summary_lines(view, width, max_lines=max(1, height // 3))
    has_titles = height - len(lines) > 4
    shown, hidden = _select_rows(view.rows, height - len(lines) - has_titles)
    columns = _columns(shown, width)
    if has_titles and shown:
        titles = GAP.join(_aligned(column.title, column) for column in columns)
        lines.append(_colour(titles.rstrip(), _DIM, view.has_colours))
    lines.extend(_row(row, columns, view.has_colours) for row in shown)
    if hidden:
        counts = format_counts(tuple(Counter(row.phase for row in hidden).items()))
        summary = f"{terminal_text.ELLIPSIS} and {len(hidden)} more: {counts}"
        lines.append(terminal_text.truncate(summary, width))
    return lines


# Selection of tasks


def _select_rows(rows: Sequence[Row], max_lines: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the shown and the hidden tasks. One line is reserved for the summary of the hidden ones."""
    if len(rows) <= max_lines:
        return rows, ()
    ordered = sorted(rows, key=_rank)
    count = max(max_lines - 1, 0)
    return ordered[:count], ordered[count:]


def _rank(row: Row) -> int:
    if row.has_problem:
        return 0
    return 2 if row.phase.is_over else 1


def format_counts(tasks: Sequence[tuple[Phase, int]]) -> str:
    numbers = dict(tasks)
    return ", ".join(f"{numbers[phase]} {phase}" for phase in Phase if numbers.get(phase))


# Formatting


def _summary_lines(view: View, width: int, max_lines: int) -> list[str]:
    jobs = view.jobs if len(view.jobs) <= max_lines else view.jobs[: max_lines - 1]
    longest = max((terminal_text.display_width(job.name) for job in jobs), default=0)
    lines = [_summary_line(job, min(longest, width // 2), width, view.has_colours) for job in jobs]
    if hidden := len(view.jobs) - len(jobs):
        lines.append(terminal_text.truncate(f"{terminal_text.ELLIPSIS} and {hidden} more jobs", width))
    return lines


def _summary_line(job: JobSummary, name_width: int, width: int, has_colours: bool) -> str:
    attempt = f"{GAP}attempt {job.attempt}" if job.attempt else ""
    name = terminal_text.pad(job.name, name_width)
    state = f"{job.state} {format_short_duration(job.seconds)}{attempt}"
    rest = f"{GAP}{state}{GAP}{format_counts(job.tasks)}".rstrip()
    return _colour(name, _BOLD, has_colours) + terminal_text.truncate(rest, width - name_width)


def _columns(rows: Sequence[Row], width: int) -> tuple[_Column, ...]:
    """Select the columns that fit. The last column gets the remaining width."""
    longest = max((terminal_text.display_width(row.name) for row in rows), default=4)
    name = _Column("TASK", max(4, min(longest, _MAX_NAME_WIDTH, width // 3)))
    widest_node = max((terminal_text.display_width(row.node) for row in rows), default=0)
    node = _Column("NODE", max(4, min(widest_node, _MAX_NODE_WIDTH)))
    reports_progress = any(row.progress is not None for row in rows)
    remaining = width - name.width - _STATE.width - 2 * len(GAP)
    candidates = [
        *([(_PERCENT, _MIN_LINE_WIDTH)] if reports_progress else []),
        *((column, _GOOD_LINE_WIDTH) for column in (_ATTEMPT, *_gpu_columns(rows), _CPU, _MEMORY, node)),
    ]
    chosen = set()
    for column, min_line_width in candidates:
        if remaining - column.width - len(GAP) >= min_line_width:
            remaining -= column.width + len(GAP)
            chosen.add(column)
    bar_width = _PROGRESS.width - _PERCENT.width
    if _PERCENT in chosen and remaining - bar_width >= _GOOD_LINE_WIDTH:
        remaining -= bar_width
        chosen = chosen - {_PERCENT} | {_PROGRESS}
    order = (_ATTEMPT, node, _CPU, _MEMORY, _GPU, _GPU_MEMORY, _PERCENT, _PROGRESS)
    return (name, _STATE, *(c for c in order if c in chosen), _Column("LAST LINE", max(remaining, 0)))


def _gpu_columns(rows: Sequence[Row]) -> Iterator[_Column]:
    if any(row.gpus is not None for row in rows):
        yield _GPU
    if any(row.gpu_memory is not None for row in rows):
        yield _GPU_MEMORY


def _row(row: Row, columns: Sequence[_Column], has_colours: bool) -> str:
    parts = []
    for column in columns:
        cell = _aligned(_cell(row, column), column)
        parts.append(_colour(cell, _COLOURS[row.phase], has_colours) if column is _STATE else cell)
    return GAP.join(parts).rstrip()


def _aligned(text: str, column: _Column) -> str:
    return terminal_text.pad(text, column.width, is_right_aligned=column.is_number)


def _cell(row: Row, column: _Column) -> str:
    match column.title:
        case "TASK":
            return row.name
        case "STATE":
            # Negative completion codes are explained in the lines above the table.
            return f"{row.phase} {row.code}" if row.code is not None and row.code > 0 else row.phase
        case "ATTEMPT":
            return str(row.attempt)
        case "NODE":
            return row.node or _NO_VALUE
        case "CPU":
            return f"{row.cpu:.0%}" if row.cpu is not None else _NO_VALUE
        case "MEMORY":
            return format_memory(row.memory) if row.memory is not None else _NO_VALUE
        case "GPU":
            return f"{row.gpus:.0%}" if row.gpus is not None else _NO_VALUE
        case "GPU MEM":
            return format_memory(row.gpu_memory) if row.gpu_memory is not None else _NO_VALUE
        case "DONE":
            return _percent_or_step(row.progress)
        case "PROGRESS":
            return _bar(row.progress, None if row.phase.is_over else row.remaining)
    return row.problem or (row.result if row.phase.is_over and row.result else row.line)


def _percent_or_step(progress: Progress | None) -> str:
    if progress is None:
        return ""
    # Round down, so that 100 % means done.
    return f"{int(progress.fraction * 100)}%" if progress.fraction is not None else str(progress.step)


def _bar(progress: Progress | None, remaining: float | None) -> str:
    if progress is None:
        return ""
    if progress.fraction is None:
        return f"step {progress.step}"
    full = int(progress.fraction * _BAR_WIDTH)
    bar = _FULL * full + _EMPTY * (_BAR_WIDTH - full)
    time_left = "" if progress.is_complete or remaining is None else format_short_duration(remaining)
    return f"{bar} {_percent_or_step(progress):>4} {time_left:>7}"


def format_short_duration(seconds: float) -> str:
    """Return e.g. 1:05, 2:00:00 or, from 100 hours, 5d."""
    is_long = seconds >= 100 * 3600
    return f"{int(seconds) // 86400}d" if is_long else terminal_text.format_duration(seconds)


def format_memory(amount: int) -> str:
    """Return e.g. 512Mi or 1.2Gi, in at most six characters."""
    value, unit = amount / 1024, "Ki"
    for larger in ("Mi", "Gi", "Ti"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}{unit}" if value < 10 and unit != "Ki" else f"{value:.0f}{unit}"


def _colour(text: str, colour: str, has_colours: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if has_colours and text else text
