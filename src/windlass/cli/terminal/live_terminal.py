"""Draw the live view on a terminal: a table that is redrawn in place, below lines about events.

The cursor is never hidden and stays at the start of the line below the table, so that the shell can continue there
however the process ends. `Canvas` computes the output, `Screen` schedules the drawing.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import BinaryIO

import msgspec

from windlass.cli.terminal import live_view, output
from windlass.cli.terminal import text as terminal_text
from windlass.cli.terminal.live_board import REASONS_IN_TABLE, Board
from windlass.cli.terminal.output import Style, Writer
from windlass.client.usage import Usage
from windlass.model.framework import Framework
from windlass.render.manifest import Manifest
from windlass.runner.report import (
    DetailLine,
    Line,
    LogLines,
    ProgressLine,
    Reported,
    Topic,
    UnfinishedLine,
    Verdict,
    now,
)

SECONDS_BETWEEN_DRAWINGS = 0.25
SECONDS_BETWEEN_CLOCK_UPDATES = 1.0
_MAX_EVENT_LINES = 200
_ERASE_LINE, _ERASE_BELOW, _CLEAR = "\x1b[K", "\x1b[J", "\x1b[H\x1b[2J"
_RED, _END = "\x1b[31m", "\x1b[0m"
_WITHOUT_UTF8 = str.maketrans({"█": "#", "░": "-", terminal_text.ELLIPSIS: "~"})


class Size(msgspec.Struct, frozen=True):
    columns: int = 80
    lines: int = 24


class Canvas:
    """Computes the output that changes one drawing into the next."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._event_lines: deque[str] = deque(maxlen=_MAX_EVENT_LINES)
        self._pinned: list[str] = []
        self._size = Size()

    def pin(self, event_line: str) -> None:
        """Mark a line of the next drawing to be shown again whenever the terminal is cleared."""
        self._pinned.append(event_line)

    def update(self, lines: Sequence[str], event_lines: Sequence[str], size: Size) -> str:
        """Return the output for the next drawing; empty if nothing has changed."""
        self._event_lines.extend(event_lines)
        old, self._lines = self._lines, list(lines)
        is_smaller = size.columns < self._size.columns or size.lines < self._size.lines
        self._size = size
        if is_smaller and old:
            # The terminal has wrapped or dropped lines, so the start of the table is unknown.
            return _CLEAR + self._last_event_lines(size.lines - 1 - len(lines)) + _joined(lines)
        up = f"\r\x1b[{len(old)}A" if old else "\r"
        if event_lines or len(lines) != len(old):
            return up + _ERASE_BELOW + _joined(event_lines) + _joined(lines)
        if self._lines == old:
            return ""
        pairs = zip(old, lines, strict=True)
        changed = ("" if line == before else line + _ERASE_LINE for before, line in pairs)
        return up + _joined(changed) + _ERASE_BELOW

    def restart(self) -> None:
        """Start the next drawing at the cursor, after other output on the terminal."""
        self._lines = []

    def _last_event_lines(self, max_lines: int) -> str:
        """Return all pinned lines, and as many of the latest other lines as fit."""
        others = [line for line in self._event_lines if line not in self._pinned]
        count = max_lines - len(self._pinned)
        return _joined((*self._pinned, *(others[-count:] if count > 0 else ())))


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\r\n" for line in lines)


