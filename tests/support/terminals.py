"""Run a program on a terminal whose screen tests can read."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyte

from conformance.waiting import wait_for


class Terminal:
    """A terminal whose screen is updated by a thread."""

    def __init__(self, columns: int, lines: int) -> None:
        self.master, self.slave = pty.openpty()
        self._screen = pyte.HistoryScreen(columns, lines, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.written = b""
        self._set_size(columns, lines)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def lines(self) -> list[str]:
        """Return the screen."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    @property
    def cells(self) -> list[list[pyte.screens.Char]]:
        """Return the screen with colours and weights."""
        with self._lock:
            buffer = self._screen.buffer
            return [
                [buffer[row][column] for column in range(self._screen.columns)]
                for row in range(self._screen.lines)
            ]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def everything(self) -> str:
        """Return the screen and what has scrolled off."""
        with self._lock:
            above = [
                "".join(line[column].data for column in range(self._screen.columns))
                for line in self._screen.history.top
            ]
        return "\n".join((*(line.rstrip() for line in above), self.text))

    @property
    def cursor(self) -> tuple[int, int, bool]:
        """Return line, column, and whether it is visible."""
        with self._lock:
            cursor = self._screen.cursor
            return cursor.y, cursor.x, not cursor.hidden

    def resize(self, columns: int, lines: int) -> None:
        with self._lock:
            self._screen.resize(lines, columns)
        self._set_size(columns, lines)

    def shows(self, *words: str) -> None:
        try:
            wait_for(f"{words} on the screen", lambda: all(word in self.text for word in words))
        except AssertionError as error:
            error.add_note(self.everything)
            raise

    def close(self) -> None:
        for descriptor in (self.slave, self.master):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._reader.join()

    def hang_up(self) -> None:
        """Close the terminal, so that the program's output fails. Returns after the next output of the program."""
        with Path(os.devnull).open("rb") as null:
            os.dup2(null.fileno(), self.master)
        self._reader.join()

    def let_go(self) -> None:
        """Close the program's side, so that the output ends with the program."""
        os.close(self.slave)

    def drained(self) -> None:
        """Wait until all output is on the screen, after `let_go` and the program's end."""
        self._reader.join()

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # the other side is closed
                return
            if not piece:
                return
            with self._lock:
                self.written += piece
                self._stream.feed(piece)


class Shown:
    """A program on a terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", terminal: Terminal) -> None:
        self.process = process
        self.terminal = terminal

    def done(self, seconds: float = 240.0) -> int:
        code = self.process.wait(seconds)
        self.terminal.drained()
        return code


@contextlib.contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, columns: int = 80, lines: int = 24
) -> Iterator[Shown]:
    terminal = Terminal(columns, lines)
    try:
        process = subprocess.Popen(  # noqa: S603
            # Under nohup SIGHUP is ignored by all child processes.
            ("/usr/bin/env", "--default-signal=HUP", *command),
            env={"TERM": "xterm-256color", **environment},
            cwd=folder,
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            start_new_session=True,
        )
        terminal.let_go()
        try:
            yield Shown(process, terminal)
        finally:
            process.kill()
            process.wait()
    finally:
        terminal.close()
