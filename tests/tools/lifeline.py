"""Detect whether an orphaned process is alive, without its PID.

It holds a pipe open; the kernel closes it with the process, even if it is not reaped.
"""

import os
import select
from pathlib import Path

LIMIT = 60.0


class Lifeline:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "lifeline"
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.script = f"exec 3> '{self.path}'; echo started >&3; exec sleep 1000"
        """Return a shell command for a process that holds the pipe."""

    def close(self) -> None:
        os.close(self._end)

    def wait_for_start(self) -> None:
        assert self._read() == b"started\n"

    def wait_for_end(self) -> None:
        assert self._read() == b""

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._end], [], [], LIMIT)
        assert ready, f"nothing happened for {LIMIT} s"
        return os.read(self._end, 100)
