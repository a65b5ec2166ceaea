"""The table of the live view at different widths and heights."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.cli.terminal import live_view
from windlass.cli.terminal import text as terminal_text
from windlass.cli.terminal.live_view import JobSummary, Phase, Row, View
from windlass.wire.progress import Progress

SUMMARY = JobSummary("digits", "running", 62, tasks=((Phase.RUNNING, 2),))
WORKER = Row(
    "worker-0",
    Phase.RUNNING,
    node="laptop",
    cpu=1.904,
    memory=850 * 2**20,
    progress=Progress(62, 100),
    remaining=21.4,
    line="loss=0.31 accuracy=0.9",
)
SERVER = Row("ps-0", Phase.RUNNING, attempt=1, node="laptop", line="started")
FAILED = Row("worker-1", Phase.FAILED, 137, node="laptop", line="last words")
VIEW = View((SUMMARY,), (SERVER, WORKER, FAILED))

SIZES = {
    "wide": (
        (110, 20),
        [
            "digits  running 1:02  2 running",
            "TASK      STATE       ATTEMPT  NODE      CPU  MEMORY  PROGRESS                 LAST LINE",
            "ps-0      running           1  laptop      -       -                           started",
            "worker-0  running           0  laptop   190%   850Mi  ██████░░░░  62%    0:21  loss=0.31 accuracy=0.9",
            "worker-1  failed 137        0  laptop      -       -                           last words",
        ],
    ),
    "a-usual-terminal": (
        (79, 20),
        [
            "digits  running 1:02  2 running",
            "TASK      STATE       ATTEMPT    CPU  MEMORY  DONE  LAST LINE",
            "ps-0      running           1      -       -        started",
            "worker-0  running           0   190%   850Mi   62%  loss=0.31 accuracy=0.9",
            "worker-1  failed 137        0      -       -        last words",
        ],
    ),
    "40-columns": (
        (39, 9),
        [
            "digits  running 1:02  2 running",
            "TASK      STATE       DONE  LAST LINE",
            "ps-0      running           started",
            "worker-0  running      62%  loss=0.31 …",
            "worker-1  failed 137        last words",
        ],
    ),
    "low": (
        (79, 3),
        [
            "digits  running 1:02  2 running",
            "worker-1  failed 137        0  laptop      -       -  last words",
            "… and 2 more: 2 running",
        ],
    ),
    "ridiculous": ((10, 2), ["digits  r…", "… and 3 m…"]),
}


def test_gpu_columns_are_shown_if_a_task_has_gpus() -> None:
    rows = (
        Row("ps-0", Phase.RUNNING, cpu=0.1),
        Row("worker-0", Phase.RUNNING, gpus=1.5, gpu_memory=90 * 2**30),
    )
    assert live_view.render(View((SUMMARY,), rows), 90, 20)[1:] == [
        "TASK      STATE       ATTEMPT    CPU  MEMORY    GPU  GPU MEM  LAST LINE",
        "ps-0      running           0    10%       -      -        -",
        "worker-0  running           0      -       -   150%     90Gi",
    ]


@pytest.mark.parametrize(("size", "expected"), SIZES.values(), ids=SIZES.keys())
def test_columns_and_rows_fit_the_terminal(size: tuple[int, int], expected: list[str]) -> None:
    assert live_view.render(VIEW, *size) == expected


def test_tasks_with_problems_come_first_and_completed_ones_last() -> None:
    phases = [Phase.SUCCEEDED, Phase.RUNNING, Phase.RETRYING, Phase.WAITING, Phase.FAILED]
    rows = [Row(f"worker-{number}", phases[number % 5]) for number in range(200)]
    rows[3] = Row("worker-3", Phase.WAITING, problem="0/1 nodes are available")
    lines = live_view.render(View((SUMMARY,), tuple(rows)), 100, 90)
    shown = [line.split()[1] for line in lines[2:-1]]
    assert len(lines) == 90
    assert shown[:3] == ["retrying", "waiting", "failed"]
    assert shown[3:81] == ["retrying", "failed"] * 39
    assert shown[81:] == ["running", "running", "waiting", "running", "waiting", "running"]
    assert lines[-1] == "… and 113 more: 37 waiting, 36 running, 40 succeeded"


def test_problem_replaces_the_last_log_line() -> None:
    row = Row("worker-0", Phase.STARTING, line="words of the last attempt", problem="no such command")
    (line,) = live_view.render(View((SUMMARY,), (row,)), 100, 10)[2:]
    assert line.endswith("no such command")


@pytest.mark.parametrize(
    ("jobs", "height", "expected"),
    [
        (2, 20, ["job-0  running 0:00", "job-1  running 0:00"]),
        (50, 9, ["job-0  running 0:00", "job-1  running 0:00", "… and 48 more jobs"]),
    ],
)
def test_summaries_of_several_jobs(jobs: int, height: int, expected: list[str]) -> None:
    view = View(tuple(JobSummary(f"job-{number}", "running", 0) for number in range(jobs)), (SERVER,))
    assert live_view.render(view, 80, height)[: len(expected)] == expected


COLOUR = re.compile(r"\x1b\[[0-9]+m")


def test_colours_do_not_change_the_text() -> None:
    coloured = live_view.render(View(VIEW.jobs, VIEW.rows, has_colours=True), 110, 20)
    assert "\x1b[31mfailed 137\x1b[0m" in coloured[-1]
    assert [COLOUR.sub("", line) for line in coloured] == live_view.render(VIEW, 110, 20)


PROGRESS = {
    "begun": (Progress(0, 10), None, "░░░░░░░░░░   0%"),
    "nearly-done": (Progress(999, 1000), 0.9, "█████████░  99%    0:00"),
    "done": (Progress(10, 10), 0.0, "██████████ 100%"),
    "more-than-done": (Progress(30, 10), None, "██████████ 100%"),
    "without-a-total": (Progress(30, 0), None, "step 30"),
    "hours": (Progress(1, 10), 7265.0, "█░░░░░░░░░  10% 2:01:05"),
    "years": (Progress(1, 10), 86400.0 * 4000, "█░░░░░░░░░  10%   4000d"),
}


@pytest.mark.parametrize(("progress", "remaining", "bar"), PROGRESS.values(), ids=PROGRESS.keys())
def test_progress_bars(progress: Progress, remaining: float | None, bar: str) -> None:
    row = Row("worker-0", Phase.RUNNING, progress=progress, remaining=remaining)
    (line,) = live_view.render(View((SUMMARY,), (row,)), 120, 10)[2:]
    assert line.endswith(bar)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(0, "0Ki"), (2**20 - 1, "1.0Mi"), (850 * 2**20, "850Mi"), (1200 * 2**20, "1.2Gi"), (2**44, "16Ti")],
)
def test_memory_sizes(amount: int, expected: str) -> None:
    assert live_view.format_memory(amount) == expected


ROWS = st.builds(
    Row,
    name=st.text(max_size=60).map(terminal_text.printable),
    phase=st.sampled_from(Phase),
    code=st.none() | st.integers(-2000, 300),
    attempt=st.integers(0, 10**9),
    node=st.text(max_size=60).map(terminal_text.printable),
    cpu=st.none() | st.floats(0, 10_000),
    memory=st.none() | st.integers(0, 2**60),
    gpus=st.none() | st.floats(0, 100),
    gpu_memory=st.none() | st.integers(0, 2**60),
    progress=st.none() | st.builds(Progress, st.integers(0, 10**15), st.integers(0, 10**15)),
    remaining=st.none() | st.floats(0, 10**8),
    line=st.text(max_size=200).map(terminal_text.printable),
    problem=st.just("") | st.text(max_size=200).map(terminal_text.printable),
)


@given(st.lists(ROWS, max_size=12), st.integers(1, 150), st.integers(2, 20), st.integers(0, 6))
def test_view_never_exceeds_the_terminal(rows: list[Row], width: int, height: int, jobs: int) -> None:
    view = View((SUMMARY,) * jobs, tuple(rows))
    lines = live_view.render(view, width, height)
    assert len(lines) <= height
    assert [line for line in lines if terminal_text.display_width(line) > width] == []
