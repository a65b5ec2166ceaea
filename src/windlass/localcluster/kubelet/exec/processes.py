"""Processes in containers that clients use through exec and attach."""

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Iterable

from windlass.localcluster.apiserver.streams import websockets
from windlass.localcluster.kubelet import sandbox_connection
from windlass.localcluster.kubelet.supervisor_client import Executed, SupervisorClient

_PIECE = 64 * 1024
_LARGEST_SIZE = 0xFFFF


class RemoteProcess:
    """A process with its streams. `streams` are pairs of API channel and descriptor; this class closes descriptors."""

    def __init__(
        self,
        supervisor: SupervisorClient,
        call: int,
        streams: Iterable[tuple[int, int]],
        stdin: int | None,
        *,
        exit_code: "asyncio.Future[int] | None" = None,
        terminal: int | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._call = call
        self._streams = list(streams)
        self._stdin = stdin
        self._terminal = terminal
        self._exit_code = exit_code
        self._open = {descriptor for _, descriptor in self._streams} | (
            {stdin} if stdin is not None else set()
        )
        self._is_abandoned = False

    async def write_stdin(self, data: bytes) -> None:
        if self._stdin is None:
            return
        rest = memoryview(data)
        while rest and self._stdin is not None:
            try:
                rest = rest[os.write(self._stdin, rest) :]
            except BlockingIOError:
                await sandbox_connection.writable(self._stdin)

    async def close_stdin(self) -> None:
        stdin, self._stdin = self._stdin, None
        if stdin is None:
            return
        if self._terminal is not None:
            # A terminal has one descriptor for both directions: the end of input is a character.
            with contextlib.suppress(OSError):
                os.write(stdin, b"\x04")
            return
        self._open.discard(stdin)
        os.close(stdin)

    async def resize(self, width: int, height: int) -> None:
        if self._terminal is not None:
            rows, columns = (max(0, min(size, _LARGEST_SIZE)) for size in (height, width))
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        pieces: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(maxsize=4)
        readers = [asyncio.create_task(_read(*stream, pieces)) for stream in self._streams]
        left = len(readers)
        try:
            while left:
                channel, piece = await pieces.get()
                if piece:
                    yield channel, piece
                else:
                    left -= 1
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            self._close()

    async def wait(self) -> int:
        """Return the exit code. Raises OSError if the process could not be started."""
        if self._exit_code is None:
            return 0
        return await self._exit_code

    async def abandon(self) -> None:
        if not self._is_abandoned:
            self._is_abandoned = True
            self._supervisor.abandon(self._call)
        self._close()

    def _close(self) -> None:
        self._stdin = None
        while self._open:
            os.close(self._open.pop())
        self._terminal = None


def of_executed(supervisor: SupervisorClient, executed: Executed) -> RemoteProcess:
    for descriptor in executed.descriptors:
        os.set_blocking(descriptor, False)
    if len(executed.descriptors) == 1:
        (terminal,) = executed.descriptors
        streams = [(websockets.STDOUT, terminal)]
        return RemoteProcess(
            supervisor,
            executed.call,
            streams,
            terminal,
            exit_code=executed.exit_code,
            terminal=terminal,
        )
    stdin, stdout, stderr = executed.descriptors
    streams = [(websockets.STDOUT, stdout), (websockets.STDERR, stderr)]
    return RemoteProcess(supervisor, executed.call, streams, stdin, exit_code=executed.exit_code)


def of_attached(
    supervisor: SupervisorClient, call: int, descriptors: list[int], *, is_terminal: bool
) -> RemoteProcess:
    """Return the attached process. Its stdout and stderr are merged."""
    for descriptor in descriptors:
        os.set_blocking(descriptor, False)
    output, stdin = descriptors[0], descriptors[1] if len(descriptors) > 1 else None
    terminal = stdin if is_terminal else None
    return RemoteProcess(supervisor, call, [(websockets.STDOUT, output)], stdin, terminal=terminal)


async def _read(channel: int, descriptor: int, pieces: "asyncio.Queue[tuple[int, bytes]]") -> None:
    """Read until the end, which is put as an empty piece."""
    while True:
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            await sandbox_connection.readable(descriptor)
            continue
        except OSError:
            # The end of a terminal that all processes have closed.
            piece = b""
        await pieces.put((channel, piece))
        if not piece:
            return
