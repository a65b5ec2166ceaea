"""WebSocket connections of exec, attach and port-forward, which carry several channels.

The first byte of a message is its channel. The subprotocols differ in whether messages are bytes or base64 text, in how
the end of a process is reported, and in whether a client can close stdin.
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
# Each port has two channels. Channel 255 is reserved: its messages close other channels.
MAX_PORTS = _CLOSE // 2
# The limit of Kubernetes for one message.
_MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# The interval of the checks that detect disconnected clients.
HEARTBEAT_SECONDS = 5.0


class Subprotocol(msgspec.Struct, frozen=True):
    name: str
    is_base64: bool = False
    # Whether the end of a process is reported as a Status. Otherwise only a failure is reported, as text.
    sends_status: bool = True
    closes_channels: bool = False


class Data(msgspec.Struct, frozen=True):
    channel: int
    data: bytes


class Closed(msgspec.Struct, frozen=True):
    """The client has closed a channel."""

    channel: int


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """The size of a terminal in characters."""

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


def choose_subprotocol(requested: Iterable[str], supported: tuple[Subprotocol, ...]) -> Subprotocol:
    """Return the first requested subprotocol that is supported; the unnamed one if none is requested."""
    by_name = {each.name: each for each in supported}
    names = [name.strip() for name in requested] or [""]
    for name in names:
        if name in by_name:
            return by_name[name]
    supported_names = " ".join(name for name in by_name if name)
    raise api_errors.bad_request(
        f"requested protocol(s) are not supported: [{' '.join(names)}]; supports [{supported_names}]"
    )


def encode(protocol: Subprotocol, channel: int, data: bytes) -> bytes | str:
    """Return a message: text for the base64 subprotocols, bytes for the others."""
    if protocol.is_base64:
        return chr(ord("0") + channel) + base64.b64encode(data).decode()
    return bytes((channel,)) + data


def decode(protocol: Subprotocol, message: bytes | str) -> Data | Closed | None:
    """Decode a message. Returns None for an invalid one, which is ignored as in Kubernetes."""
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


def parse_size(data: bytes) -> Size | None:
    try:
        return msgspec.json.decode(data, type=Size)
    except msgspec.MsgspecError:
        return None


def exit_status(protocol: Subprotocol, code: int) -> bytes | None:
    """Return the message on the error channel after a process has ended, or None if nothing is sent."""
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
    """Return the message on the error channel if the process could not be started or attached to."""
    error = api_errors.internal(message)
    return msgspec.json.encode(error.status()) if protocol.sends_status else error.message.encode()


def port_announcement(port: int) -> bytes:
    """Return the first message on both channels of a forwarded port."""
    return struct.pack("<H", port)


def require_upgrade(request: web.BaseRequest) -> None:
    if "upgrade" not in request.headers.get("Connection", "").lower():
        raise api_errors.bad_request("Upgrade request required")


def negotiate(request: web.BaseRequest, supported: tuple[Subprotocol, ...]) -> Subprotocol:
    """Return the subprotocol. Callers check the pod first.

    A client retries a failed upgrade with SPDY, and would then report the error raised here instead of an error about
    the pod.
    """
    upgrade = request.headers.get("Upgrade", "")
    if upgrade.lower() != "websocket":
        raise api_errors.bad_request(
            f"{upgrade} is not supported: this server streams over WebSocket only, e.g. with {supported[0].name}"
        )
    lines = request.headers.getall("Sec-WebSocket-Protocol", [])
    return choose_subprotocol([name for line in lines for name in line.split(",")], supported)


class Connection:
    def __init__(self, websocket: web.WebSocketResponse, protocol: Subprotocol) -> None:
        self.websocket = websocket
        self.protocol = protocol

    async def send(self, channel: int, data: bytes) -> None:
        """Send a message. Wait while the buffer is full. Raises ConnectionError if the client has disconnected."""
        message = encode(self.protocol, channel, data)
        if isinstance(message, str):
            await self.websocket.send_str(message)
        else:
            await self.websocket.send_bytes(message)

    async def messages(self) -> AsyncIterator[Data | Closed]:
        """Yield messages until the connection is closed."""
        async for message in self.websocket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                continue
            decoded = decode(self.protocol, message.data)
            if decoded is not None:
                yield decoded

    async def ping_until_disconnected(self) -> None:
        """Send pings until the client has disconnected, then raise ConnectionError."""
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
    """Wait until one task ends, cancel the others, and raise the error of a task unless it is a ConnectionError."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(tasks)
    for task in tasks:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ConnectionError):
            raise error


async def cancel_and_wait(tasks: Iterable[asyncio.Future[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
