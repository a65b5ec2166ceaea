"""Two clocks: one that says what time it is, for what is written down, and one that never steps back, for waiting."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """What time it is, in UTC. May step, as machines' clocks do."""

    def monotonic(self) -> float:
        """Seconds since whenever. Never steps back."""
