"""The worker pool: parallel passes, one per Framework, and failing passes."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

import pytest

from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.queue import KeyedQueue
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.engine.worker_pool import SLOW_PASS_SEC, WorkerPool
from windlass.model.names import CONTROLLER_GROUP

PATIENCE_SECONDS = 60


def key(name: str) -> FrameworkKey:
    return FrameworkKey(CONTROLLER_GROUP, "team", name)


A, B, C = key("a"), key("b"), key("c")


class Passes(Executor):
    """Passes that begin, and go on until a test lets them end."""

    def __init__(self) -> None:
        self.begun: list[FrameworkKey] = []
        self.running: list[FrameworkKey] = []
        self.ended: list[FrameworkKey] = []
        self.cancelled: list[FrameworkKey] = []
        self.most_of_one = 0
        self.failing: set[FrameworkKey] = set()
        self._may_end: dict[FrameworkKey, asyncio.Event] = {}

    async def run_pass(self, key: FrameworkKey) -> None:
        self.begun.append(key)
        self.running.append(key)
        self.most_of_one = max(self.most_of_one, *Counter(self.running).values())
        try:
            await self._door(key).wait()
            if key in self.failing:
                raise RuntimeError("a bug")
        except asyncio.CancelledError:
            self.cancelled.append(key)
            raise
        finally:
            self.running.remove(key)
        self.ended.append(key)

    def _door(self, key: FrameworkKey) -> asyncio.Event:
        return self._may_end.setdefault(key, asyncio.Event())

    def let_end(self, *keys: FrameworkKey) -> None:
        """Let running and later passes of these keys end."""
        for each in keys:
            self._door(each).set()


class Clock(SystemClock):
    """The machine's, and as much later as a test says; or one that stands still."""

    later = 0.0
    stands_at: float | None = None

    def now(self) -> datetime:
        raise AssertionError("the wall clock is not read")

    def monotonic(self) -> float:
        return (super().monotonic() if self.stands_at is None else self.stands_at) + self.later


