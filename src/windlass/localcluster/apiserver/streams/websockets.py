"""How several streams share one WebSocket in exec, attach and port-forward. Pure: messages in, values out.

Each message begins with a byte that says which channel it belongs to. The subprotocols differ in whether messages are
bytes or base64 text, in how the end of a process is told, and in whether a client can close its stdin.
"""

import asyncio
import base64
import binascii
import struct
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from windlass.k8s import api_errors

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255
# Each port has two channels, and channel 255 closes one.
MAX_PORTS = _CLOSE // 2
# As large as what Kubernetes takes in one message.
_MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# How soon a client that has gone is noticed when there is nothing to tell it.
HEARTBEAT_SECONDS = 5.0


class Subprotocol(msgspec.Struct, frozen=True):
    name: str
    is_base64: bool = False
    # Is the end of a process told as a Status with its exit code, or as a text when it failed?
    sends_status: bool = True
    closes_channels: bool = False


class Data(msgspec.Struct, frozen=True):
    channel: int
    data: bytes


class Closed(msgspec.Struct, frozen=True):
    """No more will come on this channel."""

    channel: int


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """Of a terminal, in characters."""

    width: int
    height: int


REMOTE_COMMAND = (
    Subprotocol("v5.channel.k8s.io", closes_channels=True),
    Subprotocol("v4.channel.k8s.io"),
    Subprotocol("v3.channel.k8s.io", sends_status=False),
    Subprotocol("v2.channel.k8s.io", sends_status=False),
    Subprotocol("channel.k8s.io", sends_status=False),
    Subprotocol("v4.base64.channel.k8s.io", is_base64=True),
    Subprotocol("base64.channel.k8s.io", is_base64=True, sends_status=False),
    Subprotocol("", sends_status=False),
)
PORT_FORWARD = (
    Subprotocol("v4.channel.k8s.io"),
    Subprotocol("v4.base64.channel.k8s.io", is_base64=True),
    Subprotocol(""),
)


def choose_subprotocol(asked: Iterable[str], offered: tuple[Subprotocol, ...]) -> Subprotocol:
    """The first that the client asked for of those that there are; one that asks for none gets the oldest."""
    by_name = {each.name: each for each in offered}
    names = [name.strip() for name in asked] or [""]
    for name in names:
        if name in by_name:
            return by_name[name]
    known = " ".join(name for name in by_name if name)
    raise api_errors.bad_request(
        f"requested protocol(s) are not supported: [{' '.join(names)}]; supports [{known}]"
    )


def encode(protocol: Subprotocol, channel: int, data: bytes) -> bytes | str:
    """A message: text for the base64 subprotocols, bytes for the others."""
    if protocol.is_base64:
        return chr(ord("0") + channel) + base64.b64encode(data).decode()
    return bytes((channel,)) + data


def decode(protocol: Subprotocol, message: bytes | str) -> Data | Closed | None:
    """None for what means nothing: it is passed over, as Kubernetes does."""
    raw = message.encode() if isinstance(message, str) else message
    if not raw:
        return None
    channel, data = raw[0], raw[1:]
    if channel == _CLOSE and protocol.closes_channels:
        return Closed(data[0]) if data else None
    if not protocol.is_base64:
        return Data(channel, data)
    try:
        return Data(channel - ord("0"), base64.b64decode(data, validate=True))
    except binascii.Error:
        return None


def size(data: bytes) -> Size | None:
    try:
        return msgspec.json.decode(data, type=Size)
    except msgspec.MsgspecError:
        return None


def exit_status(protocol: Subprotocol, code: int) -> bytes | None:
    """What the error channel says when a process has ended; None: nothing."""
    if code == 0:
        return msgspec.json.encode({"metadata": {}, "status": "Success"}) if protocol.sends_status else None
    message = f"command terminated with non-zero exit code: exit status {code}"
    if not protocol.sends_status:
        return message.encode()
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return msgspec.json.encode(
        {
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": "NonZeroExitCode",
            "details": {"causes": causes},
        }
    )


def failure_status(protocol: Subprotocol, message: str) -> bytes:
    """What the error channel says when no process could be had."""
    error = api_errors.internal(message)
    return msgspec.json.encode(error.status()) if protocol.sends_status else error.message.encode()


def port_announcement(port: int) -> bytes:
    """What comes first on both channels of a forwarded port."""
    return struct.pack("<H", port)


def require_upgrade(request: web.BaseRequest) -> None:
    if "upgrade" not in request.headers.get("Connection", "").lower():
        raise api_errors.bad_request("Upgrade request required")


def negotiate(request: web.BaseRequest, offered: tuple[Subprotocol, ...]) -> Subprotocol:
    """Comes after all other refusals: a client that falls back to SPDY shall hear those, not this one."""
    upgrade = request.headers.get("Upgrade", "")
    if upgrade.lower() != "websocket":
        raise api_errors.bad_request(
            f"{upgrade} is not supported: this server streams over WebSocket only, as {offered[0].name}"
        )
    lines = request.headers.getall("Sec-WebSocket-Protocol", [])
    return choose_subprotocol([name for line in lines for name in line.split(",")], offered)


class Connection:
    def __init__(self, websocket: web.WebSocketResponse, protocol: Subprotocol) -> None:
        self.websocket = websocket
        self.protocol = protocol

    async def send(self, channel: int, data: bytes) -> None:
        """Returns when there is room for more. Raises ConnectionError when the client has gone."""
        message = encode(self.protocol, channel, data)
        if isinstance(message, str):
            await self.websocket.send_str(message)
        else:
            await self.websocket.send_bytes(message)

    async def messages(self) -> AsyncIterator[Data | Closed]:
        """Until the client closes the connection or loses it."""
        async for message in self.websocket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                continue
            decoded = decode(self.protocol, message.data)
            if decoded is not None:
                yield decoded

    async def ping_until_disconnected(self) -> None:
        """Ends with a ConnectionError when the client has gone, even while nobody reads or writes."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self.websocket.ping()


async def accept(request: web.BaseRequest, protocol: Subprotocol) -> Connection:
    websocket = web.WebSocketResponse(
        protocols=(protocol.name,) if protocol.name else (), max_msg_size=_MAX_MESSAGE_BYTES, compress=False
    )
    await websocket.prepare(request)
    return Connection(websocket, protocol)


async def wait_first_and_cancel(*tasks: asyncio.Future[Any]) -> None:
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
