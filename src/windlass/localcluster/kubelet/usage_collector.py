"""Measure the resource usage of all containers on request, and cache the result for a second."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from windlass.localcluster import usage
from windlass.localcluster.kubelet.gpu_monitor import OwnedUsage
from windlass.localcluster.sandbox.process import usage as process_usage
from windlass.localcluster.sandbox.process.usage import Target
from windlass.localcluster.scheduler.gpus import Gpu, is_shared
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
    gpus: tuple[Gpu, ...] = ()


class UsageCollector:
    """`running` returns all running containers, `read` their usage by run id, `gpu_usage` that of GPUs by ID."""

    def __init__(
        self,
        running: Callable[[], Iterable[ContainerRun]],
        read: Callable[[Mapping[str, Target]], dict[str, ProcessUsage]] = process_usage.read,
        monotonic: Callable[[], float] = time.monotonic,
        gpu_usage: Callable[[], Awaitable[Mapping[str, OwnedUsage]]] | None = None,
    ) -> None:
        self._running = running
        self._read = read
        self._monotonic = monotonic
        self._gpu_usage = gpu_usage
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
        has_gpus = self._gpu_usage is not None and any(run.gpus for run in runs)
        gpus = await self._gpu_usage() if has_gpus and self._gpu_usage is not None else {}
        pods: dict[str, list[tuple[ContainerRun, ContainerUsage]]] = {}
        for run in runs:
            first = since.get(run.id)
            if first is not None and run.id in now:
                used = with_gpus(run, usage.usage_between(run.container, first, now[run.id]), gpus)
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


def with_gpus(run: ContainerRun, used: ContainerUsage, gpus: Mapping[str, OwnedUsage]) -> ContainerUsage:
    """Add the usage of the container's GPUs. The memory of a shared GPU is that of the pod's processes."""
    found = [(gpu, gpus[gpu.id]) for gpu in run.gpus if gpu.id in gpus]
    if not found:
        return used
    fractions = [owned.usage.utilization for _, owned in found]
    amounts = [
        owned.memory_of(run.uid) if is_shared(gpu.resource) else owned.usage.memory_bytes
        for gpu, owned in found
    ]
    return msgspec.structs.replace(used, gpus=_sum(fractions), gpu_memory_bytes=_sum(amounts))


N = TypeVar("N", int, float)


def _sum(values: Iterable[N | None]) -> N | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _window_start(
    run: ContainerRun, before: Mapping[str, UsageSample], now: Mapping[str, UsageSample]
) -> UsageSample | None:
    age = max(time.time() - run.started_at, 0.0)
    return usage.window_start(before.get(run.id), now[run.id].at, age)