class Screen:
    """Shows a run as a live view on a terminal."""

    shows_usage = True
    shows_unfinished_lines = True

    def __init__(
        self,
        stream: BinaryIO,
        jobs: Sequence[Manifest],
        style: Style,
        *,
        has_colours: bool,
        has_utf8: bool = True,
        size: Callable[[], Size] | None = None,
        start: datetime | None = None,
    ) -> None:
        self._writer = Writer(stream)
        self._board = Board(jobs, start or now())
        self._style = style
        self._has_colours = has_colours
        self._has_utf8 = has_utf8
        self._size = size or (lambda: terminal_size(stream))
        self._canvas = Canvas()
        self._event_lines: list[str] = []
        self._verdicts: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_drawing: asyncio.TimerHandle | None = None
        self._drawn_at = 0.0

    def attach(self, loop: asyncio.AbstractEventLoop, when_closed: Callable[[], None]) -> None:
        self._loop = loop
        self._writer.attach(loop, when_closed)
        with contextlib.suppress(ValueError, RuntimeError):  # only the main thread can handle signals
            loop.add_signal_handler(signal.SIGWINCH, self._schedule_drawing)
            loop.add_signal_handler(signal.SIGCONT, self._restart)
        self._tick()

    def report(self, item: Reported) -> None:
        match item:
            case LogLines():
                self._board.add_log_lines(item)
            case UnfinishedLine():
                self._board.show_unfinished_line(item)
            case ProgressLine():
                self._board.update_progress(item)
            case Verdict():
                self._verdicts += self._format(item, is_bad=item.exit != 0).split("\n")
            case DetailLine():
                pass
            case Line():
                self._board.show_problem(item)
                if not (item.event is Topic.POD and item.reason in REASONS_IN_TABLE):
                    line = self._format(item, is_bad=item.reason == "Failed")
                    self._event_lines.append(line)
                    if item.event is Topic.COMPANION:
                        # The URL is needed later, and the password is shown only once.
                        self._canvas.pin(line)
        self._schedule_drawing()

    def update_status(self, job: Manifest, framework: Framework) -> None:
        self._board.update_status(job, framework)
        self._schedule_drawing()

    def update_usage(self, usage: Mapping[tuple[str, str], Usage]) -> None:
        self._board.update_usage(usage)
        self._schedule_drawing()

    async def wait_for_reader(self) -> None:
        """Never wait: only the last line of a task is shown."""

    def abandon(self) -> None:
        self._writer.abandon()

    def finish(self) -> None:
        """Draw the last state and the verdicts. The loop may be closed."""
        self._loop = None
        self._draw()
        self._write(_joined(self._verdicts))
        self._writer.finish()

    def draw(self) -> None:
        """Draw now if the previous drawing is written, else soon."""
        if self._writer.is_idle:
            self._draw()
        else:
            self._schedule_drawing()

    def _draw(self) -> None:
        size = self._size()
        view = self._board.view(now(), has_colours=self._has_colours)
        # One line is for the cursor, and some terminals wrap a full line.
        lines = live_view.render(view, size.columns - 1, size.lines - 1)
        event_lines, self._event_lines = self._event_lines, []
        self._write(self._canvas.update(lines, event_lines, size))

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._has_utf8:
            self._writer.write(text.encode("utf-8", "replace"))
        else:
            self._writer.write(text.translate(_WITHOUT_UTF8).encode("ascii", "replace"))

    def _format(self, item: Line | Verdict, *, is_bad: bool) -> str:
        text = output.format_line(item, self._style).decode("utf-8", "replace").removesuffix("\n")
        return f"{_RED}{text}{_END}" if is_bad and self._has_colours else text

    def _restart(self) -> None:
        self._canvas.restart()
        self._schedule_drawing()

    def _schedule_drawing(self) -> None:
        if self._loop is None or self._next_drawing is not None:
            return
        due = max(self._drawn_at + SECONDS_BETWEEN_DRAWINGS, self._loop.time())
        self._next_drawing = self._loop.call_at(due, self._draw_scheduled)

    def _draw_scheduled(self) -> None:
        self._next_drawing = None
        if self._loop is not None:
            self._drawn_at = self._loop.time()
            self.draw()

    def _tick(self) -> None:
        """Update the clock every second."""
        if self._loop is not None:
            self._schedule_drawing()
            self._loop.call_later(SECONDS_BETWEEN_CLOCK_UPDATES, self._tick)


def terminal_size(stream: BinaryIO) -> Size:
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return Size()
    return Size(size.columns or Size().columns, size.lines or Size().lines)
