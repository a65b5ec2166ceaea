"""Drawing of the live view: what a terminal shows after each drawing, resize and interruption."""

import asyncio
import io
import threading
from datetime import UTC, datetime
from typing import Any

import pyte
import pytest

from windlass.cli.terminal.live_terminal import Canvas, Screen, Size
from windlass.cli.terminal.output import Style
from windlass.render.manifest import Manifest
from windlass.runner.report import DetailLine, Line, LogLines, Topic, Verdict

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SIZE = Size(20, 6)


class EmulatedTerminal:
    """A terminal that shows the output of a canvas."""

    def __init__(self, size: Size = SIZE) -> None:
        self.size = size
        self.screen = pyte.Screen(size.columns, size.lines)
        self.stream = pyte.Stream(self.screen)
        self.canvas = Canvas()

    def draw(self, lines: list[str], *reasons: str) -> str:
        written = self.canvas.update(lines, reasons, self.size)
        self.stream.feed(written)
        return written

    def resize(self, size: Size) -> None:
        self.size = size
        self.screen.resize(size.lines, size.columns)

    @property
    def lines(self) -> list[str]:
        shown = [line.rstrip() for line in self.screen.display]
        while shown and not shown[-1]:
            del shown[-1]
        return shown


def test_table_is_redrawn_in_place() -> None:
    terminal = EmulatedTerminal()
    terminal.draw(["a 1", "b 1"])
    terminal.draw(["a 2 and more", "b 1"])
    terminal.draw(["a 3", "b 1"])
    assert terminal.lines == ["a 3", "b 1"]
    assert (terminal.screen.cursor.y, terminal.screen.cursor.x) == (2, 0)


def test_unchanged_table_is_not_written() -> None:
    terminal = EmulatedTerminal()
    terminal.draw(["a 1", "b 1"])
    assert terminal.draw(["a 1", "b 1"]) == ""
    assert "b 1" not in terminal.draw(["a 2", "b 1"])


def test_reasons_scroll_above_the_table() -> None:
    terminal = EmulatedTerminal()
    terminal.draw(["a", "b"], "first")
    terminal.draw(["a", "b"], "second", "third")
    assert terminal.lines == ["first", "second", "third", "a", "b"]
    terminal.draw(["a", "c"], "fourth is longer than a line is")
    assert terminal.lines == ["third", "fourth is longer tha", "n a line is", "a", "c"]


def test_table_grows_and_shrinks() -> None:
    terminal = EmulatedTerminal()
    terminal.draw(["a", "b", "c"], "reason")
    terminal.draw(["a"])
    assert terminal.lines == ["reason", "a"]
    terminal.draw(["a", "b"])
    assert terminal.lines == ["reason", "a", "b"]


@pytest.mark.parametrize("size", [Size(10, 6), Size(20, 4), Size(8, 3)], ids=str)
def test_table_fits_after_the_terminal_shrinks(size: Size) -> None:
    terminal = EmulatedTerminal()
    terminal.draw(["a long line", "b"], "one", "two")
    terminal.resize(size)
    terminal.draw(["a", "b"])
    assert terminal.lines == ["one", "two", "a", "b"][-(size.lines - 1) :]
    terminal.draw(["a 2", "b"], "three")
    assert terminal.lines == ["one", "two", "three", "a 2", "b"][-(size.lines - 1) :]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (Size(20, 5), ["the password", "four", "a", "b"]),
        (Size(20, 4), ["the password", "a", "b"]),
    ],
    ids=str,
)
def test_lasting_lines_are_shown_again_after_a_clear(size: Size, expected: list[str]) -> None:
    terminal = EmulatedTerminal()
    terminal.canvas.pin("the password")
    terminal.draw(["a", "b"], "one", "the password", "two", "three", "four")
    terminal.resize(size)
    terminal.draw(["a", "b"])
    assert terminal.lines == expected


def test_pinned_lines_that_do_not_fit_go_to_the_scrollback() -> None:
    canvas = Canvas()
    canvas.pin("the password")
    canvas.update(["a", "b"], ["the password"], Size(20, 4))
    assert "the password\r\na\r\nb\r\n" in canvas.update(["a", "b"], [], Size(20, 3))


def test_table_fits_after_the_terminal_grows() -> None:
    terminal = EmulatedTerminal()
    terminal.draw(["a", "b"], "one")
    terminal.resize(Size(40, 12))
    terminal.draw(["a with more", "b", "c"])
    assert terminal.lines == ["one", "a with more", "b", "c"]


