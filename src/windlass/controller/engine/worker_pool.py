"""Runs the passes: as many Frameworks at a time as it is told, each by one pass at a time."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from windlass.controller.engine.clock import Clock
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.queue import KeyedQueue

log = logging.getLogger(__name__)

LONG_PASS_SEC = 1.0
"""A pass that takes longer is told of: nothing that happens to its Framework is seen meanwhile."""


class Driver:
    def __init__(
        self,
        executor: Executor,
        queue: KeyedQueue[FrameworkKey],
        clock: Clock,
        *,
        at_a_time: int,
        observe_pass: Callable[[float], None],
    ) -> None:
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._at_a_time = at_a_time
        self._observe_pass = observe_pass
        self._news = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self.was_cut_short = False
        """Passes were cancelled, whose requests may still be under way."""

    def changed(self, keys: Iterable[FrameworkKey]) -> None:
        """Something happened to them that a pass has to look at, in the order of their names."""
        for key in sorted(keys):
            self._queue.add(key)
        self._news.set()

    async def run(self) -> None:
        """Until it is cancelled; the passes that run are cancelled with it."""
        try:
            while True:
                self._news.clear()
                self._start_passes()
                await self._wait()
        finally:
            self.was_cut_short = bool(self._running)
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def finish(self, timeout: float) -> None:
        """No new passes; those that run may end by themselves, which leaves nothing to be looked for afterwards."""
        self._is_stopping = True
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=timeout)

    def _start_passes(self) -> None:
        while len(self._running) < self._at_a_time and not self._is_stopping:
            key = self._queue.take(self._clock.monotonic())
            if key is None:
                return
            task = asyncio.create_task(self._pass(key))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._news.set()

    async def _wait(self) -> None:
        """For news, or for the next timer; while all hands are busy, for one that gets free."""
        is_busy = self._is_stopping or len(self._running) >= self._at_a_time
        due = None if is_busy else self._queue.next_time()
        timeout = None if due is None else max(due - self._clock.monotonic(), 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()

    async def _pass(self, key: FrameworkKey) -> None:
        began = self._clock.monotonic()
        try:
            await self._executor.run_pass(key)
        except Exception:
            log.exception("a pass failed", extra=_about(key))
            self._queue.retry(key, self._clock.monotonic())
        finally:
            self._queue.done(key)
            seconds = self._clock.monotonic() - began
            self._observe_pass(seconds)
            if seconds > LONG_PASS_SEC:
                log.info("a long pass", extra={**_about(key), "seconds": round(seconds, 1)})


def _about(key: FrameworkKey) -> dict[str, str]:
    return {"namespace": key.namespace, "framework": key.name}
