"""Two clocks: the time of day for what is stored, and a monotonic clock for waiting."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time of day in UTC, which may be adjusted while the process runs."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start, which never decrease."""


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that include the time for which the machine was suspended.

        time.monotonic() excludes it: a laptop that wakes up would trust a lease that has expired meanwhile. On systems
        without CLOCK_BOOTTIME (macOS), CLOCK_MONOTONIC includes it.
        """
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
