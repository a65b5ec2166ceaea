"""The clock of this machine, and the clock of the API server."""

import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from windlass.controller.engine.clock import Clock

log = logging.getLogger(__name__)

TOLERANCE = timedelta(seconds=2)
"""Difference between clocks that is ignored."""
_SECOND = timedelta(seconds=1)
"""The resolution of the Date header."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that include the time for which the machine was suspended.

        time.monotonic() excludes it: a laptop that wakes up would trust a lease that has expired meanwhile. On systems
        without CLOCK_BOOTTIME (macOS), CLOCK_MONOTONIC includes it.
        """
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ServerClock:
    """The time of the API server: the clock of this machine may be wrong, and may differ between replicas.

    Timestamps in objects come from the server, e.g. when a Framework was created or the deletion of a pod began. With
    a clock that is wrong by an hour, all deadlines would expire at once, or an hour too late. While the clocks agree
    within a tolerance, the machine's clock is used because it is finer than a second.
    """

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self._ahead = timedelta()
        """How far the server's clock is ahead of the machine's."""

    def now(self) -> datetime:
        return self._machine.now() + self._ahead

    def monotonic(self) -> float:
        return self._machine.monotonic()

    def record_date(self, date: str, seconds: float) -> None:
        """Record the `Date` header of an answer that arrived `seconds` after the request was sent."""
        try:
            server_time = parsedate_to_datetime(date)
        except ValueError:
            return
        if server_time.tzinfo is None:
            return
        arrived = self._machine.now()
        lowest, highest = (
            server_time - arrived,
            server_time + _SECOND - (arrived - timedelta(seconds=seconds)),
        )
        if _is_between(self._ahead, lowest, highest):
            return
        agrees = _is_between(timedelta(), lowest, highest)
        self._ahead = timedelta() if agrees else (lowest + highest) / 2
        if agrees:
            log.info("the clock of this machine agrees with the API server again")
        else:
            seconds_off = -round(self._ahead.total_seconds())
            log.warning("the clock of this machine is off by %+d s: using the API server's time", seconds_off)


def _is_between(difference: timedelta, lowest: timedelta, highest: timedelta) -> bool:
    return lowest - TOLERANCE <= difference <= highest + TOLERANCE
