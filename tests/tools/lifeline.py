"""Tells whether a process lives that is nobody's child any more, without asking for its number.

It holds a pipe open; the kernel closes it with the process, even one that nobody buries.
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
        """For /bin/sh: a process that takes hold and does not let go."""

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
