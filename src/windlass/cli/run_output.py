"""How the lines of a run look, and how they get out. What is told, and when, is none of its business."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import BinaryIO

import msgspec

from windlass.cli.run_report import Line, LogLine, Verdict

MOST_PENDING = 1000
"""So many lines may wait for a slow reader before logs are not read on."""
TEXT, JSON = "text", "json"

_encode = msgspec.json.Encoder().encode
_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
"""Part of what is told comes from other people's containers: a line stays a line, and drives no terminal."""

Said = Line | LogLine | Verdict


def rendered(said: Said, form: str, width: int) -> bytes:
    """One line, with its end. `width` is that of the longest name."""
    if form == JSON:
        return _encode(said) + b"\n"
    if isinstance(said, LogLine):
        # As the container wrote it: who prints colours wants to see them.
        return f"{said.object:<{width}} | {said.line}\n".encode("utf-8", "surrogateescape")
    message = said.message.translate(_CONTROL_CHARACTERS)
    return f"{_clock(said.time)}  {said.object:<{width}}  {message}\n".encode("utf-8", "backslashreplace")


def _clock(moment: datetime) -> str:
    """That of the person who looks on."""
    return moment.astimezone().strftime("%H:%M:%S.%f")[:-3]


class Output:
    """Lines are written by a thread: whoever reads them slowly holds up the logs, but not the cluster."""

    def __init__(self, stream: BinaryIO, form: str, width: int) -> None:
        self._stream = stream
        self._form = form
        self._width = width
        self._pending: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._is_over = False
        self._is_closed = False
        self._when_closed: Callable[[], None] = lambda: None
        self._when_room: Callable[[], None] = lambda: None
        self._has_room = asyncio.Event()
        self._thread = threading.Thread(target=self._write, name="output", daemon=True)
        self._thread.start()

    def attach(self, loop: asyncio.AbstractEventLoop, when_closed: Callable[[], None]) -> None:
        """`when_closed` is called when nobody reads any more."""
        self._when_closed = lambda: _call(loop, when_closed)
        self._when_room = lambda: _call(loop, self._has_room.set)

    def say(self, said: Said) -> None:
        """Never waits."""
        line = rendered(said, self._form, self._width)
        with self._changed:
            if not self._is_closed:
                self._pending.append(line)
                self._changed.notify()

    async def room(self) -> None:
        """Until the reader has caught up."""
        while len(self._pending) > MOST_PENDING and not self._is_closed:
            self._has_room.clear()
            await self._has_room.wait()

    def finish(self) -> None:
        """Waits until all of it is written, or nobody reads it."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()

    def _write(self) -> None:
        while (lines := self._next()) is not None:
            try:
                self._stream.write(b"".join(lines))
                self._stream.flush()
            except (OSError, ValueError):
                with self._changed:
                    self._is_closed = True
                    self._pending.clear()
                self._when_closed()
                self._when_room()
                return
            self._when_room()

    def _next(self) -> list[bytes] | None:
        with self._changed:
            while not self._pending and not self._is_over:
                self._changed.wait()
            lines = list(self._pending)
            self._pending.clear()
            return lines or None


def _call(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
        loop.call_soon_threadsafe(what)
