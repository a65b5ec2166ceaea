"""Proxy in the process of a hub: one port for the hub and the servers of its users.

Each connection carries one request. The request head selects the server; after that, bytes are copied in both
directions as they arrive, so that WebSockets, large downloads and streamed responses need no special handling.
"""

import asyncio
import contextlib
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import hub_support
from jupyterhub.proxy import Proxy

MAX_HEAD_BYTES = 1 << 16
CHUNK = 1 << 16
HEAD_TIMEOUT_SECONDS = 60.0
HUB = "hub"
"""Key that marks the hub's own route in the data of a route."""


class InProcessProxy(Proxy):
    """A proxy that reaches the hub at `hub_address` and `hub_port`.

    The name of the hub's Service would resolve only when the hub is ready, and its readiness probe uses this proxy.
    """

    hub_address: str
    hub_port: int

    def __init__(self, **traits):
        super().__init__(**traits)
        self._routes = {}
        self._server = None

    # Called by the hub

    async def start(self):
        public = urlsplit(self.public_url)
        self._server = await asyncio.start_server(
            self._serve, public.hostname, public.port, limit=MAX_HEAD_BYTES
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

    # Connections

    async def _serve(self, client, to_client):
        with contextlib.closing(to_client):
            try:
                await self._forward(client, to_client)
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                return  # the client has disconnected, or sends nothing
            except (asyncio.LimitOverrunError, ValueError):
                await _respond(to_client, HTTPStatus.BAD_REQUEST, "Invalid HTTP request.")

    async def _forward(self, client, to_client):
        head = await asyncio.wait_for(client.readuntil(b"\r\n\r\n"), HEAD_TIMEOUT_SECONDS)
        line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        _, target, _ = line.split(" ")
        address = self._address(unquote(urlsplit(target).path))
        try:
            server, to_server = await asyncio.open_connection(*address)
        except OSError:
            text = (
                "This server does not respond. Try again soon, or restart it from the hub's page, /hub/home."
            )
            await _respond(to_client, HTTPStatus.SERVICE_UNAVAILABLE, text)
            return
        with contextlib.closing(to_server):
            peer = to_client.get_extra_info("peername")[0]
            to_server.write(
                "\r\n".join((line, *hub_support.forwarded_fields(fields, peer), "", "")).encode("latin-1")
            )
            await _exchange(client, to_client, server, to_server)

    def _address(self, path):
        """Return the address for a path: that of the longest matching route, or of the hub."""
        found = [spec for spec in self._routes if f"{path}/".startswith(unquote(spec))]
        if not found:
            return self.hub_address, self.hub_port
        route = self._routes[max(found, key=len)]
        if route["data"].get(HUB):
            return self.hub_address, self.hub_port
        target = urlsplit(route["target"])
        return target.hostname, target.port


async def _exchange(client, to_client, server, to_server):
    """Copy until the server ends its response. A client that closes its sending side still gets the response."""
    requesting = asyncio.create_task(_copy(client, to_server))
    try:
        await _copy(server, to_client)
    finally:
        requesting.cancel()
        await asyncio.gather(requesting, return_exceptions=True)


async def _copy(source, sink):
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


async def _respond(sink, status, text):
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError):
        sink.write(head.encode() + body)
        await sink.drain()
