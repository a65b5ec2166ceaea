"""Writes what a container says to its log, in files of a bounded size and number.

A log is never a reason for a container to end: what cannot be written is lost, and a line of the log says how much.
How the lines look is in `podlife.logs`.
"""

import contextlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from windlass.localcluster.sandbox import log_format

Stream = Literal["stdout", "stderr"]

MOST_BYTES = 10 * 1024 * 1024
MOST_FILES = 5


class LogWriter:
    """The log at `path`, whose folder is there already. Nothing here raises an OSError."""

    def __init__(
        self,
        path: str,
        most_bytes: int = MOST_BYTES,
        most_files: int = MOST_FILES,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path = Path(path)
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._clock = clock
        self._rests: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._file: int | None = None
        self._size = 0
        self._ends_within_line = False
        self._lost = 0
        self._reason = ""
        # Whoever follows the log finds it as soon as the container has started.
        self._append(b"", self._clock())

    def write(self, stream: Stream, chunk: bytes) -> None:
        """A line without its end yet is kept back until it ends or is long, as container runtimes do."""
        at = self._clock()
        lines, self._rests[stream] = log_format.encoded_output(self._rests[stream], chunk, stream, at)
        if lines:
            self._append(lines, at)

    def end(self, stream: Stream) -> None:
        """There is no more output: what was kept back is written."""
        at = self._clock()
        lines, self._rests[stream] = log_format.encoded_end(self._rests[stream], stream, at), b""
        if lines:
            self._append(lines, at)

    def close(self) -> None:
        self.end("stdout")
        self.end("stderr")
        if self._lost:
            self._append(b"", self._clock())
        self._let_go()

    def _append(self, lines: bytes, at: int) -> None:
        try:
            file = self._ready_file(at)
        except OSError as error:
            self._fail(error, lines)
            return
        owed = self._owed(at)
        data = owed + lines
        written, obstacle = _written(file, data)
        self._size += written
        if written >= len(owed):
            self._ends_within_line, self._lost = False, 0
        if obstacle is not None:
            first_lost = max(data.rfind(b"\n", 0, written) + 1, len(owed))
            self._fail(obstacle, data[first_lost:])

    def _fail(self, error: OSError, lost_lines: bytes) -> None:
        self._reason = error.strerror or str(error)
        self._lost += log_format.output_bytes(lost_lines)
        # Opened anew before the next try, which then sees whether the last line is whole.
        self._let_go()

    def _owed(self, at: int) -> bytes:
        """What must come before the next line."""
        line_end = b"\n" if self._ends_within_line else b""
        if not self._lost:
            return line_end
        text = f"windlass: {self._lost} bytes of output are missing here, the log could not be written: {self._reason}"
        return line_end + log_format.encoded(text.encode(), "stderr", at)

    def _ready_file(self, at: int) -> int:
        file = self._open() if self._file is None else self._file
        if self._size <= self._most_bytes:
            return file
        self._let_go()
        self._rotate(at)
        return self._open()

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, mode=0o640)
        self._size = os.fstat(self._file).st_size
        self._ends_within_line = self._size > 0 and os.pread(self._file, 1, self._size - 1) != b"\n"
        return self._file

    def _let_go(self) -> None:
        if self._file is not None:
            # A disk that is reached over a network may tell only now that it is full.
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file = None

    def _rotate(self, at: int) -> None:
        name = self._path.name
        names = [each.name for each in self._path.parent.iterdir()]
        rotated = log_format.rotated_name(names, name, datetime.fromtimestamp(at / 10**9, UTC))
        self._path.rename(self._path.with_name(rotated))
        for each in log_format.names_to_remove([*names, rotated], name, self._most_files):
            self._path.with_name(each).unlink(missing_ok=True)


def _written(file: int, data: bytes) -> tuple[int, OSError | None]:
    """How much of it, and what kept the rest from being written."""
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError as error:
        return written, error
    return written, None
