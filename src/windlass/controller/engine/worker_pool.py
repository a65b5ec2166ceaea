"""Runs passes for several Frameworks in parallel, one pass per Framework at a time."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from windlass.controller.engine.clock import Clock
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.queue import KeyedQueue

log = logging.getLogger(__name__)

SLOW_PASS_SEC = 1.0
"""A longer pass is logged: changes of its Framework are not processed meanwhile."""


class WorkerPool:
    def __init__(
        self,
        executor: Executor,
        queue: KeyedQueue[FrameworkKey],
        clock: Clock,
        *,
        workers: int,
        observe_pass: Callable[[float], None],
    ) -> None:
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._workers = workers
        self._observe_pass = observe_pass
        self._has_changed = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self.was_interrupted = False
        """Whether passes were cancelled whose requests may still be processed by the API server."""

    def enqueue(self, keys: Iterable[FrameworkKey]) -> None:
        """Queue a pass for each key, in sorted order."""
        for key in sorted(keys):
            self._queue.add(key)
        self._has_changed.set()

    async def run(self) -> None:
        """Run passes until cancelled; the running passes are cancelled too."""
        try:
            while True:
                self._has_changed.clear()
                self._start_passes()
                await self._wait()
        finally:
            self.was_interrupted = bool(self._running)
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def finish(self, timeout: float) -> None:
        """Start no new passes, and wait up to `timeout` seconds for the running ones to end."""
        self._is_stopping = True
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=timeout)

    def _start_passes(self) -> None:
        while len(self._running) < self._workers and not self._is_stopping:
            key = self._queue.take(self._clock.monotonic())
            if key is None:
                return
            task = asyncio.create_task(self._pass(key))
            self._running.add(task)
            task.add_done_callback(self._on_pass_end)

    def _on_pass_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._has_changed.set()

    async def _wait(self) -> None:
        """Wait for a change, the next timer, or a free worker."""
        is_busy = self._is_stopping or len(self._running) >= self._workers
        due = None if is_busy else self._queue.next_time()
        timeout = None if due is None else max(due - self._clock.monotonic(), 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._has_changed.wait()

    async def _pass(self, key: FrameworkKey) -> None:
        began = self._clock.monotonic()
        try:
            await self._executor.run_pass(key)
        except Exception:
            log.exception("internal error in a pass", extra=_log_fields(key))
            self._queue.retry(key, self._clock.monotonic())
        finally:
            self._queue.done(key)
            seconds = self._clock.monotonic() - began
            self._observe_pass(seconds)
            if seconds > SLOW_PASS_SEC:
                log.info("slow pass", extra={**_log_fields(key), "seconds": round(seconds, 1)})


def _log_fields(key: FrameworkKey) -> dict[str, str]:
    return {"namespace": key.namespace, "framework": key.name}
