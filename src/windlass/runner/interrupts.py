"""Signals that stop a run or a daemon.

The first Ctrl-C or SIGTERM stops a run gracefully, if possible; the next one ends everything at once. SIGHUP always
stops gracefully: a closed terminal sends it, often more than once, and closes the output at the same time.
"""

import asyncio
import contextlib
import functools
import signal
from collections.abc import Callable, Iterator
from types import FrameType


def stop_signals() -> list[signal.Signals]:
    """Return the signals that request a graceful stop: without SIGHUP if it is ignored, as under nohup."""
    is_under_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *(() if is_under_nohup else (signal.SIGHUP,))]


def as_keyboard_interrupts() -> contextlib.AbstractContextManager[None]:
    """Raise KeyboardInterrupt on these signals while no event loop handles them, so that folders are removed."""
    return _handled_by(signal.default_int_handler)


@contextlib.contextmanager
def deferred() -> Iterator[list[int]]:
    """Collect the signals that arrive in the block in a list. They have no other effect."""
    signals: list[int] = []
    with _handled_by(lambda number, _frame: signals.append(number)):
        yield signals


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in stop_signals()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class Interrupts:
    def __init__(self) -> None:
        self.stop = asyncio.Event()
        """Set to request a graceful stop."""
        self.end = asyncio.Event()
        """Set to end everything at once."""
        self.can_be_graceful = False
        """Whether a graceful stop is possible."""
        self.without_timeout = asyncio.Event()
        """Set when the timeout no longer applies: the jobs have completed, or companions without jobs are ready."""

    def interrupt(self) -> None:
        if self.can_be_graceful and not self.stop.is_set():
            self.stop.set()
        else:
            self.end.set()

    def hang_up(self) -> None:
        """Stop because the terminal or the reader of the output is gone. A stop in progress stays graceful."""
        if not self.stop.is_set():
            self.interrupt()

    def listen(self) -> None:
        """Handle the signals in the running event loop. After its end, SIGINT and SIGTERM raise KeyboardInterrupt, and
        SIGHUP is ignored.

        When a loop is closed, it replaces its own handlers by the default ones, which end the process. The folder of
        the run would then not be removed.
        """
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            action = self.hang_up if number == signal.SIGHUP else self.interrupt
            signal.signal(number, functools.partial(_handle, loop, action))


def _handle(
    loop: asyncio.AbstractEventLoop, action: Callable[[], None], number: int, _frame: FrameType | None
) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(action)
    elif number != signal.SIGHUP:
        raise KeyboardInterrupt
