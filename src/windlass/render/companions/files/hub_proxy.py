"""Proxy in the process of a hub: one port for the hub and the servers of its users.

Each connection carries one request. The request head selects the server; after that, bytes are copied in both
directions as they arrive, so that WebSockets, large downloads and streamed responses need no special handling.
Bytes after the body are discarded: they could be a second request, whose head was not checked. Only after the server
has accepted a WebSocket, all bytes are copied.

Clients without a password can send requests to the hub, which holds their bodies in memory. Therefore the size of such
a body and the total size of all of them are limited. Bodies for users' servers, e.g. uploads, have no maximum size.
"""

import asyncio
import contextlib
import resource
import secrets
from http import HTTPStatus
from urllib.parse import urlsplit

import hub_support
from jupyterhub.proxy import Proxy

MAX_HEAD_BYTES = 1 << 16
CHUNK = 1 << 16
HEAD_TIMEOUT_SECONDS = 60.0
BODY_TIMEOUT_SECONDS = 60.0
"""Maximum pause in a body, and maximum time for a whole body for the hub."""
DROP_SECONDS = 2.0
MAX_HUB_BODY_BYTES = 1 << 20
MAX_HUB_BODIES_BYTES = 1 << 25
"""Maximum total size of the bodies for the hub whose requests are unfinished."""
DESCRIPTORS, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
MAX_CONNECTIONS = 1000 if DESCRIPTORS == resource.RLIM_INFINITY else min(1000, DESCRIPTORS // 4)
"""A connection needs up to three descriptors: two in the proxy, one in the hub."""
END_OF_LINE, END_OF_HEAD = b"\r\n", b"\r\n\r\n"
HUB = "hub"
"""Key that marks the hub's own route in the data of a route."""


class RejectedError(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class InProcessProxy(Proxy):
    """A proxy that reaches the hub at `hub_address` and `hub_port`.

    The name of the hub's Service would resolve only when the hub is ready, and its readiness probe uses this proxy.
    """

    hub_address: str
    hub_port: int
    secret = secrets.token_urlsafe()
    """Only the hub gets it. Other processes can connect to the hub too, but cannot forge the address of a client."""

    def __init__(self, **traits):
        super().__init__(**traits)
        self._routes = {}
        self._server = None
        self._connections = {}
        """Size of the body that was sent to the hub, by connection."""

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
            if len(self._connections) >= MAX_CONNECTIONS:
                text = "The hub has too many connections. Try again soon."
                await _respond(to_client, HTTPStatus.SERVICE_UNAVAILABLE, text)
                return
            self._connections[to_client] = 0
            try:
                await self._forward(client, to_client)
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                return  # the client has disconnected, or sends nothing
            except asyncio.LimitOverrunError:
                text = f"Invalid HTTP request: its head is larger than {MAX_HEAD_BYTES} bytes."
                await _respond(to_client, HTTPStatus.BAD_REQUEST, text)
            except ValueError as error:
                await _respond(to_client, HTTPStatus.BAD_REQUEST, f"Invalid HTTP request: {error}.")
            except RejectedError as error:
                await _respond(to_client, error.status, str(error))
                await _drop(client, to_client)
            finally:
                del self._connections[to_client]

    async def _forward(self, client, to_client):
        received = await asyncio.wait_for(client.readuntil(END_OF_HEAD), HEAD_TIMEOUT_SECONDS)
        head = hub_support.parse_head(received)
        target = self._target(head.segments)
        is_hub = target is None
        if is_hub:
            self._check_hub_body(to_client, head.body_bytes or 0)
        try:
            server, to_server = await asyncio.open_connection(*(target or (self.hub_address, self.hub_port)))
        except OSError:
            text = (
                "This server does not respond. Try again soon, or restart it from the hub's page, /hub/home."
            )
            await _respond(to_client, HTTPStatus.SERVICE_UNAVAILABLE, text)
            return
        with contextlib.closing(to_server):
            peer = to_client.get_extra_info("peername")[0]
            secret = self.secret if is_hub else ""
            to_server.write(hub_support.forwarded_head(head, peer, self._scheme(), secret))
            if head.is_websocket and await _is_upgraded(server, to_client):
                sending = _copy(client, to_server)
            elif is_hub:
                sending = self._send_to_hub(client, to_client, to_server, head.body_bytes)
            else:
                sending = _send(_body(client, head.body_bytes), to_server)
            await _exchange(_until_closed(sending, client, to_server), _copy(server, to_client))

    async def _send_to_hub(self, client, to_client, to_hub, body_bytes):
        async def checked():
            async for data in _body(client, body_bytes):
                self._check_hub_body(to_client, len(data))
                self._connections[to_client] += len(data)
                yield data

        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            await _send(checked(), to_hub)

    def _check_hub_body(self, to_client, more_bytes):
        if self._connections[to_client] + more_bytes > MAX_HUB_BODY_BYTES:
            text = f"The body of a request to the hub must not be larger than {MAX_HUB_BODY_BYTES} bytes."
            raise RejectedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        if sum(self._connections.values()) + more_bytes > MAX_HUB_BODIES_BYTES:
            text = "The hub has too many unfinished requests. Try again soon."
            raise RejectedError(HTTPStatus.SERVICE_UNAVAILABLE, text)

    def _scheme(self):
        """Return the scheme of the URL that users open. Only the configuration knows whether there is TLS in front."""
        return urlsplit(self.app.public_url).scheme or "http"

    def _target(self, segments):
        """Return the address of the user's server for a path, from the longest matching route; None for the hub."""
        found = [
            spec for spec in self._routes if segments[: len(own := hub_support.path_segments(spec))] == own
        ]
        route = self._routes[max(found, key=len)] if found else None
        if route is None or route["data"].get(HUB):
            return None
        target = urlsplit(route["target"])
        return target.hostname, target.port


async def _is_upgraded(server, to_client):
    """Copy the head of the response, and return whether the server has accepted the WebSocket."""
    head = await server.readuntil(END_OF_HEAD)
    is_upgraded = head.startswith(b"HTTP/1.1 101 ")
    to_client.write(head if is_upgraded else head.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n")
    await to_client.drain()
    return is_upgraded


async def _exchange(request, response):
    """Copy in both directions until the server ends its response, or until the request fails."""
    requesting, responding = asyncio.create_task(request), asyncio.create_task(response)
    try:
        done, _ = await asyncio.wait((requesting, responding), return_when=asyncio.FIRST_COMPLETED)
        if responding not in done:
            await requesting
        await responding
    finally:
        requesting.cancel()
        responding.cancel()
        await asyncio.gather(requesting, responding, return_exceptions=True)


async def _body(client, size):
    """Yield the body of a request. Without a size, it consists of chunks, the last of which is empty."""
    if size is not None:
        async for data in _pieces(client, size):
            yield data
        return
    while size != 0:
        line = await asyncio.wait_for(client.readuntil(END_OF_LINE), BODY_TIMEOUT_SECONDS)
        size = hub_support.chunk_bytes(line)
        yield line
        async for data in _pieces(client, size):
            yield data
        end = await asyncio.wait_for(client.readexactly(len(END_OF_LINE)), BODY_TIMEOUT_SECONDS)
        if end != END_OF_LINE:
            raise ValueError("a chunk of the body is invalid")
        yield end


async def _pieces(client, size):
    while size:
        data = await asyncio.wait_for(client.read(min(size, CHUNK)), BODY_TIMEOUT_SECONDS)
        if not data:
            raise asyncio.IncompleteReadError(data, size)
        size -= len(data)
        yield data


async def _send(body, to_server):
    async for data in body:
        try:
            to_server.write(data)
            await to_server.drain()
        except OSError:
            return  # the server has responded without reading the body


async def _drop(client, to_client):
    """Discard what the client is still sending, for a short time: it may read the response only afterwards."""
    with contextlib.suppress(OSError):
        to_client.write_eof()
        await asyncio.wait_for(_until_end(client), DROP_SECONDS)


async def _until_end(client):
    while await client.read(CHUNK):
        pass


async def _until_closed(sending, client, to_server):
    """Send the request, and discard bytes after it. A client that closes its sending side still gets the response."""
    await sending
    await _until_end(client)
    with contextlib.suppress(OSError):
        to_server.write_eof()


async def _copy(source, sink):
    """Copy until the source ends."""
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
