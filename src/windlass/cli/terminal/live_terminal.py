"""Draw the live view on a terminal: a table that is redrawn in place, below lines about events.

The cursor is never hidden and stays at the start of the line below the table, so that the shell can continue there
after any end of the process. `Canvas` computes the output, `Screen` schedules the drawing.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec

from windlass.cli.terminal import live_view, output
from windlass.cli.terminal import text as terminal_text
from windlass.cli.terminal.live_board import ROUTINE, Board
from windlass.cli.terminal.output import Style, Writer
from windlass.model.framework import Framework
from windlass.render.manifest import Manifest
from windlass.runner.report import Advance, Line, LogLine, Topic, Verdict
from windlass.runner.reporter import Reported
from windlass.runner.usage import Usage

SECONDS_BETWEEN_DRAWINGS = 0.25
SECONDS_BETWEEN_CLOCKS = 1.0
_KEPT_REASONS = 200
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
        self._reasons: deque[str] = deque(maxlen=_KEPT_REASONS)
        self._lasting: list[str] = []
        self._size = Size()

    def keep(self, reason: str) -> None:
        """Mark a line of the next drawing to be shown again whenever the terminal is cleared."""
        self._lasting.append(reason)

    def drawn(self, lines: Sequence[str], reasons: Sequence[str], size: Size) -> str:
        """Return the output for the next drawing; empty if nothing has changed."""
        self._reasons.extend(reasons)
        old, self._lines = self._lines, list(lines)
        was, self._size = self._size, size
        is_smaller = size.columns < was.columns or size.lines < was.lines
        if is_smaller and old:
            # The terminal has wrapped or dropped lines, so the start of the table is unknown.
            return _CLEAR + self._last_reasons(size.lines - 1 - len(lines)) + _ended(lines)
        up = f"\r\x1b[{len(old)}A" if old else "\r"
        if reasons or len(lines) != len(old):
            return up + _ERASE_BELOW + _ended(reasons) + _ended(lines)
        if self._lines == old:
            return ""
        pairs = zip(old, lines, strict=True)
        changed = ("" if line == before else line + _ERASE_LINE for before, line in pairs)
        return up + _ended(tuple(changed)) + _ERASE_BELOW

    def forget(self) -> None:
        """Start the next drawing at the cursor, after other output on the terminal."""
        self._lines = []

    def _last_reasons(self, room: int) -> str:
        """Return all lasting lines, and as many of the others as fit."""
        others = [each for each in self._reasons if each not in self._lasting]
        left = room - len(self._lasting)
        return _ended((*self._lasting, *(others[-left:] if left > 0 else ())))


def _ended(lines: Sequence[str]) -> str:
    return "".join(f"{line}\r\n" for line in lines)


class Screen:
    """Shows a run as a live view on a terminal."""

    wants_usage = True

    def __init__(
        self,
        stream: BinaryIO,
        jobs: Sequence[Manifest],
        style: Style,
        *,
        has_colours: bool,
        has_utf8: bool = True,
        size: Callable[[], Size] | None = None,
    ) -> None:
        self._writer = Writer(stream)
        self._board = Board(jobs, _now())
        self._style = style
        self._has_colours = has_colours
        self._has_utf8 = has_utf8
        self._size = size or (lambda: size_of(stream))
        self._canvas = Canvas()
        self._reasons: list[str] = []
        self._verdicts: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.TimerHandle | None = None
        self._drawn_at = 0.0

    def attach(self, loop: asyncio.AbstractEventLoop, when_closed: Callable[[], None]) -> None:
        self._loop = loop
        self._writer.attach(loop, when_closed)
        with contextlib.suppress(ValueError, RuntimeError):  # signals are for the main thread only
            loop.add_signal_handler(signal.SIGWINCH, self._changed)
            loop.add_signal_handler(signal.SIGCONT, self._begin_anew)
        self._tick()

    def say(self, said: Reported) -> None:
        match said:
            case LogLine():
                self._board.line(said)
            case Advance():
                self._board.advance(said)
            case Verdict():
                self._verdicts.append(self._line(said, is_bad=said.exit != 0))
            case Line():
                self._board.reason(said)
                if not (said.event is Topic.POD and said.reason in ROUTINE):
                    self._reason(said)
        self._changed()

    def _reason(self, said: Line) -> None:
        line = self._line(said, is_bad=said.reason == "Failed")
        self._reasons.append(line)
        if said.event is Topic.COMPANION:
            # The URL is needed later, and the password is shown only once.
            self._canvas.keep(line)

    def framework(self, job: Manifest, framework: Framework) -> None:
        self._board.framework(job, framework)
        self._changed()

    def usage(self, usage: Mapping[tuple[str, str], Usage]) -> None:
        self._board.usage(usage)
        self._changed()

    async def room(self) -> None:
        """Never wait: only the last line of a task is shown."""

    def finish(self) -> None:
        """Draw the last state and the verdicts. The loop may be closed."""
        self._loop = None
        self._draw()
        self._write("".join(f"{line}\r\n" for line in self._verdicts))
        self._writer.finish()

    def draw(self) -> None:
        """Draw now if the previous drawing is written, else soon."""
        if self._writer.is_idle:
            self._draw()
        else:
            self._changed()

    def _draw(self) -> None:
        size = self._size()
        view = self._board.view(_now(), has_colours=self._has_colours)
        # One line is for the cursor, and some terminals wrap a full line.
        lines = live_view.render(view, size.columns - 1, size.lines - 1)
        reasons, self._reasons = self._reasons, []
        self._write(self._canvas.drawn(lines, reasons, size))

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._has_utf8:
            self._writer.write(text.encode("utf-8", "replace"))
        else:
            self._writer.write(text.translate(_WITHOUT_UTF8).encode("ascii", "replace"))

    def _line(self, said: Line | Verdict, *, is_bad: bool) -> str:
        text = output.format_line(said, self._style).decode("utf-8", "replace").removesuffix("\n")
        return f"{_RED}{text}{_END}" if is_bad and self._has_colours else text

    def _begin_anew(self) -> None:
        self._canvas.forget()
        self._changed()

    def _changed(self) -> None:
        """Schedule a drawing."""
        if self._loop is None or self._next is not None:
            return
        due = max(self._drawn_at + SECONDS_BETWEEN_DRAWINGS, self._loop.time())
        self._next = self._loop.call_at(due, self._come_to_draw)

    def _come_to_draw(self) -> None:
        self._next = None
        if self._loop is not None:
            self._drawn_at = self._loop.time()
            self.draw()

    def _tick(self) -> None:
        """Update the clock every second."""
        if self._loop is not None:
            self._changed()
            self._loop.call_later(SECONDS_BETWEEN_CLOCKS, self._tick)


def size_of(stream: BinaryIO) -> Size:
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return Size()
    return Size(found.columns or Size().columns, found.lines or Size().lines)


def _now() -> datetime:
    return datetime.now(UTC)
