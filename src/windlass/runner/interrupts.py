"""Ctrl-C or SIGTERM: the first signal stops the run gracefully, if possible; the next one ends everything at once."""

import asyncio
import signal


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

    def listen(self) -> None:
        """Handle SIGINT and SIGTERM in the running event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.interrupt)
