"""Attacks on the proxy of a hub: forged headers, smuggled requests and misleading paths.

The proxy runs with a stand-in for the base class of JupyterHub, which is not installed in every environment.
"""

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Awaitable, Callable
from importlib import resources
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from windlass.render.companions import hub_support

SECONDS = 30.0
HUB, ANA = "the hub", "the server of ana"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
WEBSOCKET = ("Connection: keep-alive, Upgrade", "Upgrade: websocket")


class Proxy:
    """The part of jupyterhub.proxy.Proxy that the proxy uses."""

    def __init__(self, **traits: Any) -> None:
        vars(self).update(traits)

    def validate_routespec(self, spec: str) -> str:
        return spec if spec.endswith("/") else f"{spec}/"


@pytest.fixture
def hub_proxy(monkeypatch: pytest.MonkeyPatch) -> Any:
    base = ModuleType("jupyterhub.proxy")
    base.Proxy = Proxy  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jupyterhub", ModuleType("jupyterhub"))
    monkeypatch.setitem(sys.modules, "jupyterhub.proxy", base)
    monkeypatch.setitem(sys.modules, "hub_support", hub_support)
    file = resources.files("windlass.render.companions").joinpath("files", "hub_proxy.py")
    spec = importlib.util.spec_from_file_location("hub_proxy", str(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Backend:
    """A server that sends one response and records everything that it receives on its connections."""

    def __init__(self, response: bytes) -> None:
        self._response = response
        self.body = b""
        self.received = b""
        self.is_answered = False
        self.is_closed = asyncio.Event()

    async def start(self) -> int:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.received += await client.readuntil(b"\r\n\r\n")
        while len(self.received.partition(b"\r\n\r\n")[2]) < len(self.body):
            data = await client.read(1 << 16)
            if not data:
                to_client.close()
                return
            self.received += data
        self.is_answered = True
        to_client.write(self._response)
        if b"\r\nconnection: close\r\n" in self.received.lower():
            to_client.write_eof()
        while data := await client.read(1 << 16):
            self.received += data
        to_client.close()
        self.is_closed.set()

    @property
    def fields(self) -> list[str]:
        """The header fields of the first request, in lower case and sorted."""
        head, _, _ = self.received.decode().partition("\r\n\r\n")
        return sorted(line.lower() for line in head.split("\r\n")[1:])


class Place:
    """A proxy with the hub and one server of a user behind it."""

    def __init__(self, port: int, backends: dict[str, Backend]) -> None:
        self._port = port
        self.backends = backends

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, request: bytes) -> bytes:
        """Return the response to bytes after which the client sends nothing."""
        reader, writer = await self.open()
        writer.write(request)
        response = await reader.read()
        writer.close()
        return response

    def reached(self) -> list[str]:
        return [name for name, backend in self.backends.items() if backend.received]


def run(
    hub_proxy: Any, work: Callable[[Place], Awaitable[None]], response: bytes = OK, public_url: str = ""
) -> None:
    async def main() -> None:
        backends = {HUB: Backend(response), ANA: Backend(response)}
        ports = {name: await backend.start() for name, backend in backends.items()}
        proxy = hub_proxy.InProcessProxy(
            public_url="http://127.0.0.1:0", app=SimpleNamespace(public_url=public_url)
        )
        proxy.hub_address, proxy.hub_port, proxy.secret = "127.0.0.1", ports[HUB], "secret"
        await proxy.add_route("/user/ana@example.org/", f"http://127.0.0.1:{ports[ANA]}", {"user": "ana"})
        await proxy.start()
        try:
            await work(Place(proxy._server.sockets[0].getsockname()[1], backends))
        finally:
            proxy.stop()
            for backend in backends.values():
                backend.server.close()

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def request(*fields: str, line: str = "GET / HTTP/1.1") -> bytes:
    return "\r\n".join((line, "Host: hub.example", *fields, "", "")).encode("latin-1")


OWN = [
    "connection: close",
    "host: hub.example",
    "x-forwarded-for: 127.0.0.1",
    "x-forwarded-host: hub.example",
    "x-windlass-proxy: secret",
]
FORGED = {
    "address": "X-Forwarded-For: 192.0.2.1",
    "address of another kind": "X-Real-Ip: 192.0.2.1",
    "scheme": "x-forwarded-proto: https",
    "scheme of another kind": "X-Scheme: https",
    "host": "X-Forwarded-Host: evil.example",
    "port": "X-Forwarded-Port: 443",
    "standard field": "Forwarded: for=192.0.2.1;proto=https;host=evil.example",
    "connection": "Connection: X-Forwarded-For, keep-alive",
    "secret of the proxy": "X-Windlass-Proxy: guessed",
    "another protocol": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_fields_about_the_connection_of_the_client_are_replaced(hub_proxy: Any, forged: str) -> None:
    async def work(place: Place) -> None:
        assert (await place.ask(request(forged))).endswith(b"ok")
        assert place.backends[HUB].fields == sorted([*OWN, "x-forwarded-proto: http"])

    run(hub_proxy, work)


def test_scheme_is_that_of_the_configured_public_url(hub_proxy: Any) -> None:
    async def work(place: Place) -> None:
        await place.ask(request("X-Forwarded-Proto: http"))
        assert place.backends[HUB].fields == sorted([*OWN, "x-forwarded-proto: https"])

    run(hub_proxy, work, public_url="https://hub.example/")


def test_server_of_a_user_does_not_get_the_secret_of_the_proxy(hub_proxy: Any) -> None:
    async def work(place: Place) -> None:
        await place.ask(request("X-Windlass-Proxy: guessed", line="GET /user/ana@example.org/lab HTTP/1.1"))
        assert place.backends[ANA].fields == sorted([*OWN[:-1], "x-forwarded-proto: http"])

    run(hub_proxy, work)


SMUGGLED = request("X-Forwarded-For: 192.0.2.1", line="POST /hub/login HTTP/1.1")


@pytest.mark.parametrize("fields", [WEBSOCKET, ("Connection: upgrade",)], ids=["WebSocket", "upgrade"])
def test_second_request_on_a_connection_is_not_forwarded(hub_proxy: Any, fields: tuple[str, ...]) -> None:
    """A server that does not support WebSockets at a path keeps the connection open for a second request."""

    async def work(place: Place) -> None:
        reader, writer = await place.open()
        writer.write(request(*fields) + SMUGGLED)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.close()
        await place.backends[HUB].is_closed.wait()
        assert b"192.0.2.1" not in place.backends[HUB].received

    run(hub_proxy, work)


BODIES = {
    "length": (b"12345", request("Content-Length: 5", line="POST / HTTP/1.1") + b"12345" + SMUGGLED),
    "chunks": (b"2\r\nab\r\n0\r\n\r\n", request("Transfer-Encoding: chunked") + b"2\r\nab\r\n0\r\n\r\n"),
    "none": (b"", request() + SMUGGLED),
}


@pytest.mark.parametrize(("body", "sent"), BODIES.values(), ids=BODIES)
def test_body_is_forwarded_up_to_its_size(hub_proxy: Any, body: bytes, sent: bytes) -> None:
    """The response comes after the body, and the connection ends after the response."""

    async def work(place: Place) -> None:
        backend = place.backends[HUB]
        backend.body = body
        assert (await place.ask(sent)).endswith(b"ok")
        await backend.is_closed.wait()
        assert backend.received.partition(b"\r\n\r\n")[2] == body

    run(hub_proxy, work)


# Bodies without an end, and the number of connections

TO_HUB, TO_ANA = "POST /hub/login HTTP/1.1", "PUT /user/ana@example.org/api/contents/data HTTP/1.1"
MEGABYTE = b"x" * (1 << 20)
CHUNK = b"100000\r\n" + MEGABYTE + b"\r\n"


def has_received(place: Place, name: str, size: int) -> Callable[[], bool]:
    return lambda: len(place.backends[name].received) >= size


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "sent",
    [
        request("Content-Length: 1048577", line=TO_HUB),
        request("Transfer-Encoding: chunked", line=TO_HUB) + CHUNK,
    ],
    ids=["length", "chunks"],
)
def test_large_body_for_the_hub_is_rejected(hub_proxy: Any, sent: bytes) -> None:
    async def work(place: Place) -> None:
        place.backends[HUB].body = 2 * MEGABYTE
        assert (await place.ask(sent)).startswith(b"HTTP/1.1 413 ")
        assert len(place.backends[HUB].received) <= len(MEGABYTE) + 1000

    run(hub_proxy, work)


@pytest.mark.parametrize(
    ("field", "body"),
    [("Content-Length: 3145728", 3 * MEGABYTE), ("Transfer-Encoding: chunked", 3 * CHUNK + b"0\r\n\r\n")],
    ids=["length", "chunks"],
)
def test_large_body_for_a_server_of_a_user_is_forwarded(hub_proxy: Any, field: str, body: bytes) -> None:
    async def work(place: Place) -> None:
        place.backends[ANA].body = body
        assert (await place.ask(request(field, line=TO_ANA) + body + SMUGGLED)).endswith(b"ok")
        await place.backends[ANA].is_closed.wait()
        assert place.backends[ANA].received.partition(b"\r\n\r\n")[2] == body

    run(hub_proxy, work)


UNFINISHED = {
    "length": request("Content-Length: 5", line=TO_HUB) + b"1234",
    "chunk": request("Transfer-Encoding: chunked", line=TO_HUB) + b"5\r\n1234",
    "chunks": request("Transfer-Encoding: chunked", line=TO_HUB) + b"1\r\n1\r\n",
    "server of a user": request("Content-Length: 5", line=TO_ANA) + b"1234",
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_connection_with_an_unfinished_body_is_closed(
    hub_proxy: Any, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_proxy, "BODY_TIMEOUT_SECONDS", 0.2, raising=False)

    async def work(place: Place) -> None:
        for backend in place.backends.values():
            backend.body = b"1234" + bytes(100)
        assert await place.ask(sent) == b""

    run(hub_proxy, work)


def test_unfinished_bodies_for_the_hub_have_a_common_limit(
    hub_proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_proxy, "MAX_HUB_BODIES_BYTES", 1 << 20, raising=False)

    async def work(place: Place) -> None:
        place.backends[HUB].body = bytes(1 << 20)
        _, held = await place.open()
        held.write(request("Content-Length: 1000000", line=TO_HUB) + MEGABYTE[:999_999])
        await until(has_received(place, HUB, 999_999))
        small = request("Content-Length: 100000", line=TO_HUB) + MEGABYTE[:100_000]
        assert (await place.ask(small)).startswith(b"HTTP/1.1 503 ")
        held.close()

    run(hub_proxy, work)


def test_number_of_connections_is_bounded(hub_proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_proxy, "MAX_CONNECTIONS", 3, raising=False)

    async def work(place: Place) -> None:
        held = [await place.open() for _ in range(3)]
        assert (await place.ask(b"")).startswith(b"HTTP/1.1 503 ")
        for _, writer in held:
            writer.close()
        response = b""
        while not response.endswith(b"ok"):
            with contextlib.suppress(ConnectionResetError):
                response = await place.ask(request())

    run(hub_proxy, work)


def test_websocket_passes_bytes_in_both_directions(hub_proxy: Any) -> None:
    async def work(place: Place) -> None:
        reader, writer = await place.open()
        writer.write(request(*WEBSOCKET, line="GET /user/ana@example.org/socket HTTP/1.1"))
        assert await reader.readuntil(b"\r\n\r\n") == SWITCHED
        writer.write(b"from the client")
        assert await reader.readexactly(4) == b"more"
        writer.close()
        await place.backends[ANA].is_closed.wait()
        assert place.backends[ANA].received.endswith(b"\r\n\r\nfrom the client")

    run(hub_proxy, work, response=SWITCHED + b"more")


INVALID = {
    "folded field": request("X-Note: a", " X-Forwarded-For: 192.0.2.1"),
    "line feed in a field": request("X-Note: a\nX-Forwarded-For: 192.0.2.1"),
    "carriage return in a field": request("X-Note: a\rX-Forwarded-For: 192.0.2.1"),
    "space in a name": request("X-Forwarded-For : 192.0.2.1"),
    "no name": request(": 192.0.2.1"),
    "NUL": request("X-Note: \0"),
    "parent folder": request(line="GET /user/ana@example.org/../../hub/admin HTTP/1.1"),
    "encoded parent folder": request(line="GET /user/ana@example.org/%2E%2e/ben/ HTTP/1.1"),
    "host as path": request(line="GET //evil.example/ HTTP/1.1"),
    "backslash": request(line="GET /\\evil.example/ HTTP/1.1"),
    "absolute target": request(line="GET http://evil.example/ HTTP/1.1"),
    "authority": request(line="CONNECT evil.example:443 HTTP/1.1"),
    "old protocol": request(line="GET /"),
    "new protocol": request(line="GET / HTTP/2.0"),
    "two sizes": request("Content-Length: 1", "Transfer-Encoding: chunked"),
    "two lengths": request("Content-Length: 1", "Content-Length: 2"),
    "negative length": request("Content-Length: -1"),
    "unknown encoding": request("Transfer-Encoding: chunked, identity"),
    "WebSocket with a body": request(*WEBSOCKET, "Content-Length: 100"),
    "chunk without a size": request("Transfer-Encoding: chunked", line=TO_ANA) + b"\r\n",
    "chunk with an extension": request("Transfer-Encoding: chunked", line=TO_ANA) + b"0;\n\r\n\r\n",
    "chunk with a longer body": request("Transfer-Encoding: chunked", line=TO_ANA) + b"1\r\n123\r\n",
    "long head": request(f"X-Note: {'a' * (1 << 17)}"),
}


@pytest.mark.parametrize("sent", INVALID.values(), ids=INVALID)
def test_ambiguous_request_is_rejected(hub_proxy: Any, sent: bytes) -> None:
    async def work(place: Place) -> None:
        place.backends[ANA].body = b"more than the body of an invalid request"
        assert (await place.ask(sent)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert not any(backend.is_answered for backend in place.backends.values())

    run(hub_proxy, work)


ROUTES = {
    "/user/ana@example.org/lab": ANA,
    "/user/ana%40example.org/lab": ANA,
    "/user/ana@example.org": ANA,
    "/user/ana@example.org/files/a%2F..%2Fb?next=/user/ben/": ANA,
    "/user/ana@example.org2/lab": HUB,
    "/user/ana@example.org%2Flab": HUB,
    "/user%2Fana@example.org/lab": HUB,
    "/USER/ana@example.org/": HUB,
    "/?/user/ana@example.org/": HUB,
    "/hub/login?next=//evil.example": HUB,
}


@pytest.mark.parametrize(("target", "server"), ROUTES.items())
def test_server_of_a_path(hub_proxy: Any, target: str, server: str) -> None:
    async def work(place: Place) -> None:
        assert (await place.ask(request(line=f"GET {target} HTTP/1.1"))).endswith(b"ok")
        assert place.reached() == [server]

    run(hub_proxy, work)
