"""HTTP/1.1 connections for requests whose response is read as a whole.

They take a third of the CPU time of aiohttp's, which matters to a controller that sends thousands of small requests.
Streams, WebSockets and requests through a proxy use aiohttp.
"""

import asyncio
import socket
import ssl
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import aiohappyeyeballs

from windlass.kubeapi import sockets

IDLE_SECONDS = 30.0
"""Time after which an idle connection is closed. Proxies close it after 50 s or more, API servers after 90 s."""
FALLBACK_SECONDS = 0.25
"""Time after which the next address of a server with several ones is tried, too."""
MAX_HEAD_BYTES = 2**17
_CLOSE_SECONDS = 1.0
_REPEATABLE = ("GET", "PUT", "DELETE")
"""Methods of requests that may be sent again on a new connection, if the server has closed the one in use."""
_END_OF_HEAD = b"\r\n\r\n"
_GZIP = 31
"""zlib's `wbits` for the largest window with a gzip header."""

Tls = tuple[ssl.SSLContext | None, str]
"""The TLS context, if any, and the name in the server's certificate; empty for the host."""


class Response(NamedTuple):
    code: int
    headers: Mapping[str, str]
    """By name in the usual case, e.g. `Retry-After`."""
    body: bytes


class CannotConnectError(Exception):
    def __init__(self, target: str, cause: OSError) -> None:
        super().__init__(target)
        self.target = target
        self.cause = cause
        """The error of the operating system or of TLS."""


class BrokenResponseError(Exception):
    """The connection was lost, or the response is not HTTP."""

    def __init__(self, message: str, code: int = 0, *, is_unanswered: bool = False) -> None:
        super().__init__(message)
        self.code = code
        """The status code; 0 if it is unknown."""
        self.is_unanswered = is_unanswered
        """Whether the server closed the connection before it sent anything."""


