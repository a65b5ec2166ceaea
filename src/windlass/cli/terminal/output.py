"""Format and write the lines of a run. The runner decides what to report; only progress lines may be omitted here."""

import asyncio
import contextlib
import io
import select
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import BinaryIO

import msgspec

from windlass.cli import json_output
from windlass.cli.terminal import colours, live_view
from windlass.cli.terminal import text as terminal_text
from windlass.cli.terminal.unfinished_lines import UnfinishedLines
from windlass.client import paths
from windlass.client.usage import Usage
from windlass.model import untrusted_text
from windlass.model.framework import Framework
from windlass.render.manifest import Manifest
from windlass.runner.report import (
    DetailLine,
    Lasting,
    LogLines,
    ProgressLine,
    Reported,
    Source,
    UnfinishedLine,
    Verdict,
)

MAX_PENDING_BYTES = 256 * 1024
"""Number of unwritten bytes after which the reading of logs pauses."""
ABANDONED_WAIT_SECONDS = 1.0
"""How long `finish` waits for the reader of the output after `abandon`."""
PROGRESS_EVERY = timedelta(seconds=10)
"""Minimum time between two progress lines of a task in text output, except before the last one."""


class Style(msgspec.Struct, frozen=True):
    """Format of the lines."""

    is_json: bool = False
    width: int = 0
    """Width of the longest name."""
    colours: Mapping[str, int] = {}
    """Colours by task name; empty for no colours."""
    shows_logs: bool = True
    is_terminal: bool = False
    """Whether the output is a terminal, so that control sequences of containers, except colours, are removed."""


def format_line(item: Lasting, style: Style) -> bytes:
    """Return one line, or several log lines, with line ends."""
    if isinstance(item, LogLines):
        return _json_log_lines(item) if style.is_json else _text_log_lines(item, style)
    if style.is_json:
        return json_output.encode(item) + b"\n"
    if isinstance(item, Verdict):
        output = f"output: {untrusted_text.escaped(paths.with_tilde(item.output))}\n" if item.output else ""
        return f"{untrusted_text.escaped(item.message)}\n{output}".encode("utf-8", "backslashreplace")
    name = f"{item.object:<{style.width}}"
    message = _progress_text(item) if isinstance(item, ProgressLine) else item.message
    line = untrusted_text.escaped(f"{_local_time(item.time)}  {name}  {message}")
    return f"{line}\n".encode("utf-8", "backslashreplace")


def _text_log_lines(item: LogLines, style: Style) -> bytes:
    """Return the lines with labels. Colours that the container wrote are kept and, if labels are coloured, reset at the
    end of each line."""
    colour = style.colours.get(item.object)
    label = colours.colour(_label(item.object, style), colour).encode() + b" "
    end = (b"" if colour is None else colours.RESET.encode()) + b"\n"
    data = terminal_text.safe_log_lines(item.data) if style.is_terminal else item.data
    return label + data.removesuffix(b"\n").replace(b"\n", end + label) + end


def _label(name: str, style: Style) -> str:
    shown = terminal_text.printable(name) if style.is_terminal else name
    return f"{shown:<{style.width}} |"


def _json_log_lines(item: LogLines) -> bytes:
    """Return an object for each line. An incomplete line has the field `partial`."""
    fields = {"event": item.event, "time": item.time, "object": item.object, "container": item.container}
    start = json_output.encode(fields)[:-1] + b',"line":'
    *lines, rest = item.data.decode("utf-8", "replace").split("\n")
    objects = [start + json_output.encode(line) + b"}\n" for line in lines]
    if rest:
        objects.append(start + json_output.encode(rest) + b',"partial":true}\n')
    return b"".join(objects)


def _progress_text(item: ProgressLine) -> str:
    done = f"has done {item.step} of {item.total} steps" if item.total else f"has done {item.step} steps"
    remaining = f"about {live_view.format_short_duration(item.remaining)} left" if item.remaining else ""
    values = " ".join(f"{name}={value}" for name, value in item.values.items())
    return ", ".join(part for part in (done, remaining, values) if part)


def _local_time(moment: datetime) -> str:
    """Return the local time."""
    return moment.astimezone().strftime("%H:%M:%S.%f")[:-3]


