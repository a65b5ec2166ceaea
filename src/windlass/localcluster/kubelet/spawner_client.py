"""A client that starts the spawner process on demand, and restarts it after a crash."""

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path

import msgspec

from windlass.localcluster.kubelet.sandbox_connection import Connection, SandboxCallError, wait_until_readable
from windlass.localcluster.kubelet.supervisor_client import SupervisorClient
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.channel import close_all
from windlass.localcluster.sandbox.process import launcher
from windlass.localcluster.sandbox.process.launcher import Launched, SpawnerOptions

logger = logging.getLogger(__name__)

_SECONDS_TO_START = 60.0
_SECONDS_TO_ANSWER = 5.0
_SECONDS_TO_END = 10.0


class CannotSpawnError(Exception):
    """The spawner cannot be started. The message contains the cause or the path of its log."""


class SpawnerClient:
    """`pods_folder` is the parent of the pods' directories.

    After a restart of the daemon, new pods join the network of the pods that are still running.
    """

    def __init__(self, options: SpawnerOptions, pods_folder: Path) -> None:
        self._options = options
        self._pods_folder = pods_folder
        self._launched: Launched | None = None
        self._connection: Connection | None = None
        self._ready: asyncio.Future[messages.Ready] | None = None
        self._is_stopped = False
        self._namespaces: tuple[int, int] | None = None
        self._was_ready = False
        self._reason = ""

    async def begin(self) -> None:
        """Launch the spawner without waiting until it is ready."""
        self._ready = asyncio.get_running_loop().create_future()
        try:
            await self._launch()
        except OSError as error:
            self._ready = None
            raise CannotSpawnError(f"cannot start the spawner process: {error}") from error

    async def ready(self) -> messages.Ready:
        """Start the spawner if necessary, wait until it is ready, and return the isolation that it provides."""
        if self._ready is None:
            await self.begin()
        ready = self._ready
        assert ready is not None  # noqa: S101 — set by `begin`
        try:
            # Unlike wait_for, this propagates a cancellation that arrives together with the result.
            async with asyncio.timeout(_SECONDS_TO_START):
                return await asyncio.shield(ready)
        except (TimeoutError, SandboxCallError) as error:
            if self._ready is ready:
                # No other task has restarted the spawner meanwhile.
                self._ready = None
            log = self._options.folder / launcher.LOG
            reason = str(error) or f"see {log}"
            raise CannotSpawnError(f"the spawner process did not start: {reason}") from error

    async def _launch(self) -> None:
        if not self._was_ready:
            # Not when the spawner is restarted: a supervisor serves one connection at a time, and the pod's worker then
            # uses it.
            self._namespaces = await self._surviving_namespaces()
        self._launched = launcher.launch(msgspec.structs.replace(self._options, namespaces=self._namespaces))
        self._connection = Connection(self._launched.channel, self._on_message, self._on_lost)

    async def _surviving_namespaces(self) -> tuple[int, int] | None:
        for folder in self._pods_folder.iterdir() if self._pods_folder.is_dir() else ():
            with contextlib.suppress(OSError):
                supervisor = SupervisorClient(folder, lambda _: None, lambda: None)
                try:
                    async with asyncio.timeout(_SECONDS_TO_ANSWER):
                        return await supervisor.namespaces()
                finally:
                    supervisor.disconnect()
        return None

    async def spawn(self, pod: messages.PodPlan) -> None:
        """Start a supervisor that listens in the pod's directory. Raises CannotSpawnError or SandboxCallError."""
        await self.ready()
        if self._connection is None:
            raise SandboxCallError("the spawner process has ended")
        try:
            async with asyncio.timeout(_SECONDS_TO_START):
                await self._connection.call(lambda call: messages.Spawn(call, pod))
        except TimeoutError as error:
            raise SandboxCallError("the spawner process does not respond") from error

    async def listen(self, port: int) -> socket.socket:
        """Return a socket that listens at the gateway of the pod network. Raises SandboxCallError."""
        if self._connection is None:
            raise SandboxCallError("the spawner process has ended")
        _, descriptors = await self._connection.call(lambda call: messages.Listen(call, port))
        return socket.socket(fileno=descriptors[0])

    def _on_message(self, message: messages.FromSpawner, descriptors: list[int]) -> None:
        if isinstance(message, messages.Rejected):
            self._reason = message.message
        if not isinstance(message, messages.Ready) or self._ready is None or self._ready.done():
            close_all(descriptors)
            return
        close_all(self._namespaces or ())
        self._namespaces = (descriptors[0], descriptors[1]) if descriptors else None
        self._was_ready = True
        self._ready.set_result(message)

    def _on_lost(self) -> None:
        self._connection = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(SandboxCallError(self._reason))
            # Mark the exception as retrieved, in case no task waits for it.
            self._ready.exception()
        self._ready = None
        if not self._is_stopped:
            logger.warning("the spawner process has ended; it is restarted with the next pod")
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
                    await _wait_for_exit(process.pid)
            if process.poll() is None:
                process.kill()
            process.wait()


async def _wait_for_exit(pid: int) -> None:
    """Wait for the end of a process without a thread or a signal handler."""
    if not hasattr(os, "pidfd_open"):
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            await asyncio.sleep(0.005)
        return
    descriptor = os.pidfd_open(pid)
    try:
        await wait_until_readable(descriptor)
    finally:
        os.close(descriptor)