class Connections:
    """The connections to one server. Each has one request at a time; their number is not limited here."""

    def __init__(self, server: str, socket_path: str = "") -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_tls = parts.scheme == "https"
        self._base_path = parts.path
        self._host_line = f"Host: {parts.netloc.rpartition('@')[2]}\r\n"
        self._socket_path = socket_path
        self._idle: list[_Connection] = []
        """The connection that was used last at the end."""
        self._sweep: asyncio.TimerHandle | None = None

    async def send(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes, tls: Tls
    ) -> Response:
        """Send a request. Raise CannotConnectError or BrokenResponseError."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
        if lines.count("\n") != len(headers) or any(character in target for character in "\r\n "):
            raise ValueError(f"a header or the path of {method} {target!r} contains a line end")
        size = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
        head = f"{method} {self._base_path}{target} HTTP/1.1\r\n{self._host_line}{lines}{size}\r\n".encode()
        used = self._take_idle(tls)
        if used is not None:
            try:
                return await self._send_on(used, head + body)
            except BrokenResponseError as error:
                if not error.is_unanswered or method not in _REPEATABLE:
                    raise
        return await self._send_on(await self._connect(tls), head + body)

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.transport.close()
        if idle:
            await asyncio.wait([connection.closed for connection in idle], timeout=_CLOSE_SECONDS)

    async def _send_on(self, connection: "_Connection", data: bytes) -> Response:
        try:
            response = await connection.send(data)
        except BaseException:
            connection.transport.abort()
            raise
        if connection.is_reusable:
            self._keep(connection)
        else:
            connection.transport.close()
        return response

    def _take_idle(self, tls: Tls) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.tls == tls and not connection.closed.done():
                return connection
            connection.transport.close()
        return None

    def _keep(self, connection: "_Connection") -> None:
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_unused)

    def _close_unused(self) -> None:
        now = time.monotonic()
        kept = [each for each in self._idle if now - each.idle_since < IDLE_SECONDS]
        for connection in self._idle:
            if connection not in kept:
                connection.transport.close()
        self._idle, self._sweep = kept, None
        if kept:
            delay = kept[0].idle_since + IDLE_SECONDS - now
            self._sweep = asyncio.get_running_loop().call_later(delay, self._close_unused)

    async def _connect(self, tls: Tls) -> "_Connection":
        loop = asyncio.get_running_loop()
        if self._socket_path:
            try:
                _, connection = await loop.create_unix_connection(lambda: _Connection(tls), self._socket_path)
            except OSError as error:
                raise CannotConnectError(self._socket_path, error) from error
            return connection
        host, port = self._host, self._port
        context, name = tls
        connected: socket.socket | None = None
        try:
            addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            connected = await aiohappyeyeballs.start_connection(
                addresses,
                happy_eyeballs_delay=FALLBACK_SECONDS,
                interleave=1,
                socket_factory=sockets.with_keepalive,
            )
            _, connection = await loop.create_connection(
                lambda: _Connection(tls),
                sock=connected,
                ssl=(context or True) if self._is_tls else None,
                server_hostname=(name or host) if self._is_tls else None,
            )
        except OSError as error:
            if connected is not None:
                connected.close()
            target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise CannotConnectError(target, error) from error
        return connection


class _Connection(asyncio.Protocol):
    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        self.transport: asyncio.Transport
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.idle_since = 0.0
        self.is_reusable = False
        """Whether the last response allows another request."""
        self._answer: asyncio.Future[Response] | None = None
        self._reading = _Reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own

    async def send(self, data: bytes) -> Response:
        self._reading = _Reading()
        self._answer = asyncio.get_running_loop().create_future()
        if self.closed.done():
            raise BrokenResponseError("the server closed the connection", is_unanswered=True)
        self.transport.write(data)
        try:
            return await self._answer
        finally:
            self._answer = None

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.transport.abort()  # it answers what was not asked
            return
        try:
            response = self._reading.feed(data)
        except ValueError as error:
            self._answer.set_exception(self._broken(f"the response is not HTTP: {error}"))
            return
        if response is not None:
            self.is_reusable = self._reading.is_reusable
            self._answer.set_result(response)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        if self._answer is None or self._answer.done():
            return
        self.is_reusable = False
        try:
            response = self._reading.end()
        except ValueError as malformed:
            self._answer.set_exception(self._broken(f"the response is not HTTP: {malformed}"))
            return
        if response is not None:
            self._answer.set_result(response)
            return
        reason = f": {error}" if error is not None else ""
        message = f"the connection was closed before the end of the response{reason}"
        self._answer.set_exception(self._broken(message))

    def _broken(self, message: str) -> BrokenResponseError:
        reading = self._reading
        return BrokenResponseError(message, reading.code, is_unanswered=not reading.has_begun)


class _Reading:
    """Reads one response from the data of a connection."""

    def __init__(self) -> None:
        self.code = 0
        self.is_reusable = True
        self.has_begun = False
        self._data = bytearray()
        self._headers: dict[str, str] = {}
        self._size: int | None = None
        """The size of the body, if its head says it."""
        self._chunks: list[bytes] | None = None
        """The chunks of a chunked body that were read."""

    def feed(self, data: bytes) -> Response | None:
        """Return the response if it is complete. Raise ValueError if it is malformed."""
        self.has_begun = True
        self._data += data
        while not self.code:
            end = self._data.find(_END_OF_HEAD)
            if end < 0:
                if len(self._data) > MAX_HEAD_BYTES:
                    raise ValueError("its head is too large")
                return None
            head = bytes(self._data[:end])
            del self._data[: end + len(_END_OF_HEAD)]
            self._read_head(head.decode("latin-1"))
        if self._chunks is not None:
            return self._response(b"".join(self._chunks)) if self._read_chunks(self._chunks) else None
        if self._size is None or len(self._data) < self._size:
            return None
        return self._response(bytes(self._data[: self._size]), len(self._data) - self._size)

    def end(self) -> Response | None:
        """Return the response if its body extends to the end of the connection."""
        is_unlimited = self.code and self._size is None and self._chunks is None
        return self._response(bytes(self._data)) if is_unlimited else None

    def _read_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()):
            raise ValueError(f"it begins with {first[:80]!r}")
        if code.startswith("1"):
            return  # the response follows
        headers = self._headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.title()] = value.strip()
        self.code = int(code)
        connection = headers.get("Connection", "").lower()
        self.is_reusable = "close" not in connection and version != "HTTP/1.0"
        if "chunked" in headers.get("Transfer-Encoding", "").lower():
            self._chunks = []
        elif "Content-Length" in headers:
            self._size = int(headers["Content-Length"])
        elif self.code in (204, 304):
            self._size = 0

    def _read_chunks(self, chunks: list[bytes]) -> bool:
        """Move complete chunks from the data. Return whether the last one was read."""
        data, position = self._data, 0
        is_complete = False
        while not is_complete:
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                break
            size = int(data[position:line_end].partition(b";")[0], 16)
            start = line_end + 2
            if size == 0:
                # Trailers, which API servers do not send, would end with an empty line, too.
                is_complete = data[start : start + 2] == b"\r\n" or data.find(_END_OF_HEAD, start) >= 0
                break
            if len(data) < start + size + 2:
                break
            chunks.append(bytes(data[start : start + size]))
            position = start + size + 2
        del data[:position]
        return is_complete

    def _response(self, body: bytes, surplus: int = 0) -> Response:
        if surplus:
            self.is_reusable = False
        if self._headers.get("Content-Encoding") == "gzip":
            try:
                body = zlib.decompress(body, _GZIP)
            except zlib.error as error:
                raise ValueError(f"its body is not gzip: {error}") from error
        return Response(self.code, self._headers, body)
