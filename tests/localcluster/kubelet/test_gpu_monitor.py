"""Processes that use GPUs of other pods or of none: events, the annotation of the node, and idle GPUs."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from simulated_gpus import NAME, SIMULATED_GPUS, write_nvidia_smi

from windlass.localcluster.apiserver.options import WriteOptions
from windlass.localcluster.events import EventRecorder
from windlass.localcluster.kubelet import gpu_monitor, node_objects
from windlass.localcluster.kubelet.gpu_monitor import GpuMonitor
from windlass.localcluster.kubelet.gpus import MachineGpus
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.scheduler import nodes
from windlass.localcluster.server import ApiServer

Json = dict[str, Any]
FIRST, SECOND = SIMULATED_GPUS
IN_USE = "windlass.dev/gpus-in-use"
GPU = "nvidia.com/gpu"


class World:
    """An API server with one node, whose GPUs a simulated nvidia-smi reports. `owners` has pod UIDs by PID."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu_monitor, "MIN_SECONDS", 0.0)
        self.processes = write_nvidia_smi(folder / "bin")
        (folder / "dev").mkdir()
        self.machine = MachineGpus(folder, {"PATH": str(folder / "bin")})
        self.server = ApiServer(folder / "data")
        self.lifecycle = self.server.lifecycle
        self.lifecycle.clock = lambda: datetime(2026, 1, 2, tzinfo=UTC)
        facts = nodes.Machine(
            host_name="n",
            cpu=4,
            memory_bytes=2**33,
            architecture="arm64",
            gpus=self.machine.inventory.assignable,
        )
        node_objects.sync(self.lifecycle, nodes.nodes(facts, 1, self.lifecycle.now()))
        self.pods: list[Json] = []
        self.owners: dict[int, str | None] = {}
        events = PodEvents(EventRecorder(self.lifecycle, "kubelet", "n"))
        self.monitor = GpuMonitor(
            self.machine, self.lifecycle, events, lambda: self.pods, lambda pid: self.owners.get(pid, "")
        )

    def add_pod(self, name: str, gpu: str, resource: str = GPU) -> str:
        """Create a pod that has a GPU, and return its UID."""
        kind = self.server.registry.find_by_resource("pods")
        assert kind is not None
        listed = gpu if resource == GPU else f"{resource}:{gpu}"
        container = {"name": "c", "image": "i", "resources": {"limits": {resource: "1"}}}
        meta = {"name": name, "annotations": {"windlass.dev/gpus": listed}}
        body = {"metadata": meta, "spec": {"nodeName": "n", "containers": [container]}}
        self.lifecycle.create(kind, "default", body, WriteOptions())
        pod = next(each for each in self.lifecycle.objects("", "pods") if each["metadata"]["name"] == name)
        self.pods.append(pod)
        return str(pod["metadata"]["uid"])

    def check(self, processes: str) -> None:
        self.processes.write_text(processes)
        asyncio.run(self.monitor.check())

    @property
    def in_use(self) -> str | None:
        (node,) = self.lifecycle.objects("", "nodes")
        found: str | None = (node["metadata"].get("annotations") or {}).get(IN_USE)
        return found

    @property
    def events(self) -> list[tuple[str, str, str]]:
        found = self.lifecycle.objects("", "events")
        return [(each["involvedObject"]["name"], each["reason"], each["message"]) for each in found]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    one = World(tmp_path, monkeypatch)
    yield one
    one.server.store.close()


def test_process_outside_pods_is_reported_with_its_pid(world: World) -> None:
    world.add_pod("one", FIRST)
    world.add_pod("two", SECOND)
    world.check(f"{FIRST} 999999 528\n")
    assert world.in_use == f"{FIRST}=999999"
    ((name, reason, message),) = world.events
    assert (name, reason) == ("one", "GPUInUse")
    assert message.startswith(f"{FIRST} ({NAME}) is also used by process 999999, which holds 528Mi of it.")
    # The same process is reported once.
    world.check(f"{FIRST} 999999 600\n")
    assert len(world.events) == 1
    world.check("")
    assert world.in_use is None


def test_processes_of_the_pods_with_the_gpu_are_not_reported(world: World) -> None:
    shared = f"{GPU}.shared"
    world.owners = {11: world.add_pod("one", FIRST, shared), 12: world.add_pod("two", FIRST, shared)}
    world.check(f"{FIRST} 11 1\n{FIRST} 12 1\n")
    assert (world.in_use, world.events) == (None, [])


def test_process_of_a_pod_without_the_gpu_is_reported(world: World) -> None:
    world.owners = {11: world.add_pod("one", FIRST)}
    world.add_pod("two", SECOND)
    world.check(f"{SECOND} 11 1\n")
    assert world.in_use == f"{SECOND}=11"
    assert [name for name, _, _ in world.events] == ["two"]


def test_new_pod_gets_the_event_without_another_reading(world: World) -> None:
    world.check(f"{FIRST} 999999 528\n")
    assert world.events == []
    world.processes.unlink()
    world.add_pod("one", FIRST)
    world.monitor.report(world.pods[0])
    assert [(name, reason) for name, reason, _ in world.events] == [("one", "GPUInUse")]


def test_process_that_has_ended_since_is_not_reported(world: World) -> None:
    world.check(f"{FIRST} 999999 528\n")
    world.owners = {999999: None}
    world.add_pod("one", FIRST)
    world.monitor.report(world.pods[0])
    assert world.events == []


def test_owner_of_a_process_outside_of_pods_is_empty_until_it_has_ended() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        assert gpu_monitor.owner_of(process.pid) == ""
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert gpu_monitor.owner_of(process.pid) is None
    assert gpu_monitor.owner_of(process.pid) is None


def test_idle_gpus_have_no_processes(world: World) -> None:
    assert asyncio.run(world.monitor.idle()) == (NAME, NAME)
    world.check(f"{SECOND} 999999 1\n")
    assert asyncio.run(world.monitor.idle()) == (NAME,)


def test_usage_of_a_pod_counts_its_own_processes(world: World) -> None:
    world.owners = {11: "uid"}
    world.processes.write_text(f"{FIRST} 11 3\n{FIRST} 12 4\n")
    found = asyncio.run(world.monitor.usage())[FIRST]
    assert (found.usage.utilization, found.usage.memory_bytes) == (0.87, 7 * 2**20)
    assert (found.memory_of("uid"), found.memory_of("other")) == (3 * 2**20, 0)


def test_simulated_gpus_have_no_usage(tmp_path: Path, world: World) -> None:
    simulated = MachineGpus(tmp_path, {}, simulated=3)
    monitor = GpuMonitor(simulated, world.lifecycle, world.monitor._events, list, lambda _: "")
    assert asyncio.run(monitor.usage()) == {}
    assert len(asyncio.run(monitor.idle())) == 3
