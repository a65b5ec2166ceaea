"""Exec, attach and port-forward: processes in containers, and connections to ports of a pod."""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import AsyncIterator, Iterable, Sequence

from windlass.localcluster.apiserver.streams import websockets
from windlass.localcluster.kubelet import sandbox_connection
from windlass.localcluster.kubelet.supervisor_client import Executed, SupervisorClient

LOOPBACK = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_READ_BYTES = 64 * 1024
_MAX_TERMINAL_SIZE = 0xFFFF


class RemoteProcess:
    """A process in a container. This class closes its descriptors.

    `streams` are the output streams: pairs of API channel and descriptor.
    """

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
        self._open = {descriptor for _, descriptor in self._streams}
        if stdin is not None:
            self._open.add(stdin)
        for descriptor in self._open:
            os.set_blocking(descriptor, False)
        self._is_abandoned = False

    async def write_stdin(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self._stdin is not None:
            try:
                rest = rest[os.write(self._stdin, rest) :]
            except BlockingIOError:
                await sandbox_connection.wait_until_writable(self._stdin)

    async def close_stdin(self) -> None:
        stdin, self._stdin = self._stdin, None
        if stdin is None:
            return
        if self._terminal is not None:
            # Closing the descriptor would not end the input: the end of a terminal's input is a character.
            with contextlib.suppress(OSError):
                os.write(stdin, b"\x04")
            return
        self._open.discard(stdin)
        os.close(stdin)

    async def resize(self, width: int, height: int) -> None:
        if self._terminal is not None:
            rows, columns = (max(0, min(size, _MAX_TERMINAL_SIZE)) for size in (height, width))
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        pieces: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(maxsize=4)
        readers = [asyncio.create_task(_read(*stream, pieces)) for stream in self._streams]
        open_count = len(readers)
        try:
            while open_count:
                channel, piece = await pieces.get()
                if piece:
                    yield channel, piece
                else:
                    open_count -= 1
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            self._close()

    async def wait(self) -> int:
        """Return the exit code; 0 for an attached process. Raises OSError if the supervisor has ended."""
        return 0 if self._exit_code is None else await self._exit_code

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


def executed_process(supervisor: SupervisorClient, executed: Executed) -> RemoteProcess:
    """Return the executed process. A terminal has one descriptor for all streams."""
    stdin, *outputs = executed.descriptors
    return RemoteProcess(
        supervisor,
        executed.call,
        zip((websockets.STDOUT, websockets.STDERR), outputs or [stdin], strict=False),
        stdin,
        exit_code=executed.exit_code,
        terminal=None if outputs else stdin,
    )


def attached_process(
    supervisor: SupervisorClient, call: int, descriptors: list[int], *, is_terminal: bool
) -> RemoteProcess:
    """Return the attached process. Its stdout and stderr are merged."""
    output, stdin = descriptors[0], descriptors[1] if len(descriptors) > 1 else None
    terminal = stdin if is_terminal else None
    return RemoteProcess(supervisor, call, [(websockets.STDOUT, output)], stdin, terminal=terminal)


async def _read(channel: int, descriptor: int, pieces: "asyncio.Queue[tuple[int, bytes]]") -> None:
    """Put pieces of output into the queue, and an empty piece at the end."""
    while True:
        try:
            piece = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            await sandbox_connection.wait_until_readable(descriptor)
            continue
        except OSError:
            # Reading a terminal that all processes have closed fails with EIO.
            piece = b""
        await pieces.put((channel, piece))
        if not piece:
            return


async def connect_to_pod(
    supervisor: SupervisorClient, addresses: Sequence[str], port: int, *, is_isolated: bool
) -> Streams:
    """Connect to a port on the loopback or an address of the pod. Raises OSError.

    On the host network all pods share the loopback: there the addresses of the pod are tried first.
    """
    hosts = (LOOPBACK, *addresses) if is_isolated else (*addresses, LOOPBACK)
    for host in hosts[:-1]:
        with contextlib.suppress(OSError):
            return await connect(supervisor, host, port)
    return await connect(supervisor, hosts[-1], port)


async def connect(supervisor: SupervisorClient, host: str, port: int) -> Streams:
    """Connect from within the pod. The machine resolves the host name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    connection = await supervisor.connect(str(found[0][4][0]), port)
    connection.setblocking(False)
    try:
        await sandbox_connection.wait_until_writable(connection.fileno())
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        return await asyncio.open_connection(sock=connection)
    except BaseException:
        connection.close()
        raise
