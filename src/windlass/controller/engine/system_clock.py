"""The clock of this machine, and the clock of the API server."""

import functools
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
    within a tolerance, the machine's clock is used because it is finer than a second. Between two answers, the time
    advances with the monotonic clock: a machine's clock that is set meanwhile has no effect.
    """

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self._is_machine_right = True
        self._set(machine.now())

    def _set(self, now: datetime) -> None:
        self._known_time = now
        self._known_at = self._machine.monotonic()

    def now(self) -> datetime:
        return self._known_time + timedelta(seconds=self._machine.monotonic() - self._known_at)

    def monotonic(self) -> float:
        return self._machine.monotonic()

    def record_date(self, date: str, seconds: float) -> None:
        """Record the `Date` header of an answer that arrived `seconds` after the request was sent."""
        server_time = _parsed(date)
        if server_time is None:
            return
        earliest, latest = server_time, server_time + _SECOND + timedelta(seconds=seconds)
        machine_time = self._machine.now()
        was_machine_right, self._is_machine_right = (
            self._is_machine_right,
            _is_between(machine_time, earliest, latest),
        )
        is_right = _is_between(self.now(), earliest, latest)
        if self._is_machine_right and not (was_machine_right and is_right):
            self._set(machine_time)
            log.info("the clock of this machine agrees with the API server again")
        elif not is_right:
            self._set(earliest + (latest - earliest) / 2)
            seconds_off = round((machine_time - self.now()).total_seconds())
            log.warning("the clock of this machine is off by %+d s: using the API server's time", seconds_off)


@functools.lru_cache(maxsize=16)
def _parsed(date: str) -> datetime | None:
    """Parse a Date header, which many responses share."""
    try:
        parsed = parsedate_to_datetime(date)
    except ValueError:
        return None
    return None if parsed.tzinfo is None else parsed


def _is_between(time_: datetime, earliest: datetime, latest: datetime) -> bool:
    return earliest - TOLERANCE <= time_ <= latest + TOLERANCE
