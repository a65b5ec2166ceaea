"""When the meter looks, what it compares, and whom it tells the same."""

import asyncio
import time
from collections.abc import Mapping

import pytest

from windlass.localcluster.kubelet import usage_collector
from windlass.localcluster.kubelet.gpu_monitor import OwnedUsage
from windlass.localcluster.kubelet.usage_collector import ContainerRun, UsageCollector
from windlass.localcluster.sandbox.gpus.devices import DeviceUsage, GpuProcess
from windlass.localcluster.sandbox.process.usage import Target
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.localcluster.usage import ContainerUsage, PodUsage, ProcessUsage


class World:
    """A manual clock, and containers with prepared usage."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.runs: list[ContainerRun] = []
        self.loads: dict[str, ProcessUsage] = {}
        self.looks = 0
        self.meter = UsageCollector(lambda: self.runs, self.read, lambda: self.now)

    def read(self, targets: Mapping[str, Target]) -> dict[str, ProcessUsage]:
        self.looks += 1
        return {name: load for name, load in self.loads.items() if name in targets}

    def start(self, name: str, age: float, uid: str = "pod", container: str = "main") -> None:
        self.runs.append(ContainerRun(uid, "node", container, name, time.time() - age, Target(1)))


def test_first_measurement_covers_the_whole_run() -> None:
    async def test() -> None:
        world = World()
        world.start("a", age=10.0)
        world.loads["a"] = ProcessUsage(5.0, 100)
        (container,) = (await world.meter.reading()).pods["pod"].containers
        assert (container.name, container.memory_bytes) == ("main", 100)
        assert abs(container.nanocores - 500_000_000) < 50_000_000
        assert world.looks == 1

    asyncio.run(test())


def test_later_measurements_cover_the_time_since_the_previous_one() -> None:
    async def test() -> None:
        world = World()
        world.start("a", age=10.0)
        world.loads["a"] = ProcessUsage(5.0, 100)
        await world.meter.reading()
        world.now += 2.0
        world.loads["a"] = ProcessUsage(8.0, 200)
        reading = await world.meter.reading()
        assert reading.pods == {"pod": PodUsage("node", (ContainerUsage("main", 1_500_000_000, 200, 2.0),))}

    asyncio.run(test())


def test_immediate_second_request_gets_the_cached_result() -> None:
    async def test() -> None:
        world = World()
        world.start("a", age=10.0)
        world.loads["a"] = ProcessUsage(5.0, 100)
        readings = await asyncio.gather(*(world.meter.reading() for _ in range(5)))
        assert all(reading is readings[0] for reading in readings)
        assert world.looks == 1
        world.now += usage_collector.MIN_SECONDS
        assert await world.meter.reading() is not readings[0]
        assert world.looks == 2

    asyncio.run(test())


def test_stale_measurement_is_repeated() -> None:
    async def test() -> None:
        world = World()
        world.start("a", age=3600.0)
        world.loads["a"] = ProcessUsage(1000.0, 100)

        def read(targets: Mapping[str, Target]) -> dict[str, ProcessUsage]:
            found = world.read(targets)
            world.now += 0.5
            world.loads["a"] = ProcessUsage(1000.0 + 0.25 * world.looks, 100)
            return found

        world.meter = UsageCollector(lambda: world.runs, read, lambda: world.now)
        (container,) = (await world.meter.reading()).pods["pod"].containers
        assert world.looks == 2
        assert (container.nanocores, container.window_seconds) == (500_000_000, 0.5)

    asyncio.run(test())


def test_ended_containers_are_omitted() -> None:
    async def test() -> None:
        world = World()
        world.start("a", age=1.0, uid="one", container="first")
        world.start("b", age=1.0, uid="one", container="second")
        world.start("c", age=1.0, uid="two")
        world.start("d", age=3600.0, uid="three")
        world.loads = {"b": ProcessUsage(0.1, 1)}
        reading = await world.meter.reading()
        assert {uid: [each.name for each in pod.containers] for uid, pod in reading.pods.items()} == {
            "one": ["second"]
        }
        world.runs.clear()
        world.now += 2.0
        assert (await world.meter.reading()).pods == {}

    asyncio.run(test())


SHARED = "nvidia.com/gpu.shared"
GPUS = {
    "GPU-a": OwnedUsage(DeviceUsage(0.9, 700, (GpuProcess(1, 500),)), {1: "pod"}),
    "GPU-b": OwnedUsage(DeviceUsage(0.5, 90, (GpuProcess(2, 30), GpuProcess(3, 40))), {2: "pod", 3: "other"}),
    "MIG-c": OwnedUsage(DeviceUsage(None, 11)),
    "GPU-d": OwnedUsage(DeviceUsage(0.1, 11, (GpuProcess(4, None),)), {4: "pod"}),
}


@pytest.mark.parametrize(
    ("assigned", "gpus", "memory"),
    [
        pytest.param((), None, None, id="none"),
        pytest.param((Gpu("GPU-a"),), 0.9, 700, id="exclusive: all of its memory"),
        pytest.param((Gpu("GPU-b", SHARED),), 0.5, 30, id="shared: that of its processes"),
        pytest.param((Gpu("GPU-a"), Gpu("GPU-b")), 1.4, 790, id="two"),
        pytest.param((Gpu("MIG-c", "nvidia.com/mig-1g.10gb"),), None, 11, id="MIG instance"),
        pytest.param((Gpu("GPU-d", SHARED),), 0.1, None, id="driver does not tell the memory"),
        pytest.param((Gpu("GPU-fake-0"),), None, None, id="simulated"),
    ],
)
def test_gpu_usage_of_a_container(assigned: tuple[Gpu, ...], gpus: float | None, memory: int | None) -> None:
    async def gpu_usage() -> Mapping[str, OwnedUsage]:
        return GPUS

    async def test() -> None:
        run = ContainerRun("pod", "node", "main", "a", time.time() - 10, Target(1), assigned)
        meter = UsageCollector(
            lambda: [run], lambda _: {"a": ProcessUsage(1.0, 1)}, lambda: 1000.0, gpu_usage
        )
        (container,) = (await meter.reading()).pods["pod"].containers
        assert (container.gpus, container.gpu_memory_bytes) == (gpus, memory)

    asyncio.run(test())
