"""Watch the usage of GPUs: for metrics, and to report processes that use a GPU which is not assigned to their pod.

Such a GPU is still assigned to pods, since the process may need little of it, e.g. for a display, but only after all
idle ones. The annotation IN_USE_ANNOTATION of the node tells the scheduler; an event tells the user of the pod.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.kubelet.containers.plan import POD_UID_VARIABLE
from windlass.localcluster.kubelet.gpus import MachineGpus
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.sandbox.gpus.devices import DeviceUsage, GpuProcess
from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.scheduler import gpus, node_resources
from windlass.localcluster.store_types import StoreError
from windlass.model.base import Json

logger = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
MIN_SECONDS = 1.0
"""Minimum interval between two readings."""
_MAX_EVENTS = 1000


class OwnedUsage(msgspec.Struct, frozen=True):
    """The usage of a device, and the UIDs of the pods to which its processes belong; empty for other processes."""

    usage: DeviceUsage
    owners: Mapping[int, str] = {}

    def memory_of(self, uid: str) -> int | None:
        """Return the memory that the processes of a pod hold; None if it is not known."""
        own = [process for process in self.usage.processes if self.owners.get(process.pid) == uid]
        return None if any(process.memory_bytes is None for process in own) else sum(_memory(own))


class GpuMonitor:
    """`pods` returns the pods of the kubelet."""

    def __init__(
        self,
        machine: MachineGpus,
        lifecycle: Lifecycle,
        events: PodEvents,
        pods: Callable[[], Iterable[Json]],
        owner: Callable[[int], str | None] | None = None,
    ) -> None:
        self._machine = machine
        self._lifecycle = lifecycle
        self._events = events
        self._pods = pods
        self._owner = owner or owner_of
        self._usage: Mapping[str, OwnedUsage] = {}
        self._read_at: float | None = None
        self._lock = asyncio.Lock()
        self._reported: set[tuple[str, str, int]] = set()

    async def usage(self) -> Mapping[str, OwnedUsage]:
        """Return the usage of all devices by ID; empty for simulated devices."""
        if not self._machine.has_usage:
            return {}
        async with self._lock:
            is_fresh = self._read_at is not None and time.monotonic() - self._read_at < MIN_SECONDS
            if not is_fresh:
                self._usage = await asyncio.to_thread(self._read)
                self._read_at = time.monotonic()
            return self._usage

    async def idle(self) -> tuple[str, ...]:
        """Return the names of the devices that no process uses."""
        usage = await self.usage()
        return tuple(
            device.name or device.id
            for device in self._machine.inventory.devices
            if device.id not in usage or not usage[device.id].usage.processes
        )

    async def run(self) -> None:
        while self._machine.has_usage:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.check()
            except StoreError as error:
                logger.warning("cannot report processes that use GPUs: %s", error)

    async def check(self) -> None:
        """Find processes that use GPUs of other pods or of none, and report them."""
        await self.usage()
        foreign = {id_: found for id_ in self._usage if (found := self._foreign(id_))}
        self._annotate_nodes({id_: [each.pid for each in found] for id_, found in foreign.items()})
        for pod in self._pods():
            self.report(pod)

    def report(self, pod: Json) -> None:
        """Report the processes that were last seen using a GPU of this pod, once each."""
        uid = pod["metadata"]["uid"]
        for gpu in () if specs.has_final_phase(pod) else node_resources.requests_of(pod).gpus:
            for process in self._foreign(gpu.id):
                key = (uid, gpu.id, process.pid)
                if key not in self._reported and len(self._reported) < _MAX_EVENTS:
                    self._reported.add(key)
                    self._events.gpu_in_use(pod, self._message(gpu.id, process))

    def _foreign(self, id_: str) -> list[GpuProcess]:
        """Return the processes that use a device which is not assigned to their pod, and have not ended since."""
        found = self._usage.get(id_)
        if found is None:
            return []
        users = set(self._users(id_))
        others = (process for process in found.usage.processes if found.owners.get(process.pid) not in users)
        return [process for process in others if self._owner(process.pid) is not None]

    def _users(self, id_: str) -> Iterator[str]:
        for pod in self._pods():
            if any(gpu.id == id_ for gpu in node_resources.requests_of(pod).gpus):
                yield pod["metadata"]["uid"]

    def _read(self) -> dict[str, OwnedUsage]:
        return {
            id_: OwnedUsage(usage, {each.pid: self._owner(each.pid) or "" for each in usage.processes})
            for id_, usage in self._machine.usage().items()
        }

    def _annotate_nodes(self, in_use: Mapping[str, list[int]]) -> None:
        kind = self._lifecycle.registry.built_in("nodes")
        for node in self._lifecycle.objects("", "nodes"):
            meta = node["metadata"]
            annotations: Mapping[str, str] = meta.get("annotations") or {}
            own = [gpu.id for gpu in gpus.listed(node)]
            text = gpus.format_in_use({id_: in_use[id_] for id_ in own if id_ in in_use})
            if annotations.get(gpus.IN_USE_ANNOTATION, "") != text:
                annotate = functools.partial(_with_annotation, text=text)
                self._lifecycle.amend(kind, "", meta["name"], annotate)

    def _message(self, id_: str, process: GpuProcess) -> str:
        device = self._machine.inventory.device(id_)
        name = f" ({device.name})" if device is not None and device.name else ""
        command = processes.command_name(process.pid)
        which = f"process {process.pid}" + (f" ({command})" if command else "")
        holds = (
            "" if process.memory_bytes is None else f", which holds {process.memory_bytes // 1024**2}Mi of it"
        )
        return (
            f"{id_}{name} is also used by {which}{holds}. It does not belong to a pod with this GPU: if the memory of"
            " the GPU is not enough for both, stop that process."
        )


def owner_of(pid: int) -> str | None:
    """Return the UID of the pod that a process belongs to; empty if there is none, None if it has ended.

    A process that is not visible, e.g. outside of the container in which the daemon runs, counts as ended.
    """
    own = processes.variable(pid, POD_UID_VARIABLE)
    if own:
        return own
    # A program may have cleared its environment.
    parents = (processes.variable(parent, POD_UID_VARIABLE) for parent in processes.ancestors(pid))
    return next(filter(None, parents), "" if processes.is_running(pid) else None)


def _memory(found: Iterable[GpuProcess]) -> Iterator[int]:
    return (process.memory_bytes or 0 for process in found)


def _with_annotation(node: Json, text: str) -> Json:
    meta = node["metadata"]
    others = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key != gpus.IN_USE_ANNOTATION
    }
    annotations = others | ({gpus.IN_USE_ANNOTATION: text} if text else {})
    changed = {key: value for key, value in meta.items() if key != "annotations"}
    return {**node, "metadata": {**changed, "annotations": annotations} if annotations else changed}
