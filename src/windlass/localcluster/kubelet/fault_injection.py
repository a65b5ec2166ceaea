"""What somebody does to pods on purpose, to see what comes of it: starts that are held, ends that are reported.

Nobody interferes unless told to. It is kept in memory only: a daemon that ends meanwhile forgets it, and then a
container that was killed here has been killed, and nothing else.
"""

import signal
from collections.abc import Callable

import msgspec

from windlass.localcluster.sandbox.messages import Ended
from windlass.model.base import Json

KILLED = 128 + signal.SIGKILL
SecondsOf = Callable[[Json], float]


def at_once(_: Json) -> float:
    return 0.0


class FaultInjector:
    def __init__(self) -> None:
        self.start_delay: SecondsOf = at_once
        """For how long the start of a pod is held: asked once, when the pod comes to its node."""
        self._codes: dict[str, int] = {}

    def report(self, run_id: str, code: int) -> None:
        """A run that is being killed is to look as if it had ended with this code."""
        if code != KILLED:
            self._codes[run_id] = code

    def reported(self, end: Ended) -> Ended:
        """How the end of a run is told. One that came to its end before it could be killed has ended as it did."""
        code = self._codes.pop(end.container, None)
        was_killed_here = end.signal == signal.SIGKILL and not end.was_out_of_memory
        if code is None or not was_killed_here:
            return end
        return msgspec.structs.replace(end, exit_code=code, signal=0)
