"""The daemon's hold on the supervisor of one pod."""

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
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.sandbox.process.supervisor import PROCESS, SOCKET

_SECONDS_TO_END = 15.0

Report = messages.Started | messages.NotStarted | messages.Ended


class Executed(NamedTuple):
    """A process that was started beside the container's own. The descriptors are the caller's to close."""

    call: int
    descriptors: list[int]
    exit_code: "asyncio.Future[int]"


class SupervisorClient:
    """`hear` gets what becomes of containers; `lose` is called once, when the supervisor has ended."""

    def __init__(self, folder: Path, hear: Callable[[Report], None], lose: Callable[[], None]) -> None:
        """Raises OSError when no supervisor is there."""
        self._listener = hear
        self._loser = lose
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[messages.Hello] = self._loop.create_future()
        self._exits: dict[int, asyncio.Future[int]] = {}
        channel = sandbox_connection.connect(folder / SOCKET, messages.FromSupervisor)
        self._process = _identity(folder)
        self._connection = Connection(channel, self._hear, self._lose)
        self._gone = asyncio.Event()

    async def hello(self, seconds: float) -> messages.Hello:
        """Raises SandboxCallError when the supervisor ends before it says anything, or is killed for saying nothing."""
        try:
            # Unlike wait_for, it hears also of a cancellation that comes in the moment of the answer.
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._hello)
        except TimeoutError as error:
            self.kill()
            raise SandboxCallError("the pod's supervisor does not answer, and was killed") from error

    def start(self, container: messages.ContainerPlan) -> None:
        self._connection.send(messages.Start(container))

    def signal(self, container: str, number: int) -> None:
        self._connection.send(messages.Signal(container, number))

    async def end(self) -> None:
        """Kill what runs. Returns when the supervisor has gone, after it was killed itself if it takes too long."""
        if not self._connection.is_open:
            return
        self._connection.send(messages.End())
        for insist in (self.kill, lambda: None):
            try:
                async with asyncio.timeout(_SECONDS_TO_END):
                    await self._gone.wait()
                return
            except TimeoutError:
                insist()

    def kill(self) -> None:
        """One that was stopped, say. Its containers end with it."""
        if self._process and processes.is_alive(self._process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(self._process.partition(":")[0]), signal.SIGKILL)

    def disconnect(self) -> None:
        """Without ending anything."""
        self._connection.close()

    async def execute(self, container: str, argv: Sequence[str], *, is_terminal: bool = False) -> Executed:
        words = tuple(word.encode("utf-8", "surrogateescape") for word in argv)
        # Made before anything is sent: it may have ended when the answer is looked at.
        exit_code: asyncio.Future[int] = self._loop.create_future()

        def make(call: int) -> messages.Execute:
            self._exits[call] = exit_code
            return messages.Execute(call, container, words, is_terminal)

        try:
            call, descriptors = await self._connection.call(make)
        except BaseException:
            self._exits = {number: other for number, other in self._exits.items() if other is not exit_code}
            raise
        return Executed(call, descriptors, exit_code)

    async def attach(self, container: str) -> tuple[int, list[int]]:
        return await self._connection.call(lambda call: messages.Attach(call, container))

    async def namespaces(self) -> tuple[int, int]:
        """Of the user, and of the hub of the pods' network, as descriptors. Raises SandboxCallError without a hub."""
        _, descriptors = await self._connection.call(messages.Namespaces)
        user, hub = descriptors
        return user, hub

    def abandon(self, call: int) -> None:
        self._connection.send(messages.Abandon(call))

    async def connect(self, host: str, port: int) -> socket.socket:
        """In the pod's own network; it may not be connected yet."""
        _, descriptors = await self._connection.call(lambda call: messages.Connect(call, port, host))
        return socket.socket(fileno=descriptors[0])

    def _hear(self, message: messages.FromSupervisor, descriptors: list[int]) -> None:
        sandbox_connection.close_all(descriptors)
        match message:
            case messages.Hello():
                if not self._hello.done():
                    self._hello.set_result(message)
            case messages.Exited(call=call, exit_code=code):
                if call in self._exits:
                    self._exits.pop(call).set_result(code)
            case messages.Started() | messages.NotStarted() | messages.Ended():
                self._listener(message)

    def _lose(self) -> None:
        self._gone.set()
        if not self._hello.done():
            self._fail(self._hello, "the pod's supervisor has gone")
        for future in self._exits.values():
            self._fail(future, "the pod's supervisor has gone")
        self._exits.clear()
        self._loser()

    def _fail(self, future: "asyncio.Future[messages.Hello] | asyncio.Future[int]", why: str) -> None:
        future.set_exception(SandboxCallError(why))
        # Nobody may be waiting for it.
        future.exception()


def _identity(folder: Path) -> str:
    """Of the supervisor of a pod; empty where it is not known."""
    try:
        return (folder / PROCESS).read_text(encoding="ascii")
    except (OSError, UnicodeError):
        return ""
