"""The machine's clocks."""

import time
from datetime import UTC, datetime


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Goes on while the machine sleeps.

        time.monotonic stands still then, and a laptop that was opened again would believe in a lease that others have
        long taken. Where there is no CLOCK_BOOTTIME (macOS), CLOCK_MONOTONIC counts the sleep.
        """
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
