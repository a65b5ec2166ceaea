"""The way into a hub: one port, behind which are the hub and the servers of its users. It runs within the hub.

Each connection carries one request. Its head says where it goes; from then on bytes pass in both directions as they
come, so that WebSockets, downloads of any size and what is told little by little need nothing of their own.
"""

import asyncio
import contextlib
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import hub_headers
from jupyterhub.proxy import Proxy

MOST_BYTES_OF_A_HEAD = 1 << 16
CHUNK = 1 << 16
SECONDS_FOR_A_HEAD = 60.0
HUB = "hub"
"""Marks the way to the hub itself, in what it says of a way."""


class ProxyWithin(Proxy):
    """`hub_address` and `hub_port` are where this hub listens. By its own name it would find itself only when it is
    ready, which it is not before it has been asked through here."""

    hub_address: str
    hub_port: int

    def __init__(self, **traits):
        super().__init__(**traits)
        self._routes = {}
        self._server = None

    # What the hub asks for

    async def start(self):
        public = urlsplit(self.public_url)
        self._server = await asyncio.start_server(
            self._serve, public.hostname, public.port, limit=MOST_BYTES_OF_A_HEAD
        )

    def stop(self):
        self._server.close()

    async def add_route(self, routespec, target, data):
        spec = self.validate_routespec(routespec)
        self._routes[spec] = {"routespec": spec, "target": target, "data": data}

    async def delete_route(self, routespec):
        self._routes.pop(self.validate_routespec(routespec), None)

    async def get_all_routes(self):
        return dict(self._routes)

    # What others ask for

    async def _serve(self, client, to_client):
        with contextlib.closing(to_client):
            try:
                await self._pass_on(client, to_client)
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                return  # the client has gone, or says nothing
            except (asyncio.LimitOverrunError, ValueError):
                await _tell(to_client, HTTPStatus.BAD_REQUEST, "This is no request.")

    async def _pass_on(self, client, to_client):
        head = await asyncio.wait_for(client.readuntil(b"\r\n\r\n"), SECONDS_FOR_A_HEAD)
        line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        _, target, _ = line.split(" ")
        address = self._address(unquote(urlsplit(target).path))
        try:
            server, to_server = await asyncio.open_connection(*address)
        except OSError:
            words = "This server does not answer. Try again soon, or start it anew from the hub's own page, /hub/home."
            await _tell(to_client, HTTPStatus.SERVICE_UNAVAILABLE, words)
            return
        with contextlib.closing(to_server):
            peer = to_client.get_extra_info("peername")[0]
            to_server.write(
                "\r\n".join((line, *hub_headers.passed_on(fields, peer), "", "")).encode("latin-1")
            )
            await _exchange(client, to_client, server, to_server)

    def _address(self, path):
        """The longest way that leads there counts."""
        found = [spec for spec in self._routes if f"{path}/".startswith(unquote(spec))]
        if not found:
            return self.hub_address, self.hub_port
        route = self._routes[max(found, key=len)]
        if route["data"].get(HUB):
            return self.hub_address, self.hub_port
        target = urlsplit(route["target"])
        return target.hostname, target.port


async def _exchange(client, to_client, server, to_server):
    """Until the server has said all. Whoever closes its side has no more to ask, and may still be answered."""
    asking = asyncio.create_task(_copy(client, to_server))
    try:
        await _copy(server, to_client)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _copy(source, sink):
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


async def _tell(sink, status, words):
    body = f"{words}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError):
        sink.write(head.encode() + body)
        await sink.drain()
