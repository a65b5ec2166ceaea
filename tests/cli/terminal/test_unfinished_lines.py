"""Progress bars of tasks below the log lines on a terminal."""

import io
from datetime import UTC, datetime

import pyte

from windlass.cli.terminal.output import Output, Style
from windlass.cli.terminal.unfinished_lines import UnfinishedLines
from windlass.runner.report import LogLines, Topic, UnfinishedLine

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Shown:
    """The output of a run on a terminal, with a clock that the test sets."""

    def __init__(self, columns: int = 40, *, has_bars: bool = True) -> None:
        self.seconds = 0.0
        self.stream = io.BytesIO()
        lines = UnfinishedLines(lambda: columns, lambda: self.seconds) if has_bars else None
        self.output = Output(self.stream, Style(width=8, is_terminal=has_bars), lines)
        self._columns = columns

    def bar(self, state: str, task: str = "worker-0", seconds: float = 1.0) -> None:
        self.seconds += seconds
        self.output.report(UnfinishedLine(Topic.LOG, NOW, task, "main", state.encode()))

    def log(self, text: str, task: str = "worker-0") -> None:
        self.output.report(LogLines(Topic.LOG, NOW, task, "main", text.encode()))

    @property
    def lines(self) -> list[str]:
        """Return the screen after everything was written."""
        self.output._writer.finish()
        screen = pyte.Screen(self._columns, 10)
        pyte.Stream(screen).feed(self.stream.getvalue().decode().replace("\n", "\r\n"))
        shown = [line.rstrip() for line in screen.display]
        while shown and not shown[-1]:
            del shown[-1]
        return shown


def test_bar_is_redrawn_in_place_below_the_log_lines() -> None:
    shown = Shown()
    shown.log("start\n")
    shown.bar(" 10%|#   |")
    shown.bar(" 20%|##  |")
    shown.log("epoch 1\n")
    assert shown.lines == ["worker-0 | start", "worker-0 | epoch 1", "worker-0 | 20%|##  |"]


def test_bars_of_several_tasks_keep_their_labels() -> None:
    shown = Shown()
    shown.bar("10%")
    shown.bar("70%", "worker-1")
    shown.bar("20%")
    assert shown.lines == ["worker-0 | 20%", "worker-1 | 70%"]


def test_bar_changes_at_most_once_a_second() -> None:
    shown = Shown()
    for percent in range(100):
        shown.bar(f"{percent}%", seconds=0.1)
    shown.output._writer.finish()
    assert shown.stream.getvalue().count(b"%") == 10


def test_complete_line_replaces_the_bar() -> None:
    shown = Shown()
    shown.bar("90%")
    shown.log(" 10%\r 90%\r100%\n")
    shown.log("done\n")
    assert shown.lines == ["worker-0 | 100%", "worker-0 | done"]


def test_finished_task_has_no_bar() -> None:
    shown = Shown()
    shown.bar("90%")
    shown.bar("")
    assert shown.lines == []


def test_bars_are_removed_at_the_end() -> None:
    shown = Shown()
    shown.bar("90%")
    shown.output.finish()
    assert shown.lines == []


def test_bar_is_truncated_and_cannot_control_the_terminal() -> None:
    shown = Shown(columns=20)
    shown.bar("\x1b[2J50%|" + "#" * 100)
    assert shown.lines == ["worker-0 | 50%|###…"]


def test_pipe_gets_only_complete_lines() -> None:
    shown = Shown(has_bars=False)
    shown.bar("90%")
    shown.log("90%\r100%\n")
    shown.output.finish()
    assert shown.stream.getvalue() == b"worker-0 | 90%\r100%\n"
    assert not shown.output.shows_unfinished_lines
