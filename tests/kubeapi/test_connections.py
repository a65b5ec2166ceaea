"""Connections read the responses of all servers, and are used again only if that is safe."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.kubeapi.scripted import run

from windlass.kubeapi import connections
from windlass.kubeapi.connections import BrokenResponseError, CannotConnectError, Connections, Response

NO_TLS = (None, "")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"


class Server:
    """Answers each request with the next of `answers`, in pieces. It closes a connection after an empty piece."""

    def __init__(self, *answers: list[bytes]) -> None:
        self._answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    (
                        int(line.partition(b":")[2])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                self.requests.append(head + await reader.readexactly(size))
                for piece in self._answers.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.005)
                    if not piece:
                        return
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Connections]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/base"
    connections = Connections(server.url)
    try:
        yield connections
    finally:
        await connections.close()
        listening.close()


async def get(connections: Connections, method: str = "GET", body: bytes = b"") -> Response:
    return await connections.send(method, "/a?b=c", [("Accept", "*/*")], body, NO_TLS)


def answers(server: Server, act: Callable[[Connections], Awaitable[object]]) -> object:
    async def play() -> object:
        async with connected(server) as connections:
            return await act(connections)

    return run(play())


@pytest.mark.parametrize(
    ("pieces", "code", "body"),
    [
        ([OK], 200, b"{}"),
        ([bytes((byte,)) for byte in OK], 200, b"{}"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b""),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], 200, b"{}"),
        (
            [
                b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
                b"2;x=y\r\nde\r\n0\r\n\r\n",
            ],
            201,
            b"abcde",
        ),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", b"c\r\n0\r\nA: b\r\n\r\n"],
            200,
            b"abc",
        ),
        ([b"HTTP/1.0 200 OK\r\n\r\nto the end", b""], 200, b"to the end"),
        (
            [
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
                % len(gzip.compress(b"text")),
                gzip.compress(b"text"),
            ],
            200,
            b"text",
        ),
    ],
)
def test_response_is_read(pieces: list[bytes], code: int, body: bytes) -> None:
    found = answers(Server(pieces), get)
    assert isinstance(found, Response)
    assert (found.code, found.body) == (code, body)


def test_names_of_headers_have_their_usual_case() -> None:
    found = answers(Server([b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n"]), get)
    assert isinstance(found, Response)
    assert (found.code, found.headers["Retry-After"]) == (429, "7")


def test_request_has_path_headers_and_body() -> None:
    server = Server([OK])
    answers(server, lambda connections: get(connections, "POST", b"{}"))
    host = server.url.removeprefix("http://").removesuffix("/base")
    expected = f"POST /base/a?b=c HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nContent-Length: 2\r\n\r\n{{}}"
    assert server.requests == [expected.encode()]


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([CUT, b""], 200),
        ([b""], 0),
        ([b"SSH-2.0\r\n\r\n"], 0),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"], 200),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n"], 200),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"], 200),
        ([b"HTTP/1.1 200 OK\r\nA: " + b"a" * connections.MAX_HEAD_BYTES], 0),
    ],
)
def test_malformed_or_incomplete_response_is_an_error(pieces: list[bytes], code: int) -> None:
    async def send(connections: Connections) -> None:
        with pytest.raises(BrokenResponseError) as raised:
            await get(connections, "POST", b"{}")
        assert raised.value.code == code
        assert (await get(connections)).body == b"{}"

    server = Server(pieces, [OK])
    answers(server, send)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("first", "opened"),
    [
        ([OK], 1),
        ([OK, b""], 2),
        ([OK + b"more"], 2),
        ([OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)], 2),
        ([OK.replace(b"HTTP/1.1", b"HTTP/1.0")], 2),
    ],
    ids=["open", "closed by the server", "surplus data", "connection close", "HTTP/1.0"],
)
def test_connection_is_used_again_unless_it_is_unusable(first: list[bytes], opened: int) -> None:
    async def send(connections: Connections) -> None:
        for method in ("GET", "POST"):
            assert (await get(connections, method)).body == b"{}"
            await asyncio.sleep(0.05)  # the end of the connection arrives after the response

    server = Server(first, [OK])
    answers(server, send)
    assert server.connections == opened


@pytest.mark.parametrize(("method", "is_repeated"), [("GET", True), ("DELETE", True), ("POST", False)])
def test_request_on_a_closed_connection_is_repeated_if_it_is_idempotent(
    method: str, is_repeated: bool
) -> None:
    async def send(connections: Connections) -> None:
        await get(connections)
        if is_repeated:
            assert (await get(connections, method)).body == b"{}"
        else:
            with pytest.raises(BrokenResponseError, match="the connection was closed"):
                await get(connections, method)

    server = Server([OK], [b""], [OK])
    answers(server, send)
    assert len(server.requests) == (3 if is_repeated else 2)


def test_cancelled_request_closes_its_connection() -> None:
    async def send(connections: Connections) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await get(connections)
        assert (await get(connections)).body == b"{}"

    server = Server([], [OK])
    answers(server, send)
    assert server.connections == 2


def test_other_credentials_get_another_connection() -> None:
    async def send(connections: Connections) -> None:
        await get(connections)
        await connections.send("GET", "/a", [], b"", (None, "other"))

    server = Server([OK], [OK])
    answers(server, send)
    assert server.connections == 2


def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.05)

    async def send(connections: Connections) -> None:
        await get(connections)
        await asyncio.sleep(0.3)
        await get(connections)

    server = Server([OK], [OK])
    answers(server, send)
    assert server.connections == 2


def test_line_ends_in_headers_are_rejected() -> None:
    async def send(connections: Connections) -> None:
        with pytest.raises(ValueError, match="line end"):
            await connections.send("GET", "/", [("Authorization", "Bearer a\r\nHost: b")], b"", NO_TLS)
        with pytest.raises(ValueError, match="line end"):
            await connections.send("GET", "/a b", [], b"", NO_TLS)

    server = Server()
    answers(server, send)
    assert not server.requests


def test_missing_server_is_named() -> None:
    async def send() -> None:
        connections = Connections("http://127.0.0.1:1")
        with pytest.raises(CannotConnectError, match=r"127\.0\.0\.1:1") as raised:
            await get(connections)
        assert isinstance(raised.value.cause, ConnectionRefusedError)

    run(send())
