"""Requests as bytes, and responses as received."""

import base64
import contextlib
import gzip
import http.client
import json
import shlex
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import msgspec

PATIENCE = 30.0
"""Seconds of silence after which the server counts as hanging."""

GLIMPSE = 1.2
"""Seconds to read a stream without a timeout."""

_LONGEST_SHOWN = 1500
_STREAMS = ("watch", "follow")

Open = Callable[[], socket.socket]
Headers = tuple[tuple[str, str], ...]


class Request(msgspec.Struct, frozen=True):
    method: str
    target: str
    """Path and query as sent."""
    headers: Headers = ()
    body: bytes = b""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(self.target.partition("?")[2]).items()}

    @property
    def may_stream(self) -> bool:
        return self.method == "GET" and any(name in self.query for name in _STREAMS)

    @property
    def encoded(self) -> bytes:
        every = [("Host", "localhost"), *self.headers]
        if self.body or self.method not in ("GET", "HEAD"):
            every.append(("Content-Length", str(len(self.body))))
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in every)]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + self.body

    @property
    def curl(self) -> str:
        """Return a shell command in which SOCKET is the unix socket of a server."""
        words = ["curl", "-isS", "--globoff", "--path-as-is", "-X", self.method]
        for name, value in self.headers:
            words += ["-H", f"{name}: {value}"]
        source = ""
        if self.body:
            is_shown = (
                len(self.body) <= _LONGEST_SHOWN and self.body.isascii() and self.body.decode().isprintable()
            )
            words += ["--data-binary", self.body.decode() if is_shown else "@-"]
            source = "" if is_shown else f"{_unpacking(self.body)} | "
        line = shlex.join([*words, f"http://localhost{self.target}"])
        return f'{source}{line} --unix-socket "$SOCKET"'


class Answer(msgspec.Struct, frozen=True):
    code: int
    headers: dict[str, str]
    """Headers by lower-case name."""
    body: bytes
    has_ended: bool = True
    """False for a stream that was left open."""

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Line:
    """A connection that is opened when needed and kept as long as the server keeps it."""

    def __init__(self, open_socket: Open, headers: Headers = ()) -> None:
        self._open = open_socket
        self._headers = headers
        self._socket: socket.socket | None = None

    def ask(self, request: Request) -> Answer:
        sent = msgspec.structs.replace(request, headers=(*self._headers, *request.headers)).encoded
        end = time.monotonic() + GLIMPSE if request.may_stream and not _ends_soon(request) else None
        is_kept = self._socket is not None
        try:
            return self.exchange(sent, request.method, end)
        except (ConnectionError, http.client.BadStatusLine):
            if not is_kept:
                raise
            # The server may close an idle connection at the moment it is used.
            return self.exchange(sent, request.method, end)

    def exchange(
        self, sent: bytes, method: str, end: float | None = None, patience: float = PATIENCE
    ) -> Answer:
        connection = self._socket or self._open()
        self._socket = None
        try:
            connection.settimeout(patience)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # A body that is too large is rejected before it is read completely.
                connection.sendall(sent)
            answer, is_open = _read(connection, method, end)
        except BaseException:
            connection.close()
            raise
        if is_open:
            self._socket = connection
        else:
            connection.close()
        return answer

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@contextlib.contextmanager
def connected(open_socket: Open, headers: Headers = ()) -> Iterator[Line]:
    line = Line(open_socket, headers)
    try:
        yield line
    finally:
        line.close()


def over_socket(path: str) -> Open:
    def open_socket() -> socket.socket:
        opened = socket.socket(socket.AF_UNIX)
        opened.settimeout(PATIENCE)
        opened.connect(path)
        return opened

    return open_socket


def over_tls(url: str, context: ssl.SSLContext) -> Open:
    address = urlsplit(url)

    def open_socket() -> socket.socket:
        opened = socket.create_connection((address.hostname, address.port), PATIENCE)
        return context.wrap_socket(opened, server_hostname=address.hostname)

    return open_socket


def raw_line(sent: bytes) -> str:
    """Return a shell command that sends these bytes."""
    return f'{_unpacking(sent)} | nc -N -U "$SOCKET"'


def json_body(value: object) -> bytes:
    return json.dumps(value).encode()


def _read(connection: socket.socket, method: str, end: float | None) -> tuple[Answer, bool]:
    with http.client.HTTPResponse(connection, method=method) as response:
        response.begin()
        has_ended, content = (True, response.read()) if end is None else _glimpse(connection, response, end)
        headers = {name.lower(): value for name, value in response.getheaders()}
        is_open = has_ended and not response.will_close
        return Answer(response.status, headers, content, has_ended), is_open


def _glimpse(connection: socket.socket, response: http.client.HTTPResponse, end: float) -> tuple[bool, bytes]:
    parts: list[bytes] = []
    while (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            part = response.read1()
        except TimeoutError:
            break
        if not part:
            return True, b"".join(parts)
        parts.append(part)
    # The last part may be an incomplete line.
    return False, b"".join(parts).rpartition(b"\n")[0]


def _ends_soon(request: Request) -> bool:
    return request.query.get("timeoutSeconds") in ("1", "2")


def _unpacking(content: bytes) -> str:
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
    return f"echo {packed} | base64 -d | gunzip"
