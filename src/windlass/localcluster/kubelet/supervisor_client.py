"""The client of the supervisor process of one pod."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from windlass.localcluster.kubelet import sandbox_connection
from windlass.localcluster.kubelet.sandbox_connection import Connection, SandboxCallError
from windlass.localcluster.sandbox import channel, messages
from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.sandbox.process.supervisor import PROCESS, SOCKET

_SECONDS_TO_END = 15.0

Report = messages.Started | messages.NotStarted | messages.Ended


class Executed(NamedTuple):
    """A process that was started in a running container. The caller must close the descriptors."""

    call: int
    descriptors: list[int]
    exit_code: "asyncio.Future[int]"


class SupervisorClient:
    """`on_report` gets reports about containers; `on_lost` is called once when the supervisor has ended."""

    def __init__(
        self, folder: Path, on_report: Callable[[Report], None], on_lost: Callable[[], None]
    ) -> None:
        """Raises OSError if no supervisor is running."""
        self._on_report = on_report
        self._report_loss = on_lost
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[messages.Hello] = self._loop.create_future()
        self._exits: dict[int, asyncio.Future[int]] = {}
        to_supervisor = sandbox_connection.connect(folder / SOCKET, messages.FromSupervisor)
        self._process = _identity(folder)
        self._connection = Connection(to_supervisor, self._on_message, self._on_lost)
        self._has_ended = asyncio.Event()

    async def hello(self, seconds: float) -> messages.Hello:
        """Wait for the first message. After a timeout, kill the supervisor. Raises SandboxCallError if none arrives."""
        try:
            # Unlike wait_for, this propagates a cancellation that arrives together with the result.
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._hello)
        except TimeoutError as error:
            self.kill()
            raise SandboxCallError("the supervisor of the pod did not respond and was killed") from error

    def start(self, container: messages.ContainerPlan) -> None:
        self._connection.send(messages.Start(container))

    def signal(self, run_id: str, number: int) -> None:
        self._connection.send(messages.Signal(run_id, number))

    async def end(self) -> None:
        """Kill all containers, and wait until the supervisor has ended. Kill it if that takes too long."""
        if not self._connection.is_open:
            return
        self._connection.send(messages.End())
        for on_timeout in (self.kill, lambda: None):
            try:
                async with asyncio.timeout(_SECONDS_TO_END):
                    await self._has_ended.wait()
                return
            except TimeoutError:
                on_timeout()

    def kill(self) -> None:
        """Kill the supervisor, even if it does not respond, e.g. after SIGSTOP. Its containers end with it."""
        if self._process and processes.is_alive(self._process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(self._process.partition(":")[0]), signal.SIGKILL)

    def disconnect(self) -> None:
        """Close the connection without ending anything."""
        self._connection.close()

    async def execute(self, run_id: str, argv: Sequence[str], *, is_terminal: bool = False) -> Executed:
        encoded_argv = tuple(word.encode("utf-8", "surrogateescape") for word in argv)
        # Created before the request: the process may have ended before the response is handled.
        exit_code: asyncio.Future[int] = self._loop.create_future()

        def make(call: int) -> messages.Execute:
            self._exits[call] = exit_code
            return messages.Execute(call, run_id, encoded_argv, is_terminal)

        try:
            call, descriptors = await self._connection.call(make)
        except BaseException:
            self._exits = {number: other for number, other in self._exits.items() if other is not exit_code}
            raise
        return Executed(call, descriptors, exit_code)

    async def attach(self, run_id: str) -> tuple[int, list[int]]:
        return await self._connection.call(lambda call: messages.Attach(call, run_id))

    async def namespaces(self) -> tuple[int, int]:
        """Return descriptors of the user namespace and of the hub, the network namespace of the pods' bridge.

        Raises SandboxCallError if pods share the host network.
        """
        _, descriptors = await self._connection.call(messages.Namespaces)
        user, hub = descriptors
        return user, hub

    def abandon(self, call: int) -> None:
        self._connection.send(messages.Abandon(call))

    async def connect(self, host: str, port: int) -> socket.socket:
        """Return a socket in the pod's network whose connection may still be in progress."""
        _, descriptors = await self._connection.call(lambda call: messages.Connect(call, port, host))
        return socket.socket(fileno=descriptors[0])

    def _on_message(self, message: messages.FromSupervisor, descriptors: list[int]) -> None:
        channel.close_all(descriptors)
        match message:
            case messages.Hello():
                if not self._hello.done():
                    self._hello.set_result(message)
            case messages.Exited(call=call, exit_code=code):
                if call in self._exits:
                    self._exits.pop(call).set_result(code)
            case messages.Started() | messages.NotStarted() | messages.Ended():
                self._on_report(message)

    def _on_lost(self) -> None:
        self._has_ended.set()
        if not self._hello.done():
            self._fail(self._hello, "the supervisor of the pod has ended")
        for future in self._exits.values():
            self._fail(future, "the supervisor of the pod has ended")
        self._exits.clear()
        self._report_loss()

    def _fail(self, future: "asyncio.Future[messages.Hello] | asyncio.Future[int]", why: str) -> None:
        future.set_exception(SandboxCallError(why))
        # Mark the exception as retrieved, in case no task waits for it.
        future.exception()


def _identity(folder: Path) -> str:
    """Return the identity of a pod's supervisor; empty if unknown."""
    try:
        return (folder / PROCESS).read_text(encoding="ascii")
    except (OSError, UnicodeError):
        return ""