class Bench:
    def __init__(self, workers: int) -> None:
        self.passes = Passes()
        self.queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        self.clock = Clock()
        self.observed: list[float] = []
        self.pool = WorkerPool(
            self.passes, self.queue, self.clock, workers=workers, observe_pass=self.observed.append
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(0.001)

    async def settle(self) -> None:
        """Everything that can go on without time passing has."""
        for _ in range(20):
            await asyncio.sleep(0)


Story = Callable[[Bench], Awaitable[None]]


def run(story: Story, workers: int = 10) -> Bench:
    async def play() -> Bench:
        bench = Bench(workers)
        running = asyncio.create_task(bench.pool.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await story(bench)
            assert not running.done()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        return bench

    return asyncio.run(play())


def test_different_frameworks_are_processed_in_parallel() -> None:
    async def story(bench: Bench) -> None:
        bench.pool.enqueue([A, B])
        await bench.until(lambda: len(bench.passes.running) == 2)
        bench.passes.let_end(A)
        await bench.until(lambda: bench.passes.ended == [A])
        bench.passes.let_end(B)
        await bench.until(lambda: bench.passes.ended == [A, B])

    run(story)


def test_one_pass_per_framework_and_one_more_for_later_changes() -> None:
    async def story(bench: Bench) -> None:
        bench.pool.enqueue([A])
        await bench.until(lambda: bench.passes.running == [A])
        for _ in range(5):
            bench.pool.enqueue([A])
            await bench.settle()
        assert bench.passes.begun == [A]
        bench.passes.let_end(A)
        await bench.until(lambda: bench.passes.ended == [A, A])
        await bench.settle()
        assert bench.passes.begun == [A, A]

    assert run(story).passes.most_of_one == 1


def test_number_of_parallel_passes_is_limited() -> None:
    async def story(bench: Bench) -> None:
        keys = [key(str(number)) for number in range(6)]
        bench.pool.enqueue(keys)
        await bench.settle()
        assert bench.passes.running == keys[:2]
        bench.passes.let_end(keys[1])
        await bench.until(lambda: bench.passes.running == [keys[0], keys[2]])
        bench.passes.let_end(*keys)
        await bench.until(lambda: len(bench.passes.ended) == 6)

    run(story, workers=2)


def test_failed_pass_is_logged_and_retried_and_others_continue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(bench: Bench) -> None:
        bench.passes.failing.add(A)
        bench.passes.let_end(A, B)
        bench.pool.enqueue([A, B])
        await bench.until(lambda: bench.passes.ended == [B])
        (failed,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert failed.exc_info is not None
        assert vars(failed)["framework"] == "a"
        assert vars(failed)["namespace"] == "team"
        bench.passes.failing.clear()
        await bench.until(lambda: bench.passes.ended == [B, A])

    run(story)


def test_failing_pass_backs_off_despite_changes() -> None:
    async def story(bench: Bench) -> None:
        bench.clock.stands_at = 1000.0
        bench.passes.failing.add(A)
        bench.passes.let_end(A)
        waits = []
        for _ in range(5):
            tried = len(bench.passes.begun)
            bench.pool.enqueue([A])
            await bench.until(lambda tried=tried: len(bench.observed) == tried + 1)  # type: ignore[misc]
            for _ in range(3):
                bench.pool.enqueue([A])
                await bench.settle()
            assert len(bench.passes.begun) == tried + 1
            due = bench.queue.next_time()
            assert due is not None
            waits.append(due - bench.clock.monotonic())
            bench.clock.later += waits[-1]
        assert waits[-1] > 2 * waits[0]

    run(story)


def test_timer_starts_a_pass_without_changes() -> None:
    async def story(bench: Bench) -> None:
        bench.passes.let_end(A, B)
        bench.queue.add_at(A, bench.clock.monotonic() + 0.05)
        bench.pool.enqueue([B])
        await bench.until(lambda: bench.passes.ended == [B, A])

    run(story)


def test_timer_waits_for_a_free_worker() -> None:
    async def story(bench: Bench) -> None:
        bench.pool.enqueue([B])
        await bench.until(lambda: bench.passes.running == [B])
        bench.queue.add_at(A, bench.clock.monotonic())
        await bench.settle()
        assert bench.passes.begun == [B]
        bench.passes.let_end(A, B)
        await bench.until(lambda: bench.passes.ended == [B, A])

    run(story, workers=1)


def test_finish_starts_no_pass_and_waits_for_running_ones() -> None:
    async def story(bench: Bench) -> None:
        bench.pool.enqueue([A])
        await bench.until(lambda: bench.passes.running == [A])
        finishing = asyncio.create_task(bench.pool.finish(PATIENCE_SECONDS))
        await bench.settle()
        bench.pool.enqueue([B])
        bench.queue.add_at(C, bench.clock.monotonic())
        await bench.settle()
        assert not finishing.done()
        bench.passes.let_end(A, B, C)
        await finishing
        await bench.settle()
        assert bench.passes.begun == [A]
        assert bench.passes.ended == [A]

    run(story)


def test_finish_returns_at_once_when_nothing_runs() -> None:
    async def story(bench: Bench) -> None:
        finishing = asyncio.create_task(bench.pool.finish(PATIENCE_SECONDS))
        await bench.settle()
        assert finishing.done()

    run(story)


def test_pass_that_does_not_end_in_time_is_cancelled() -> None:
    async def story(bench: Bench) -> None:
        bench.pool.enqueue([A])
        await bench.until(lambda: bench.passes.running == [A])
        await bench.pool.finish(0.01)
        assert bench.passes.running == [A]

    bench = run(story)
    assert bench.passes.cancelled == [A]
    assert bench.passes.running == []


@pytest.mark.parametrize("is_failing", [False, True])
def test_duration_is_observed_and_a_slow_pass_is_logged(
    is_failing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windlass")

    async def story(bench: Bench) -> None:
        if is_failing:
            bench.passes.failing.add(A)
        bench.pool.enqueue([A])
        await bench.until(lambda: bench.passes.running == [A])
        bench.clock.later += 3 * SLOW_PASS_SEC
        bench.passes.let_end(A)
        await bench.until(lambda: len(bench.observed) == 1)
        bench.passes.let_end(B)
        bench.pool.enqueue([B])
        await bench.until(lambda: len(bench.observed) >= 2)

    bench = run(story)
    assert bench.observed[0] >= 3 * SLOW_PASS_SEC
    long = [vars(record) for record in caplog.records if record.message == "slow pass"]
    assert long[0]["framework"] == "a"
    assert long[0]["seconds"] >= 3 * SLOW_PASS_SEC
