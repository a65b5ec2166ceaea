"""Programs that a test starts. Each has a log and ends with the test process."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import programs
from conformance.waiting import wait_for

STARTED: "list[Process]" = []
"""The processes of the current test, whose logs are shown when it fails."""


class Process:
    """A running process. Subclasses start it."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._last_words = ""
        STARTED.append(self)

    @property
    def pid(self) -> int:
        raise NotImplementedError

    @property
    def code(self) -> int | None:
        """Return the exit code; None while it runs."""
        raise NotImplementedError

    def _end(self) -> None:
        """Kill the process with SIGKILL and wait for its end."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._end()
        self._last_words = self.tail()

    def stop(self) -> int:
        """Send SIGTERM, as Kubernetes does, and wait for the end."""
        os.kill(self.pid, signal.SIGTERM)
        code = wait_for(f"{self.name} to end\n{self.text()}", lambda: self._ended())
        return code - 1

    def _ended(self) -> int | None:
        """Return the exit code plus one, so that zero is not falsy."""
        code = self.code
        return None if code is None else code + 1

    def wait_for_end(self) -> int:
        return wait_for(f"{self.name} to end", lambda: self._ended()) - 1

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def tail(self, lines: int = 60) -> str:
        """Return the end of the log, even after its folder was deleted."""
        if not self.log.exists():
            return self._last_words
        return "\n".join(line[:600] for line in self.text().splitlines()[-lines:])


class Spawned(Process):
    """Any program."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        whole = list(command)
        if sys.platform == "linux":
            whole = [sys.executable, "-I", "-S", "-c", programs.UNTIL_PARENT_ENDS, str(os.getpid()), *whole]
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                whole,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        super().__init__(name, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