def test_output_of_other_programs_is_kept() -> None:
    """E.g. of a shell, while the process was stopped."""
    terminal = EmulatedTerminal()
    terminal.draw(["a"])
    terminal.stream.feed("stopped\r\n")
    terminal.canvas.restart()
    terminal.draw(["b"])
    assert terminal.lines == ["a", "stopped", "b"]


# Scheduling


def job(tasks: int = 1) -> Manifest:
    roles = [{"name": "worker", "taskNumber": tasks}]
    return Manifest({"metadata": {"name": "job", "namespace": "default"}, "spec": {"taskRoles": roles}})


def screen(stream: Any, **options: Any) -> Screen:
    given = {"has_colours": False, "size": lambda: Size(60, 10), **options}
    return Screen(stream, [job()], Style(width=8), **given)


def shown(stream: io.BytesIO) -> list[str]:
    terminal = EmulatedTerminal(Size(60, 10))
    terminal.stream.feed(stream.getvalue().decode())
    return terminal.lines


LOG = LogLines(Topic.LOG, NOW, "worker-0", "main", b"my words")
FAILED = Line(Topic.POD, NOW, "worker-0", "Restarted", "has failed\x1b[2J")
ROUTINE = Line(Topic.POD, NOW, "worker-0", "Running", "runs at 10.0.0.1")
DETAIL = DetailLine(Topic.FRAMEWORK, NOW, "job", "AttemptEnding", "attempt failed")
VERDICT = Verdict(Topic.COMPLETED, NOW, "job", "job failed: why", exit=3, output="/kept/worker-0.log")


def test_final_table_and_verdict_are_shown() -> None:
    stream = io.BytesIO()
    made = screen(stream)
    for said in (LOG, ROUTINE, FAILED, DETAIL, VERDICT):
        made.report(said)
    made.finish()
    reason, head, _, row, *last = shown(stream)
    assert reason.endswith("worker-0  has failed\\x1b[2J")
    assert head.startswith("job  submitted")
    assert row.endswith("my words")
    assert last == ["job failed: why", "output: /kept/worker-0.log"]


def test_output_is_ascii_without_utf8() -> None:
    stream = io.BytesIO()
    made = screen(stream, has_utf8=False, size=lambda: Size(30, 10))
    made.report(
        LogLines(Topic.LOG, NOW, "worker-0", "main", "très long, and longer than the line is".encode())
    )
    made.finish()
    assert b"tr?s" in stream.getvalue()
    assert b"~" in stream.getvalue()
    assert stream.getvalue().isascii()


class CountingStream(io.BytesIO):
    """Counts the writes."""

    pieces = 0

    def write(self, data: Any) -> int:
        self.pieces += 1
        return super().write(data)


def test_many_reports_are_one_drawing() -> None:
    stream = CountingStream()
    made = screen(stream)

    async def happen() -> None:
        made.attach(asyncio.get_running_loop(), lambda: None)
        for number in range(1000):
            made.report(LogLines(Topic.LOG, NOW, "worker-0", "main", f"line {number}".encode()))
            if number % 100 == 0:
                await asyncio.sleep(0)

    asyncio.run(happen())
    made.finish()
    assert stream.pieces < 100
    assert shown(stream)[-1].endswith("line 999")


class BlockedStream(io.BytesIO):
    """Blocks writes until it is released, like a terminal after Ctrl-S."""

    def __init__(self) -> None:
        super().__init__()
        self.was_given_something = threading.Event()
        self.may_go_on = threading.Event()
        self.pieces = 0

    def write(self, data: Any) -> int:
        self.pieces += 1
        self.was_given_something.set()
        self.may_go_on.wait()
        return super().write(data)


def test_blocked_terminal_does_not_block_the_run() -> None:
    stream = BlockedStream()
    made = screen(stream)

    async def happen() -> None:
        made.attach(asyncio.get_running_loop(), lambda: None)
        await asyncio.to_thread(stream.was_given_something.wait)
        for number in range(100):
            made.report(LogLines(Topic.LOG, NOW, "worker-0", "main", f"line {number}".encode()))
            made.report(FAILED)
            await made.wait_for_reader()
            made.draw()

    asyncio.run(happen())
    assert stream.pieces == 1
    stream.may_go_on.set()
    made.finish()
    assert stream.getvalue().count(b"has failed") == 100, "no line is lost"
    assert shown(stream)[-1].endswith("line 99")


class ClosedStream(io.BytesIO):
    def write(self, data: Any) -> int:
        raise OSError(5, "Input/output error")


def test_closed_terminal_is_reported() -> None:
    made = screen(ClosedStream())

    async def happen() -> None:
        told = asyncio.Event()
        made.attach(asyncio.get_running_loop(), told.set)
        await told.wait()

    asyncio.run(happen())
    with pytest.raises(OSError, match="Input/output error"):
        made.finish()
