"""One WebSocket that carries the channels of an exec, an attach or a port-forward. Not what they mean."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiohttp import WSMsgType, web

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.streams import websockets
from windlass.localcluster.apiserver.streams.websockets import Subprotocol

# As large as what Kubernetes takes in one message.
_MOST_MESSAGE_BYTES = 32 * 1024 * 1024
# How soon a client that has gone is noticed when there is nothing to tell it.
HEARTBEAT_SECONDS = 5.0


def require_upgrade(request: web.BaseRequest) -> None:
    if "upgrade" not in request.headers.get("Connection", "").lower():
        raise api_errors.bad_request("Upgrade request required")


def negotiated(request: web.BaseRequest, offered: tuple[Subprotocol, ...]) -> Subprotocol:
    """Comes after all other refusals: a client that falls back to SPDY shall hear those, not this one."""
    upgrade = request.headers.get("Upgrade", "")
    if upgrade.lower() != "websocket":
        raise api_errors.bad_request(
            f"{upgrade} is not supported: this server streams over WebSocket only, as {offered[0].name}"
        )
    lines = request.headers.getall("Sec-WebSocket-Protocol", [])
    return websockets.negotiated([name for line in lines for name in line.split(",")], offered)


class Connection:
    def __init__(self, websocket: web.WebSocketResponse, protocol: Subprotocol) -> None:
        self.websocket = websocket
        self.protocol = protocol

    async def send(self, channel: int, data: bytes) -> None:
        """Returns when there is room for more. Raises ConnectionError when the client has gone."""
        message = websockets.encode(self.protocol, channel, data)
        if isinstance(message, str):
            await self.websocket.send_str(message)
        else:
            await self.websocket.send_bytes(message)

    async def messages(self) -> AsyncIterator[websockets.Data | websockets.Closed]:
        """Until the client closes the connection or loses it."""
        async for message in self.websocket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                continue
            decoded = websockets.decode(self.protocol, message.data)
            if decoded is not None:
                yield decoded

    async def notice_absence(self) -> None:
        """Ends with a ConnectionError when the client has gone, even while nobody reads or writes."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self.websocket.ping()


async def accept(request: web.BaseRequest, protocol: Subprotocol) -> Connection:
    websocket = web.WebSocketResponse(
        protocols=(protocol.name,) if protocol.name else (), max_msg_size=_MOST_MESSAGE_BYTES, compress=False
    )
    await websocket.prepare(request)
    return Connection(websocket, protocol)


async def until_first(*tasks: asyncio.Future[Any]) -> None:
    """Wait for one of them, and leave none running. What made one fail is raised, unless it is the client's going."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await stop(tasks)
    for task in tasks:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ConnectionError):
            raise error


async def stop(tasks: Iterable[asyncio.Future[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
