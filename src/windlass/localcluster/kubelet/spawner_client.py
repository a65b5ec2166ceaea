"""The daemon's hold on the spawner: started when it is needed, and again when somebody has killed it."""

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path

import msgspec

from windlass.localcluster.kubelet.sandbox_connection import Connection, SandboxCallError, close_all
from windlass.localcluster.kubelet.supervisor_client import SupervisorClient
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.process import launcher
from windlass.localcluster.sandbox.process.launcher import Launched, SpawnerOptions

logger = logging.getLogger(__name__)

_SECONDS_TO_START = 60.0
_SECONDS_TO_ANSWER = 5.0
_SECONDS_TO_END = 10.0


class CannotSpawnError(Exception):
    """The spawner does not start; the message says where to read why."""


class SpawnerClient:
    """`pods` holds the folders of pods. Those that live on from before have a network that new ones must join."""

    def __init__(self, wanted: SpawnerOptions, pods: Path) -> None:
        self._wanted = wanted
        self._pods = pods
        self._launched: Launched | None = None
        self._connection: Connection | None = None
        self._ready: asyncio.Future[messages.Ready] | None = None
        self._is_stopped = False
        self._namespaces: tuple[int, int] | None = None
        self._has_been_up = False
        self._reason = ""

    async def begin(self) -> None:
        """Launch it, and do not wait for it: it takes a while."""
        self._ready = asyncio.get_running_loop().create_future()
        try:
            await self._launch()
        except OSError as error:
            self._ready = None
            raise CannotSpawnError(f"the process that starts pods cannot be started: {error}") from error

    async def ready(self) -> messages.Ready:
        """What pods can be given here, as soon as that is known."""
        if self._ready is None:
            await self.begin()
        ready = self._ready
        assert ready is not None  # noqa: S101 — it has begun
        try:
            # Unlike wait_for, it hears also of a cancellation that comes in the moment of the answer.
            async with asyncio.timeout(_SECONDS_TO_START):
                return await asyncio.shield(ready)
        except (TimeoutError, SandboxCallError) as error:
            if self._ready is ready:
                # Nobody has begun anew meanwhile.
                self._ready = None
            log = self._wanted.folder / launcher.COMPLAINTS
            reason = str(error) or f"see {log}"
            raise CannotSpawnError(f"the process that starts pods does not start: {reason}") from error

    async def _launch(self) -> None:
        if not self._has_been_up:
            # Later on, their workers hold the connections to them.
            self._namespaces = await self._surviving_namespaces()
        self._launched = launcher.launch(msgspec.structs.replace(self._wanted, namespaces=self._namespaces))
        self._connection = Connection(self._launched.channel, self._hear, self._lose)

    async def _surviving_namespaces(self) -> tuple[int, int] | None:
        for folder in self._pods.iterdir() if self._pods.is_dir() else ():
            with contextlib.suppress(OSError):
                supervisor = SupervisorClient(folder, lambda _: None, lambda: None)
                try:
                    async with asyncio.timeout(_SECONDS_TO_ANSWER):
                        return await supervisor.namespaces()
                finally:
                    supervisor.disconnect()
        return None

    async def spawn(self, pod: messages.PodPlan) -> None:
        """A supervisor that listens in the pod's folder. Raises SandboxCallError."""
        await self.ready()
        if self._connection is None:
            raise SandboxCallError("the process that starts pods has gone")
        try:
            async with asyncio.timeout(_SECONDS_TO_START):
                await self._connection.call(lambda call: messages.Spawn(call, pod))
        except TimeoutError as error:
            raise SandboxCallError("the process that starts pods does not answer") from error

    async def listen(self, port: int) -> socket.socket:
        """At the gateway of the pods' own network. Raises SandboxCallError."""
        if self._connection is None:
            raise SandboxCallError("the process that starts pods has gone")
        _, descriptors = await self._connection.call(lambda call: messages.Listen(call, port))
        return socket.socket(fileno=descriptors[0])

    def _hear(self, message: messages.FromSpawner, descriptors: list[int]) -> None:
        if isinstance(message, messages.Refused):
            self._reason = message.message
        if not isinstance(message, messages.Ready) or self._ready is None or self._ready.done():
            close_all(descriptors)
            return
        close_all(self._namespaces or ())
        self._namespaces = (descriptors[0], descriptors[1]) if descriptors else None
        self._has_been_up = True
        self._ready.set_result(message)

    def _lose(self) -> None:
        self._connection = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(SandboxCallError(self._reason))
            # Nobody may be waiting for it.
            self._ready.exception()
        self._ready = None
        if not self._is_stopped:
            logger.warning("the process that starts pods was killed, and is started again with the next pod")
        if self._launched is not None:
            self._launched.process.poll()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._connection is not None:
            self._connection.close()
        close_all(self._namespaces or ())
        self._namespaces = None
        if self._launched is not None:
            process = self._launched.process
            with contextlib.suppress(TimeoutError, ProcessLookupError, ChildProcessError):
                async with asyncio.timeout(_SECONDS_TO_END):
                    await _exited(process.pid)
            if process.poll() is None:
                process.kill()
            process.wait()


async def _exited(pid: int) -> None:
    """Without a thread, and without a signal handler that others may want to have."""
    if not hasattr(os, "pidfd_open"):
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            await asyncio.sleep(0.005)
        return
    descriptor = os.pidfd_open(pid)
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, exited.set)
        await exited.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
