"""Injected faults: delayed starts of pods, and exit codes reported for killed containers.

Faults are kept in memory: after a restart of the daemon, an injected exit code is reported as a kill.
"""

import signal
from collections.abc import Callable

import msgspec

from windlass.localcluster.sandbox.messages import Ended
from windlass.model.base import Json

SIGKILL_EXIT_CODE = 128 + signal.SIGKILL


class FaultInjector:
    def __init__(self) -> None:
        self.start_delay: Callable[[Json], float] = lambda _: 0.0
        """Function from a pod to the delay of its start in seconds, called once when the pod is bound."""
        self._codes: dict[str, int] = {}

    def set_exit_code(self, run_id: str, code: int) -> None:
        """Report this exit code for a run that is about to be killed."""
        if code != SIGKILL_EXIT_CODE:
            self._codes[run_id] = code

    def apply(self, end: Ended) -> Ended:
        """Return the end to report. A run that ended before it was killed keeps its own exit code."""
        code = self._codes.pop(end.run_id, None)
        was_killed_here = end.signal == signal.SIGKILL and not end.was_out_of_memory
        if code is None or not was_killed_here:
            return end
        return msgspec.structs.replace(end, exit_code=code, signal=0)
