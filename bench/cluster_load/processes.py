"""Measure the CPU time and peak memory of a program and its child processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
SECONDS_TO_END = 30.0


class Measured:
    """A program, found by its session ID, including its child processes."""

    def __init__(self, session: int) -> None:
        self.session = session

    def cpu_seconds(self) -> float:
        return sum(_cpu_seconds(stat) for stat in self._stats())

    def peak_megabytes(self) -> float:
        return sum(_peak_kilobytes(int(stat[0])) for stat in self._stats()) / 1024

    def _stats(self) -> Iterator[list[str]]:
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text()
                # The name in parentheses may contain any character.
                stat = [entry.name, *text.rpartition(")")[2].split()]
                if int(stat[4]) == self.session:
                    yield stat


def _cpu_seconds(stat: list[str]) -> float:
    """Return the CPU time of a process and of its reaped children."""
    return sum(map(int, stat[12:16])) / TICKS


def _peak_kilobytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0])
    return 0


class Program(Measured):
    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self.began = time.monotonic()
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        super().__init__(self._process.pid)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Stop the program and its children, by force if necessary."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.session, signal.SIGTERM)
        try:
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.session, signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Program]:
    program = Program(command, log, environment)
    try:
        yield program
    finally:
        program.stop()


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]
