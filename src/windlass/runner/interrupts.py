"""Ctrl-C: the first one asks for a stop, if there is something that can be asked; the next one ends everything."""

import asyncio
import signal


class Interrupts:
    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.end = asyncio.Event()
        self.can_be_graceful = False
        """Whether there is something that can be asked to stop."""
        self.no_hurry = asyncio.Event()
        """All that was to be done in time is done: what goes on does so until somebody ends it."""

    def request(self) -> None:
        if self.can_be_graceful and not self.stop.is_set():
            self.stop.set()
        else:
            self.end.set()

    def listen(self) -> None:
        """From here on, signals mean this. For a running event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.request)
