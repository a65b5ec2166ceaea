"""A virtual clock, and a queue of callbacks ordered by time."""

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta


class VirtualClock:
    """The wall clock and the monotonic clock of a machine, driven by a timeline.

    The wall clock may be wrong, and both clocks may drift.
    """

    def __init__(self, timeline: "Timeline", *, rate: float = 1.0, ahead: float = 0.0) -> None:
        self._timeline = timeline
        self._start = timeline.now
        self._rate = rate
        self._ahead = timedelta(seconds=ahead)

    def now(self) -> datetime:
        if self._rate == 1.0:
            return self._timeline.now + self._ahead
        return self._start + timedelta(seconds=self.monotonic()) + self._ahead

    def monotonic(self) -> float:
        return (self._timeline.now - self._start).total_seconds() * self._rate

    def step(self, seconds: float) -> None:
        """Move the wall clock by `seconds`. The monotonic clock does not change."""
        self._ahead += timedelta(seconds=seconds)

    def time_of(self, monotonic: float) -> datetime:
        """Convert a monotonic time to a time of the timeline; now if the time has passed."""
        # One microsecond more, because the float may be rounded down.
        seconds = max(monotonic - self.monotonic(), 0) / self._rate
        return self._timeline.now + timedelta(seconds=seconds, microseconds=1)


class Timeline:
    """Runs callbacks in the order of their times; those of the same time in the order of registration."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._serial = 0

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        self.at(self.now + timedelta(seconds=seconds), callback)

    def at(self, when: datetime, callback: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (max(when, self.now), self._serial, callback))

    def step(self) -> bool:
        """Run the next callback. Return False if there is none."""
        if not self._events:
            return False
        when, _, callback = heapq.heappop(self._events)
        self.now = when
        callback()
        return True

    def next_time(self) -> datetime | None:
        return self._events[0][0] if self._events else None
