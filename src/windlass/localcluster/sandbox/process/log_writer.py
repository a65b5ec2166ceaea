"""Write the output of a container to log files of limited size and number.

A container never fails because of its log: output that cannot be written is lost, and a line in the log states how many
bytes are missing. A reader holds a shared lock (flock) on each file that it has not read completely; the writer deletes
neither locked files nor their successors. `log_format` defines the lines.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from windlass.localcluster.sandbox import log_format

Stream = Literal["stdout", "stderr"]

MAX_BYTES = 10 * 1024 * 1024
MAX_FILES = 5
MAX_FIRST_FILES = 100
"""Maximum number of files in the first minute of a run, when a reader that follows it from its start may be late."""
_FIRST_NANOSECONDS = 60 * 10**9


class LogWriter:
    """The log at `path`, in an existing directory. No method raises OSError."""

    def __init__(
        self,
        path: str,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._clock = clock
        self._created_at = clock()
        self._incomplete_lines: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._states: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        """States of incomplete lines with carriage returns, e.g. progress bars."""
        self._file: int | None = None
        self._size = 0
        self._ends_within_line = False
        self._lost_bytes = 0
        self._reason = ""
        # Create the file now, so that clients can follow the log as soon as the container has started.
        self._append(b"", self._created_at)

    def write(self, stream: Stream, chunk: bytes) -> None:
        """Write complete lines. Like container runtimes, hold back an incomplete line unless it is too long."""
        at = self._clock()
        lines, self._incomplete_lines[stream] = log_format.encoded_output(
            self._incomplete_lines[stream], chunk, stream, at
        )
        if lines:
            self._append(lines, at)
        self._store_state(stream)

    def end(self, stream: Stream) -> None:
        """Write an incomplete last line at the end of the output."""
        at = self._clock()
        lines, self._incomplete_lines[stream] = (
            log_format.encoded_end(self._incomplete_lines[stream], stream, at),
            b"",
        )
        if lines:
            self._append(lines, at)
        self._store_state(stream)

    def close(self) -> None:
        self.end("stdout")
        self.end("stderr")
        if self._lost_bytes:
            self._append(b"", self._clock())
        self._close_file()

    def _store_state(self, stream: Stream) -> None:
        """Store the state of an incomplete line in a file of its own, since the log contains only complete lines."""
        state = log_format.unfinished_state(self._incomplete_lines[stream])
        if state == self._states[stream]:
            return
        self._states[stream] = state
        shown = (state or next(filter(None, self._states.values()), b"")) + b"\n"
        path = self._path.with_name(log_format.unfinished_name(self._path.name))
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode=0o640)
            try:
                # A reader that reads in between gets the new state, up to its newline.
                os.pwrite(file, shown, 0)
                os.ftruncate(file, len(shown))
            finally:
                os.close(file)

    def _append(self, lines: bytes, at: int) -> None:
        try:
            file = self._ready_file(at)
        except OSError as error:
            self._fail(error, lines)
            return
        prefix = self._pending_prefix(at)
        data = prefix + lines
        written, problem = _write(file, data)
        self._size += written
        if written >= len(prefix):
            self._ends_within_line, self._lost_bytes = False, 0
        if problem is not None:
            first_lost = max(data.rfind(b"\n", 0, written) + 1, len(prefix))
            self._fail(problem, data[first_lost:])

    def _fail(self, error: OSError, lost_lines: bytes) -> None:
        self._reason = error.strerror or str(error)
        self._lost_bytes += log_format.output_bytes(lost_lines)
        # The next write reopens the file and checks whether its last line is complete.
        self._close_file()

    def _pending_prefix(self, at: int) -> bytes:
        """Return the missing newline of the last line and the message about lost output, if any."""
        line_end = b"\n" if self._ends_within_line else b""
        if not self._lost_bytes:
            return line_end
        text = (
            f"windlass: {self._lost_bytes} bytes of output are missing: cannot write the log: {self._reason}"
        )
        return line_end + log_format.encoded(text.encode(), "stderr", at)

    def _ready_file(self, at: int) -> int:
        file = self._open() if self._file is None else self._file
        if self._size <= self._max_bytes:
            return file
        self._close_file()
        self._rotate(at)
        return self._open()

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, mode=0o640)
        self._size = os.fstat(self._file).st_size
        self._ends_within_line = self._size > 0 and os.pread(self._file, 1, self._size - 1) != b"\n"
        return self._file

    def _close_file(self) -> None:
        if self._file is not None:
            # A network disk may report only now that it is full.
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file = None

    def _rotate(self, at: int) -> None:
        name = self._path.name
        names = [each.name for each in self._path.parent.iterdir()]
        rotated = log_format.rotated_name(names, name, datetime.fromtimestamp(at / 10**9, UTC))
        self._path.rename(self._path.with_name(rotated))
        is_first_minute = at - self._created_at < _FIRST_NANOSECONDS
        max_files = max(self._max_files, MAX_FIRST_FILES) if is_first_minute else self._max_files
        for each in log_format.names_to_remove([*names, rotated], name, max_files):
            if not _remove_unless_read(self._path.with_name(each)):
                break


def _remove_unless_read(path: Path) -> bool:
    """Delete a file, and return True, unless a reader has locked it."""
    with contextlib.suppress(FileNotFoundError), path.open("rb+", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # the file system has no locks
        path.unlink()
    return True


def _write(file: int, data: bytes) -> tuple[int, OSError | None]:
    """Write data, and return the number of bytes written and the error, if any."""
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError as error:
        return written, error
    return written, None
