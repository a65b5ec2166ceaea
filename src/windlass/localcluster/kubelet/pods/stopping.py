"""Stopping the containers of a pod: SIGTERM first, wave by wave, and SIGKILL for all of them when the grace is over."""

import signal
from collections.abc import Callable, Iterator

from windlass.localcluster.kubelet.lifecycle.restarts import StopAll

SECONDS_TO_DIE = 10.0


class Stopping:
    """Kept from the first `StopAll` of a pod to its end. The clock is one that never steps back."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._began_at: float | None = None
        self._deadline = float("inf")
        self._asked: set[str] = set()
        self._killed: set[str] = set()
        self._killed_at = 0.0

    def signals(self, step: StopAll) -> Iterator[tuple[str, int]]:
        """The containers that get a signal now. A later step can only be in more of a hurry."""
        now = self._monotonic()
        if self._began_at is None:
            self._began_at = now
        self._deadline = min(self._deadline, self._began_at + step.grace_seconds)
        if now >= self._deadline:
            for name in (name for wave in step.waves for name in wave if name not in self._killed):
                self._killed.add(name)
                self._killed_at = now
                yield name, signal.SIGKILL
            return
        for name in next(iter(step.waves), ()):
            if name not in self._asked:
                self._asked.add(name)
                yield name, signal.SIGTERM

    @property
    def is_overdue(self) -> bool:
        """What was killed does not end: whoever was to kill it does not do its part."""
        return bool(self._killed) and self._monotonic() - self._killed_at >= SECONDS_TO_DIE

    @property
    def seconds_left(self) -> float | None:
        """Until SIGKILL, or until that is overdue; None when nothing has begun."""
        if self._began_at is None:
            return None
        until = self._killed_at + SECONDS_TO_DIE if self._killed else self._deadline
        return max(until - self._monotonic(), 0.0)
