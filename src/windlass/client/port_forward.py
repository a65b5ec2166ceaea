"""Forward a local port to a pod through the API server, with one WebSocket per connection.

The pod is looked up for each connection, so that forwarding continues after the pod is replaced.
"""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Self

from windlass.client import lookup, pods
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError
from windlass.client.pods import Pod
from windlass.kubeapi import streams
from windlass.kubeapi.errors import AccessError, ApiError
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Channels
from windlass.model.pods import PodPhase

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
PORTS_TO_TRY = 100
"""Number of further ports to try after one that is in use."""
LINGER_SECONDS = 30.0
"""Time without data from the pod after which a connection is closed, if the client has closed its sending side. The
client may still be waiting for a response, or may have exited."""
CLOSING_SECONDS = 2.0
"""How long to wait for the API server to close a WebSocket."""

_CHUNK_BYTES = 64 * 1024
_LOOPBACK_OF_WILDCARD = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 — chosen by the user
_LINGER_ZERO = struct.pack("ii", 1, 0)

Note = Callable[[str], None]
"""Receives messages about failed connections, and about a local port that is in use."""


class _RemoteError(Exception):
    """The API server reported an error for the forwarded connection."""


class Forward:
    """Listens while the `async with` block is active."""

    def __init__(
        self,
        connection: Connection,
        label_selector: str,
        pod_port: int,
        *,
        port: int | None = None,
        address: str = LOOPBACK,
        note: Note = lambda _: None,
    ) -> None:
        """Forward to a pod with these labels. `port` is the local port (default: the port of the pod)."""
        self.address = address
        self.port = pod_port if port is None else port
        """The local port; inside the block, the one that is listened on."""
        self._connection = connection
        self._label_selector = label_selector
        self._pod_port = pod_port
        self._note = note
        self._last_note = ""
        self._server: asyncio.Server | None = None
        self._connection_tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host = _LOOPBACK_OF_WILDCARD.get(self.address, self.address)
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    async def __aenter__(self) -> Self:
        """Start listening. Raises ClientError if the address or all ports to try are unavailable."""
        first = self.port
        for port in range(first, min(first + PORTS_TO_TRY, LAST_PORT) + 1):
            try:
                self._server = await asyncio.start_server(self._accept, self.address, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise ClientError(_listen_error(self.address, port, error)) from error
                continue
            self.port = self._server.sockets[0].getsockname()[1]
            if first not in (0, self.port):
                self._note(f"port {first} is in use: using port {self.port}")
            return self
        raise ClientError(f"port {first} and the following ports are in use. Choose another one with --port.")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is None:
            return
        self._server.close()
        running = set(self._connection_tasks)
        # The first cancellation closes the WebSockets, the second one aborts those that do not close in time.
        for _ in range(2):
            for task in running:
                task.cancel()
            if running:
                _, running = await asyncio.wait(running, timeout=CLOSING_SECONDS)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connection_tasks.add(task)
        task.add_done_callback(self._connection_tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            pod = await self._find_pod()
            request = streams.port_forward_request(self._connection.namespace, pod.name, self._pod_port)
            async with self._connection.transport.channels(
                request, streams.PORT_FORWARD_PROTOCOLS
            ) as channels:
                await _ForwardedConnection(channels, reader, writer).run()
            self._last_note = ""
            writer.close()
            await writer.wait_closed()
        except (ApiError, AccessError, ClientError) as error:
            self._report(self._connection.to_client_error(error))
        except _RemoteError as error:
            self._report(error)
        except OSError:
            pass  # the client has disconnected
        finally:
            _abort(writer)

    async def _find_pod(self) -> Pod:
        """Return the pod to connect to. Raises ObjectNotFoundError, and the errors of `Connection.send`."""
        listed = await lookup.list_objects(
            self._connection, PODS, self._connection.namespace, self._label_selector
        )
        running = [
            pod
            for pod in map(pods.decode, listed)
            if pod.status.phase == PodPhase.RUNNING and not pod.is_deleting
        ]
        if not running:
            raise ObjectNotFoundError("no pod is running: closed a connection")
        return max(running, key=lambda pod: (pod.is_ready, str(pod.metadata.creation_timestamp)))

    def _report(self, error: Exception) -> None:
        """Report an error once, not for every connection that a browser retries."""
        message = str(error)
        if message != self._last_note:
            self._note(message)
        self._last_note = message


class _ForwardedConnection:
    """One connection between a local client and the pod."""

    def __init__(
        self, channels: Channels, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._channels = channels
        self._reader = reader
        self._writer = writer
        self._received = 0
        """Number of received messages."""

    async def run(self) -> None:
        """Copy data until the pod closes the connection, or sends nothing more after the client has closed its side.

        Raises ApiError, OSError and _RemoteError.
        """
        sending = asyncio.create_task(self._send())
        receiving = asyncio.create_task(self._receive())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                sending.result()
                await self._linger(receiving)
            if receiving.done():
                receiving.result()
        finally:
            for task in (sending, receiving):
                task.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _send(self) -> None:
        """Send what the client writes. A send error is ignored, since `_receive` reports its cause."""
        with contextlib.suppress(ApiError):
            while data := await self._reader.read(_CHUNK_BYTES):
                await self._channels.send(streams.message(streams.PORT_DATA, data))

    async def _receive(self) -> None:
        decoder = streams.ChunkDecoder()
        async for received in self._channels.messages():
            self._received += 1
            chunk = decoder.decode(received)
            if chunk.error:
                raise _RemoteError(chunk.error)
            if chunk.data:
                self._writer.write(chunk.data)
                await self._writer.drain()

    async def _linger(self, receiving: "asyncio.Task[None]") -> None:
        """Wait until `receiving` ends, or a period of LINGER_SECONDS passes without data."""
        previous = -1
        while not receiving.done() and previous != self._received:
            previous = self._received
            await asyncio.wait({receiving}, timeout=LINGER_SECONDS)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Reset the connection, so that partial data does not seem complete. This has no effect after a close."""
    if not writer.is_closing():
        connection: socket.socket = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    writer.transport.abort()


def _listen_error(address: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EACCES:
            return f"port {port} requires root. Choose another one with --port."
        case errno.EADDRNOTAVAIL:
            return f"{address} is not an address of this machine. Choose another one with --address."
    return f"cannot listen on {address}: {error.strerror or error}. Choose another address with --address."
