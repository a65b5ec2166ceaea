"""Two clocks: the time of day for stored timestamps, and a monotonic clock for waiting."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time of day in UTC, which may be adjusted while the process runs."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start, which never decrease."""
