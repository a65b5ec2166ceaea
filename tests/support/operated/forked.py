"""Controllers that start at once: each is forked from a process that has imported all that they need.

From the command line on they are the same as others; a start costs a tenth. That is for tests that start hundreds.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from operated.processes import Process

IMPORTED = [
    "windlass.cli.main",
    "windlass.cli.commands.controller",
    "windlass.kubeapi.kubeconfig",
    "windlass.controller.operator",
]
SET_PARENT_DEATH_SIGNAL = 1


class Forked(Process):
    """`windlass` with these arguments."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        self._forked = context.Process(target=_run, args=(list(arguments), log), daemon=True)
        self._forked.start()
        super().__init__(name, log)

    @property
    def pid(self) -> int:
        assert self._forked.pid is not None
        return self._forked.pid

    @property
    def code(self) -> int | None:
        return self._forked.exitcode

    def _end(self) -> None:
        self._forked.kill()
        self._forked.join()


def _run(arguments: Sequence[str], log: Path) -> None:
    """In the new process, which ends with the one that forked it, which ends with the test process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (sys.stdout, sys.stderr):
        os.dup2(output, standard.fileno())
    from windlass.cli.main import main

    main(list(arguments), prog_name="windlass")