class Writer:
    """Writes in a thread, so that a slow reader of the stream delays only callers of `wait_for_reader` and
    `finish`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = _unbuffered(stream)
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._changed = threading.Condition()
        self._is_finished = False
        self._is_writing = False
        self._is_closed = False
        self._is_abandoned = False
        self._error: OSError | None = None
        self._when_closed: Callable[[], None] = lambda: None
        self._when_written: Callable[[], None] = lambda: None
        self._was_written = asyncio.Event()
        self._thread = threading.Thread(target=self._write, name="output", daemon=True)
        self._thread.start()

    def attach(self, loop: asyncio.AbstractEventLoop, when_closed: Callable[[], None]) -> None:
        self._when_closed = lambda: _call(loop, when_closed)
        self._when_written = lambda: _call(loop, self._was_written.set)

    @property
    def is_idle(self) -> bool:
        """Whether everything is written."""
        return not self._pending and not self._is_writing

    def write(self, piece: bytes) -> None:
        with self._changed:
            if not self._is_closed:
                self._pending.append(piece)
                self._pending_bytes += len(piece)
                self._changed.notify()

    async def wait_for_reader(self) -> None:
        """Wait until at most MAX_PENDING_BYTES are unwritten, or writing has failed."""
        while self._pending_bytes > MAX_PENDING_BYTES and not self._is_closed:
            self._was_written.clear()
            await self._was_written.wait()

    def abandon(self) -> None:
        self._is_abandoned = True

    def finish(self) -> None:
        with self._changed:
            self._is_finished = True
            self._changed.notify()
        self._thread.join(ABANDONED_WAIT_SECONDS if self._is_abandoned else None)
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        while (pieces := self._next_pieces()) is not None:
            try:
                _write_all(self._stream, b"".join(pieces))
            except (OSError, ValueError) as error:
                with self._changed:
                    self._error = error if isinstance(error, OSError) else None
                    self._is_closed = True
                    self._pending.clear()
                    self._pending_bytes = 0
                self._when_closed()
                self._when_written()
                return
            with self._changed:
                self._pending_bytes -= sum(map(len, pieces))
            self._is_writing = False
            self._when_written()

    def _next_pieces(self) -> list[bytes] | None:
        with self._changed:
            while not self._pending and not self._is_finished:
                self._changed.wait()
            pieces = list(self._pending)
            self._pending.clear()
            self._is_writing = bool(pieces)
            return pieces or None


def _unbuffered(stream: BinaryIO) -> BinaryIO | io.FileIO:
    """Return the file of a stream; the stream itself if it has none.

    Python cannot exit while a thread holds the lock of a buffered stream.
    """
    try:
        return io.FileIO(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):
        return stream


def _write_all(stream: BinaryIO | io.FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        count = stream.write(rest)
        if count is None:  # another process has made the pipe or terminal non-blocking
            select.select([], [stream], [])
        rest = rest[count or 0 :]
    stream.flush()


class Output:
    """Shows a run as lines of text or JSON."""

    shows_usage = False

    def __init__(
        self, stream: BinaryIO, style: Style, unfinished_lines: UnfinishedLines | None = None
    ) -> None:
        """`unfinished_lines` shows incomplete lines on a terminal; None to show only complete ones."""
        self._style = style
        self._writer = Writer(stream)
        self._unfinished_lines = unfinished_lines
        self.shows_unfinished_lines = unfinished_lines is not None
        self._last_progress_time: dict[str, datetime] = {}
        self.attach = self._writer.attach
        self.wait_for_reader = self._writer.wait_for_reader
        self.abandon = self._writer.abandon

    def finish(self) -> None:
        if self._unfinished_lines is not None:
            self._writer.write(self._unfinished_lines.clear())
        self._writer.finish()

    def report(self, item: Reported) -> None:
        if isinstance(item, UnfinishedLine):
            self._show_unfinished(item)
            return
        is_omitted = isinstance(item, DetailLine) and not self._style.is_json
        if not is_omitted and (not isinstance(item, ProgressLine) or self._is_line_due(item)):
            self._write(item)

    def _write(self, item: Lasting) -> None:
        data = format_line(item, self._style)
        if self._unfinished_lines is not None:
            if isinstance(item, LogLines) and b"\r" in item.data:
                # The incomplete line is now complete.
                self._unfinished_lines.set((item.object, item.container), "", None, b"")
            data = self._unfinished_lines.around(data)
        self._writer.write(data)

    def _show_unfinished(self, item: UnfinishedLine) -> None:
        if self._unfinished_lines is None:
            return
        label, colour = _label(item.object, self._style), self._style.colours.get(item.object)
        self._unfinished_lines.set((item.object, item.container), label, colour, item.state)
        if drawing := self._unfinished_lines.update():
            self._writer.write(drawing)

    def update_status(self, job: Manifest, framework: Framework) -> None:
        """Do nothing: the lines report events, not states."""

    def update_usage(self, usage: Mapping[tuple[str, str], Usage]) -> None:
        """Do nothing: the lines do not report resource usage."""

    def _is_line_due(self, item: ProgressLine) -> bool:
        if self._style.is_json:
            return True
        if self._style.shows_logs and item.source is Source.LOG:
            return False
        last = self._last_progress_time.get(item.object)
        if last is not None and item.time - last < PROGRESS_EVERY and not item.progress.is_complete:
            return False
        self._last_progress_time[item.object] = item.time
        return True


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)
