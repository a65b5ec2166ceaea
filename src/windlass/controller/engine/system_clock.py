"""The clocks of this machine."""

import time
from datetime import UTC, datetime


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that include the time for which the machine was suspended.

        time.monotonic() excludes it: a laptop that wakes up would trust a lease that has expired meanwhile. On systems
        without CLOCK_BOOTTIME (macOS), CLOCK_MONOTONIC includes it.
        """
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
