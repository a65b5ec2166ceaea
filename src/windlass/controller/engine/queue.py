"""The work queue of the controller, with delays and backoff per key.

A key is processed by one pass at a time; all changes during a pass lead to one more pass. The queue neither reads a
clock nor waits: the caller passes the monotonic time in seconds.
"""

import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from windlass.decide.initial_status import derived_fraction

INITIAL_BACKOFF = 0.1
MAX_BACKOFF = 60.0
MAX_STALE_TIMERS = 1000

K = TypeVar("K", bound=Hashable)


def backoff(name: str, failures: int) -> float:
    """Return the backoff in seconds, which doubles with each failure up to a minute.

    A jitter of up to half of the backoff is subtracted. The jitter depends only on `name` and `failures`.
    """
    full = min(MAX_BACKOFF, INITIAL_BACKOFF * (1 << min(failures, 20)))
    return full * (1 - derived_fraction(name, str(failures)) / 2)


class KeyedQueue(Generic[K]):
    """Keys that are due now, and keys that become due later."""

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        """The keys in `_ready`, and those that enter it when their pass is done."""
        self._running: set[K] = set()
        self._due: dict[K, float] = {}
        """When the timer of each key fires. All other entries of `_timers` are stale."""
        self._timers: list[tuple[float, int, K]] = []
        self._serial = 0
        self._failures: dict[K, int] = {}
        self._held: dict[K, float] = {}
        """The time until which `add` is delayed, by key."""

    def add(self, key: K) -> None:
        """Make the key due now, or when its running pass or its hold ends."""
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
        """Make the key due at that time at the latest."""
        due = self._due.get(key)
        if due is not None and due <= when:
            return
        self._due[key] = when
        self._serial += 1
        heapq.heappush(self._timers, (when, self._serial, key))
        if len(self._timers) > MAX_STALE_TIMERS + 2 * len(self._due):
            self._timers = [timer for timer in self._timers if self._due.get(timer[2]) == timer[0]]
            heapq.heapify(self._timers)

    def hold(self, key: K, until: float) -> None:
        """Delay `add` for this key until that time. An earlier timer still fires and ends the hold."""
        self._held[key] = until

    def retry(self, key: K, now: float) -> None:
        """Process the key again after a backoff that grows with each failure, or when an earlier timer fires.

        Until then, `add` has no effect.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        until = now + backoff(str(key), failures)
        self.hold(key, until)
        self.add_at(key, until)

    def succeeded(self, key: K) -> None:
        self._failures.pop(key, None)

    def forget(self, key: K) -> None:
        """Drop the timer, the failures and the hold of a key."""
        self._due.pop(key, None)
        self._failures.pop(key, None)
        self._held.pop(key, None)

    def take(self, now: float) -> K | None:
        """Return the next key that is due, if any. The caller must call `done` afterwards."""
        self._fire_timers(now)
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
        """Return when the earliest timer fires."""
        self._drop_stale_timers()
        return self._timers[0][0] if self._timers else None

    def __len__(self) -> int:
        """Return the number of keys that are due now."""
        return len(self._ready)

    def _fire_timers(self, now: float) -> None:
        self._drop_stale_timers()
        while self._timers and self._timers[0][0] <= now:
            _, _, key = heapq.heappop(self._timers)
            del self._due[key]
            self._held.pop(key, None)
            self.add(key)
            self._drop_stale_timers()

    def _drop_stale_timers(self) -> None:
        """Remove replaced timers from the top of the heap."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
