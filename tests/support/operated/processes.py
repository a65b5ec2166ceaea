"""Programs that a test starts: each with its log, each of which ends with the test process, however that ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import programs
from conformance.waiting import wait_for

STARTED: "list[Process]" = []
"""All that ran during the current test, so that their logs can be shown when it fails."""


class Process:
    """How it was started is known to its subclass."""

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
        """How it ended; None while it runs."""
        raise NotImplementedError

    def _end(self) -> None:
        """With -9; returns when it has ended."""
        raise NotImplementedError

    def kill(self) -> None:
        """With -9: it has no chance to say good-bye."""
        self._end()
        self._last_words = self.tail()

    def stop(self) -> int:
        """With SIGTERM, as Kubernetes does it; waits for its end."""
        os.kill(self.pid, signal.SIGTERM)
        code = wait_for(f"{self.name} to end\n{self.text()}", lambda: self._ended())
        return code - 1

    def _ended(self) -> int | None:
        """One more than its exit code, which may be zero and thereby look like nothing."""
        code = self.code
        return None if code is None else code + 1

    def wait_for_end(self) -> int:
        return wait_for(f"{self.name} to end", lambda: self._ended()) - 1

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def tail(self, lines: int = 60) -> str:
        """The end of its log, even when the folder that held it is gone."""
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
