"""What is done with a container while it runs: its probes, and the hooks after its start and before its end."""

import asyncio
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.lifecycle.records import Running
from windlass.localcluster.kubelet.pods import hooks
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.kubelet.probes.prober import Prober
from windlass.localcluster.kubelet.probes.target import ContainerTarget, WorkerListener
from windlass.model.base import Json

if TYPE_CHECKING:
    from windlass.localcluster.kubelet.pods.worker import PodWorker

_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


class ContainerMonitor:
    """For the containers of one pod."""

    def __init__(self, worker: "PodWorker", events: PodEvents) -> None:
        self._worker = worker
        self._events = events
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._hooks: set[asyncio.Task[None]] = set()

    def begin(self, name: str, run: Running) -> None:
        """The container has just started."""
        self.probe(name, run, timedelta())
        self.hook(name, run, hooks.POST_START, hooks.LONGEST)

    def probe(self, name: str, run: Running, age: timedelta) -> None:
        """From now on, of a run that is so old."""
        self.end(name)
        container = specs.container(self._worker.pod, name)
        if not any(container.get(field) for field in _PROBES):
            return
        prober = Prober(
            container,
            lambda: self._worker.pod,
            ContainerTarget(self._worker, run.id),
            WorkerListener(self._worker, self._events, name),
            age=age,
        )
        self._probing[name] = asyncio.create_task(prober.run())

    def end(self, name: str) -> None:
        """The container runs no longer."""
        if name in self._probing:
            self._probing.pop(name).cancel()

    def end_all(self) -> None:
        for task in (*self._probing.values(), *self._hooks):
            task.cancel()
        self._probing.clear()

    def kill(self, name: str, run: Running, grace_seconds: int) -> None:
        """A container that is not well: with its hook, SIGTERM and SIGKILL."""
        if not self.hook(name, run, hooks.PRE_STOP, grace_seconds):
            self._worker.signal(run.id, signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(grace_seconds, self._worker.signal, run.id, signal.SIGKILL)

    def hook(self, name: str, run: Running, kind: str, seconds: float) -> bool:
        """Whether there is one: then it is run, and what follows it is done when it is through."""
        handler = hooks.hook(specs.container(self._worker.pod, name), kind)
        if handler is None:
            return False
        task = asyncio.create_task(self._run_hook(name, run, kind, handler, seconds))
        self._hooks.add(task)
        task.add_done_callback(self._hooks.discard)
        return True

    async def _run_hook(self, name: str, run: Running, kind: str, handler: Json, seconds: float) -> None:
        pod = self._worker.pod
        way, container = ContainerTarget(self._worker, run.id), specs.container(pod, name)
        problem = await hooks.run(handler, container, pod, way, seconds)
        if problem and run.id in self._worker.run_ids():
            self._events.hook_failed(pod, name, kind, problem)
        if kind == hooks.PRE_STOP:
            self._worker.signal(run.id, signal.SIGTERM)
        elif problem:
            self.kill(name, run, specs.grace_seconds(pod))
