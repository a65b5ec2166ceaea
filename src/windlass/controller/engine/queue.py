"""Which Framework is looked at next.

A key is worked on by one pass at a time; what happens to it meanwhile leads to one more pass, however much it was.
The queue neither reads a clock nor waits: whoever drives it says what time it is, in seconds of a clock that never
steps back.
"""

import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from windlass.decide.initial_status import fraction

FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 60.0
MOST_STALE_TIMERS = 1000

K = TypeVar("K", bound=Hashable)


def backoff(name: str, failures: int) -> float:
    """In seconds. Doubles up to a minute, and up to half of it is taken off, the same for the same name and number."""
    full = min(LONGEST_BACKOFF, FIRST_BACKOFF * (1 << min(failures, 20)))
    return full * (1 - fraction(name, str(failures)) / 2)


class KeyedQueue(Generic[K]):
    """Keys that are due now, and keys that will be."""

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        """What is in `_ready`, or will be when its pass is done."""
        self._running: set[K] = set()
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._serial = 0
        self._failures: dict[K, int] = {}
        self._held: dict[K, float] = {}

    def add(self, key: K) -> None:
        """Look at it as soon as possible."""
        held_until = self._held.get(key)
        if held_until is not None:
            self.add_at(key, held_until)
            return
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._running:
            self._ready.append(key)

    def add_at(self, key: K, when: float) -> None:
        """Look at it then, if nothing makes it sooner."""
        due = self._due.get(key)
        if due is not None and due <= when:
            return
        self._due[key] = when
        self._serial += 1
        heapq.heappush(self._timers, (when, self._serial, key))
        if len(self._timers) > MOST_STALE_TIMERS + 2 * len(self._due):
            self._timers = [timer for timer in self._timers if self._due.get(timer[2]) == timer[0]]
            heapq.heapify(self._timers)

    def hold(self, key: K, until: float) -> None:
        """What happens to it before then is looked at then, all at once; a timer that rings earlier still rings."""
        self._held[key] = until

    def retry(self, key: K, now: float) -> None:
        """Something failed: look at it again, later each time, and not before, whatever happens to it."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        until = now + backoff(str(key), failures)
        self.hold(key, until)
        self.add_at(key, until)

    def succeeded(self, key: K) -> None:
        self._failures.pop(key, None)

    def forget(self, key: K) -> None:
        """It is gone: no timer of it is of interest."""
        self._due.pop(key, None)
        self._failures.pop(key, None)
        self._held.pop(key, None)

    def take(self, now: float) -> K | None:
        """The next key to work on. `done` has to follow."""
        self._ring(now)
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        self._running.discard(key)
        if key not in self._waiting:
            return
        if key in self._held:
            self._waiting.discard(key)
            self.add(key)
        else:
            self._ready.append(key)

    def next_time(self) -> float | None:
        """When the earliest timer rings."""
        self._drop_stale_timers()
        return self._timers[0][0] if self._timers else None

    def __len__(self) -> int:
        """How many keys are due now."""
        return len(self._ready)

    def _ring(self, now: float) -> None:
        self._drop_stale_timers()
        while self._timers and self._timers[0][0] <= now:
            _, _, key = heapq.heappop(self._timers)
            del self._due[key]
            self._held.pop(key, None)
            self.add(key)
            self._drop_stale_timers()

    def _drop_stale_timers(self) -> None:
        """A timer that an earlier one has replaced, or whose key is forgotten, stays in the heap until it is on top."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
