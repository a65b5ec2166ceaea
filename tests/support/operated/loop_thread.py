"""An event loop in its own thread, for the asynchronous parts of a test."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: list[Future[Any]] = []

    def wait(self, coroutine: Coroutine[Any, Any, T], seconds: float = 120) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=seconds)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop."""

        async def called() -> T:
            return function()

        return self.wait(called())

    def start(self, coroutine: Coroutine[Any, Any, None]) -> "Future[None]":
        running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        self._running.append(running)
        return running

    def raise_errors(self) -> None:
        """Raise the error that has ended a background task."""
        for running in self._running:
            if running.done() and not running.cancelled():
                running.result()

    def end(self, running: "Future[None]") -> None:
        self._running.remove(running)
        running.cancel()
        with contextlib.suppress(BaseException):
            running.result(timeout=60)


@contextlib.contextmanager
def running() -> Iterator[LoopThread]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loop", daemon=True)
    thread.start()
    try:
        yield LoopThread(loop)
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(timeout=60)
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(timeout=60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=60)
        loop.close()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
