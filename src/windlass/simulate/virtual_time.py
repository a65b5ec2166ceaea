"""A virtual clock, a queue of callbacks ordered by time, and tasks that such callbacks resume."""

import heapq
from collections.abc import Callable, Coroutine, Generator
from datetime import datetime, timedelta
from typing import Any

Resume = Callable[[Any], None]
"""Resumes a coroutine with the result of what it awaits."""


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


class Wait:
    """Awaitable that suspends a task. `start` receives a function that resumes the task and must be called once."""

    def __init__(self, start: Callable[[Resume], None]) -> None:
        self.start = start

    def __await__(self) -> Generator["Wait", Any, Any]:
        return (yield self)


class Task:
    """Runs a coroutine that awaits only instances of `Wait`, like an asyncio task without an event loop."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, Any], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._coroutine = coroutine
        self._on_end = on_end
        self._results: list[Any] = []
        """The result of the current `Wait`, if the coroutine is not resumed with it yet."""
        self._is_running = False
        self._is_closed = False

    def start(self) -> None:
        self._resume(None)

    def close(self) -> None:
        """Cancel the coroutine, which must be suspended."""
        self._is_closed = True
        self._coroutine.close()

    def _resume(self, result: Any) -> None:
        self._results.append(result)
        if self._is_running or self._is_closed:
            return
        self._is_running = True
        try:
            while self._results:
                self._coroutine.send(self._results.pop()).start(self._resume)
        except StopIteration:
            self._is_closed = True
            self._on_end()
        finally:
            self._is_running = False
