"""The folder in which one layer or image is made, and how programs are run there. What they are is making.py's."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import programs  # of the folder above


class ImagesError(Exception):
    """An image cannot be had. The message says why, and what to do."""


@dataclasses.dataclass(frozen=True)
class Workshop:
    """Only the log outlives the work."""

    folder: Path
    log: Path
    environment: Mapping[str, str]
    started: float

    def say(self, what: str) -> None:
        print(f"[{time.monotonic() - self.started:4.0f} s] {what}", file=sys.stderr, flush=True)

    def run(self, *argv: str | Path, settings: Mapping[str, str] | None = None) -> None:
        """Runs it to its end. Whatever ends us first ends it too, with all that it started."""
        environment = {
            **self.environment,
            "TMPDIR": str(self.folder),
            "LC_ALL": "C.UTF-8",
            **(settings or {}),
        }
        with self.log.open("a") as log:
            print("$", *argv, file=log, flush=True)
            process = subprocess.Popen(  # noqa: S603
                argv,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if code != 0:
            raise ImagesError(self._failure(argv, code))

    def _failure(self, argv: Sequence[str | Path], code: int) -> str:
        command = " ".join(map(str, argv))[:120]
        return f"`{command}` ended with exit code {code}. The last lines of {self.log}:\n{programs.tail(self.log)}"
