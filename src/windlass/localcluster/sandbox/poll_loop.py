"""A minimal event loop for descriptors and timers. It is single-threaded and does not need asyncio."""

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable

Callback = Callable[[], None]


class PollLoop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: dict[object, tuple[float, Callback]] = {}

    def add(self, descriptor: int, act: Callback) -> None:
        """Call `act` whenever the descriptor is readable, including at end of file."""
        self._selector.register(descriptor, selectors.EVENT_READ, act)

    def remove(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def call_later(self, key: object, seconds: float, act: Callback) -> None:
        """Call `act` once after the given seconds. A new timer replaces an earlier one with the same key."""
        self._timers[key] = (time.monotonic() + seconds, act)

    def cancel(self, key: object) -> None:
        self._timers.pop(key, None)

    def run_once(self) -> None:
        """Wait for the next event, and handle all events that are due."""
        now = time.monotonic()
        next_moment = min((moment for moment, _ in self._timers.values()), default=None)
        pause = None if next_moment is None else max(next_moment - now, 0)
        for key, _ in self._selector.select(pause):
            # An earlier callback may have removed the descriptor, and its number may have been reused.
            if self._selector.get_map().get(key.fd) is key:
                key.data()
        now = time.monotonic()
        for timer_key, (moment, act) in tuple(self._timers.items()):
            if moment <= now and self._timers.get(timer_key) == (moment, act):
                del self._timers[timer_key]
                act()

    def close(self) -> None:
        self._selector.close()


def child_exit_descriptor() -> int:
    """Return a descriptor that becomes readable when a child of this process has ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Without a handler, the signal is ignored and nothing is written.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 512):
            pass
