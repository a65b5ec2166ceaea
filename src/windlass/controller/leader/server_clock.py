"""The time as the API server has it. A machine's own clock may be wrong, and other replicas run on other machines.

Times in objects are the server's: when a pod's deletion began, when a Framework was made. An hour of difference would
end every deadline at once, or none. Where the two agree but for a moment, the machine's own clock is used, which is
finer. Waiting is done by the other clock, which nobody sets.
"""

import logging
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from windlass.controller.engine.clock import Clock

log = logging.getLogger(__name__)

TOLERANCE = timedelta(seconds=2)
"""So much the clocks of a well-kept cluster may differ."""
_SECOND = timedelta(seconds=1)
"""The server tells no more than whole ones."""


class ServerClock:
    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self._ahead = timedelta()
        """How far the server's is ahead of the machine's."""

    def now(self) -> datetime:
        return self._machine.now() + self._ahead

    def monotonic(self) -> float:
        return self._machine.monotonic()

    def heard(self, date: str, seconds: float) -> None:
        """An answer with that `Date`, so many seconds after it was asked for: it was written sometime in between."""
        try:
            told = parsedate_to_datetime(date)
        except ValueError:
            return
        if told.tzinfo is None:
            return
        arrived = self._machine.now()
        least, most = told - arrived, told + _SECOND - (arrived - timedelta(seconds=seconds))
        if _is_between(self._ahead, least, most):
            return
        agrees = _is_between(timedelta(), least, most)
        self._ahead = timedelta() if agrees else (least + most) / 2
        if agrees:
            log.info("the clock of this machine agrees with the API server's again")
        else:
            seconds_off = -round(self._ahead.total_seconds())
            log.warning("the clock of this machine is %+d s off: the API server's time is used", seconds_off)


def _is_between(difference: timedelta, least: timedelta, most: timedelta) -> bool:
    return least - TOLERANCE <= difference <= most + TOLERANCE
