"""Waiting for descriptors and moments, for processes that do nothing else. Single-threaded, without asyncio."""

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable

Act = Callable[[], None]


class Watch:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._moments: dict[object, tuple[float, Act]] = {}

    def add(self, descriptor: int, act: Act) -> None:
        """Do it whenever there is something to read, the end included."""
        self._selector.register(descriptor, selectors.EVENT_READ, act)

    def remove(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def at(self, key: object, seconds: float, act: Act) -> None:
        """Do it once, so many seconds from now; a second time for the same key replaces the first."""
        self._moments[key] = (time.monotonic() + seconds, act)

    def forget(self, key: object) -> None:
        self._moments.pop(key, None)

    def turn(self) -> None:
        """Wait for the next thing to do, and do what there is."""
        now = time.monotonic()
        next_moment = min((moment for moment, _ in self._moments.values()), default=None)
        pause = None if next_moment is None else max(next_moment - now, 0)
        for key, _ in self._selector.select(pause):
            # One of those before it may have removed it, and another may have its number by now.
            if self._selector.get_map().get(key.fd) is key:
                key.data()
        now = time.monotonic()
        for due, (moment, act) in tuple(self._moments.items()):
            if moment <= now and self._moments.get(due) == (moment, act):
                del self._moments[due]
                act()

    def close(self) -> None:
        self._selector.close()


def children_ended() -> int:
    """A descriptor that can be read whenever a child of this process has ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # A handler must be there: what is ignored wakes nobody.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 512):
            pass


def close_all_but(kept: set[int]) -> None:
    """In a new process: nothing that the old one had open, but these and 0, 1 and 2, stays open."""
    low = 3
    for descriptor in sorted(number for number in kept if number >= low):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))
