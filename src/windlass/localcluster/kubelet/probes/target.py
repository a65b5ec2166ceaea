"""What probes need of a pod: a way into it, and somebody who hears what they find."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.localcluster.kubelet.exec import ports, processes
from windlass.localcluster.kubelet.lifecycle import restarts
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.kubelet.probes import schedule
from windlass.localcluster.kubelet.probes.schedule import Kill
from windlass.localcluster.kubelet.sandbox_connection import SandboxCallError

if TYPE_CHECKING:
    from windlass.localcluster.kubelet.pods.worker import PodWorker

_MOST_OUTPUT = 10 * 1024


class ContainerTarget:
    """Into the run of a container."""

    def __init__(self, worker: "PodWorker", run_id: str) -> None:
        self._worker = worker
        self._run_id = run_id

    async def exec(self, argv: Sequence[str], timeout: float) -> tuple[int, bytes]:
        """Raises TimeoutError, after the command was killed, and OSError when it cannot be started."""
        try:
            supervision = self._worker.supervision
            executed = await supervision.execute(self._run_id, argv)
        except SandboxCallError as error:
            raise OSError(str(error)) from error
        process = processes.of_executed(supervision, executed)
        output = b""
        try:
            async with asyncio.timeout(timeout):
                await process.close_stdin()
                async for _, piece in process.output():
                    output = (output + piece)[:_MOST_OUTPUT]
                return await process.wait(), output
        except BaseException:
            # Too late, or nobody wants to know any more.
            await process.abandon()
            raise

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            supervision = self._worker.supervision
        except SandboxCallError as error:
            raise OSError(str(error)) from error
        return await ports.connect(supervision, host, port)


class WorkerListener:
    def __init__(self, worker: "PodWorker", events: PodEvents, container: str) -> None:
        self._worker = worker
        self._events = events
        self._container = container

    def on_change(self, has_started: bool, is_ready: bool) -> None:
        self._worker.health(self._container, has_started=has_started, is_ready=is_ready)

    def on_unhealthy(self, message: str) -> None:
        self._events.unhealthy(self._worker.pod, self._container, message)

    def on_kill(self, kill: Kill) -> None:
        pod, record = self._worker.pod, self._worker.record
        if restarts.is_the_last_one(pod, record, self._container):
            kill = schedule.kill_with_pod(pod, self._container)
        self._events.killing(pod, self._container, kill)
        self._worker.kill_unhealthy(self._container, kill.grace_seconds)
