"""Measure the resource usage of all containers on request, and cache the result for a second."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from windlass.localcluster import usage
from windlass.localcluster.sandbox.process import usage as process_usage
from windlass.localcluster.sandbox.process.usage import Target
from windlass.localcluster.usage import ContainerUsage, PodUsage, ProcessUsage, UsageSample, UsageSnapshot

MIN_SECONDS = 1.0
"""Minimum interval between two measurements: CPU rates over a shorter time are inaccurate."""


class ContainerRun(msgspec.Struct, frozen=True):
    """A run of a container. `id` identifies the run, `uid` the pod."""

    uid: str
    node: str
    container: str
    id: str
    # Seconds since 1970.
    started_at: float
    target: Target


class UsageCollector:
    """`running` returns all running containers, `read` their usage by run id."""

    def __init__(
        self,
        running: Callable[[], Iterable[ContainerRun]],
        read: Callable[[Mapping[str, Target]], dict[str, ProcessUsage]] = process_usage.read,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._running = running
        self._read = read
        self._monotonic = monotonic
        self._samples: dict[str, UsageSample] = {}
        self._reading = UsageSnapshot(datetime.fromtimestamp(0, UTC))
        self._read_at: float | None = None
        self._lock = asyncio.Lock()

    async def reading(self) -> UsageSnapshot:
        async with self._lock:
            is_fresh = self._read_at is not None and self._monotonic() - self._read_at < MIN_SECONDS
            return self._reading if is_fresh else await self._measure()

    async def _measure(self) -> UsageSnapshot:
        runs = tuple(self._running())
        before, now = self._samples, await self._measure_all(runs)
        since = {run.id: _window_start(run, before, now) for run in runs if run.id in now}
        if None in since.values():
            # Some runs have no recent measurement to compute a rate from.
            await asyncio.sleep(MIN_SECONDS)
            since = {run_id: known or now[run_id] for run_id, known in since.items()}
            now = await self._measure_all(runs)
        pods: dict[str, list[tuple[ContainerRun, ContainerUsage]]] = {}
        for run in runs:
            first = since.get(run.id)
            if first is not None and run.id in now:
                used = usage.usage_between(run.container, first, now[run.id])
                pods.setdefault(run.uid, []).append((run, used))
        self._samples = now
        self._read_at = self._monotonic()
        self._reading = UsageSnapshot(
            datetime.now(UTC),
            {
                uid: PodUsage(measured[0][0].node, tuple(used for _, used in measured))
                for uid, measured in pods.items()
            },
        )
        return self._reading

    async def _measure_all(self, runs: Iterable[ContainerRun]) -> dict[str, UsageSample]:
        targets = {run.id: run.target for run in runs}
        # In a thread, since this reads several hundred files.
        found = await asyncio.to_thread(self._read, targets)
        now = self._monotonic()
        return {run_id: UsageSample(now, load) for run_id, load in found.items()}


def _window_start(
    run: ContainerRun, before: Mapping[str, UsageSample], now: Mapping[str, UsageSample]
) -> UsageSample | None:
    age = max(time.time() - run.started_at, 0.0)
    return usage.window_start(before.get(run.id), now[run.id].at, age)
