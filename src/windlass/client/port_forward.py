"""A port of this machine that leads to a pod: every connection goes through the API server, on a WebSocket of its own.

Which pod that is, is asked for each connection: one that is replaced meanwhile needs nobody's attention.
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
from windlass.client.errors import ClientError, NotThereError
from windlass.client.pods import Pod
from windlass.kubeapi import port_forwards
from windlass.kubeapi.errors import AccessError, ApiError
from windlass.kubeapi.port_forwards import Incoming
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Channels
from windlass.model.pods import PodPhase

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
FURTHER_PORTS = 100
"""So many are tried after one that is taken."""
LINGER_SECONDS = 30.0
"""Who has said all that they had to say may wait for an answer, or be gone: that is not to be seen. For so long nothing
need come before they are taken for gone."""
CLOSING_SECONDS = 2.0
"""For so long an API server may take to say goodbye."""

_CHUNK_BYTES = 64 * 1024
_EVERY_ADDRESS = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 — for whoever asked to listen there
_AT_ONCE = struct.pack("ii", 1, 0)

Note = Callable[[str], None]
"""Is told what keeps connections from being made."""


class _CutError(Exception):
    """The other end has said why it goes no further."""


class Forward:
    """Listens as long as the block lasts. Nothing of it stays behind."""

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
        """The pods are those with these labels. `port` is the wanted one here: without it, that of the pod."""
        self.address = address
        self.port = pod_port if port is None else port
        """In the block: the one on which it listens."""
        self._connection = connection
        self._label_selector = label_selector
        self._pod_port = pod_port
        self._note = note
        self._noted = ""
        self._server: asyncio.Server | None = None
        self._conversations: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host = _EVERY_ADDRESS.get(self.address, self.address)
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    async def __aenter__(self) -> Self:
        """Raises ClientError where no port can be had."""
        wanted = self.port
        for port in range(wanted, min(wanted + FURTHER_PORTS, LAST_PORT) + 1):
            try:
                self._server = await asyncio.start_server(self._accept, self.address, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise ClientError(_why_not(self.address, port, error)) from error
                continue
            self.port = self._server.sockets[0].getsockname()[1]
            if wanted not in (0, self.port):
                self._note(f"port {wanted} is taken: {self.port} is used")
            return self
        raise ClientError(f"port {wanted} and those after it are taken: choose another one with --port")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is None:
            return
        self._server.close()
        left = set(self._conversations)
        # The first time they say goodbye, the second time they do not wait for an answer.
        for _ in range(2):
            for task in left:
                task.cancel()
            if left:
                _, left = await asyncio.wait(left, timeout=CLOSING_SECONDS)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            pod = await self._pod()
            request = port_forwards.request(self._connection.namespace, pod.name, self._pod_port)
            async with self._connection.transport.channels(request, port_forwards.PROTOCOLS) as channels:
                await _Conversation(channels, reader, writer).go_on()
            self._noted = ""
            writer.close()
            await writer.wait_closed()
        except (ApiError, AccessError, ClientError) as error:
            self._tell(self._connection.explained(error))
        except _CutError as error:
            self._tell(error)
        except OSError:
            pass  # whoever has connected is gone
        finally:
            _cut(writer)

    async def _pod(self) -> Pod:
        """The one that is to be reached. Raises NotThereError, and what `Connection.send` raises."""
        listed = await lookup.list_objects(
            self._connection, PODS, self._connection.namespace, self._label_selector
        )
        running = [
            pod
            for pod in map(pods.decode, listed)
            if pod.status.phase == PodPhase.RUNNING and not pod.is_deleting
        ]
        if not running:
            raise NotThereError("there is no pod that runs: a connection was closed")
        return max(running, key=lambda pod: (pod.is_ready, str(pod.metadata.creation_timestamp)))

    def _tell(self, error: Exception) -> None:
        """Once, and not for every connection that a browser tries again."""
        said = str(error)
        if said != self._noted:
            self._note(said)
        self._noted = said


class _Conversation:
    """Between who has connected and the pod."""

    def __init__(
        self, channels: Channels, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._channels = channels
        self._reader = reader
        self._writer = writer
        self._received = 0
        """Messages."""

    async def go_on(self) -> None:
        """Until the pod has closed it, or nobody is here any more. Raises ApiError, OSError and _CutError."""
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
        """What cannot be sent any more is lost: why, the other direction is about to say."""
        with contextlib.suppress(ApiError):
            while data := await self._reader.read(_CHUNK_BYTES):
                await self._channels.send(port_forwards.message(data))

    async def _receive(self) -> None:
        incoming = Incoming()
        async for received in self._channels.messages():
            self._received += 1
            piece = incoming.piece(received)
            if piece.error:
                raise _CutError(piece.error)
            if piece.data:
                self._writer.write(piece.data)
                await self._writer.drain()

    async def _linger(self, receiving: "asyncio.Task[None]") -> None:
        """As long as something comes."""
        seen = -1
        while not receiving.done() and seen != self._received:
            seen = self._received
            await asyncio.wait({receiving}, timeout=LINGER_SECONDS)


def _cut(writer: asyncio.StreamWriter) -> None:
    """At once, and so that nobody takes what has come for the whole. What is closed already is left as it is."""
    if not writer.is_closing():
        own: socket.socket = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()


def _why_not(address: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EACCES:
            return f"port {port} is for root alone: choose another one with --port"
        case errno.EADDRNOTAVAIL:
            return f"{address} is no address of this machine: choose another one with --address"
    return f"{address} cannot be listened on: {error.strerror or error}. Choose another one with --address."
