"""exec, attach and port-forward from a client's side: the WebSocket protocol of Kubernetes, and nothing of ours."""

import asyncio
import contextlib
import json
import struct
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from conformance.client import Access, Json

T = TypeVar("T")

PROTOCOL: Final = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
PATIENCE_SECONDS: Final = 120.0


class Executed(msgspec.Struct, frozen=True):
    stdout: bytes
    stderr: bytes
    status: Json
    """The final Status object of the server."""

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def code(self) -> int | None:
        """The exit code; None where the command was never started."""
        if self.status.get("status") == "Success":
            return 0
        causes = self.status.get("details", {}).get("causes") or ()
        codes = [int(each["message"]) for each in causes if each.get("reason") == "ExitCode"]
        return codes[0] if codes else None


class RefusedError(Exception):
    """The server did not open a stream. `code` is that of its HTTP answer."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server answered {code}")
        self.code = code


def execute(
    access: Access,
    path: str,
    command: Sequence[str] = (),
    *,
    container: str = "",
    stdin: bytes = b"",
    tty: bool = False,
    size: tuple[int, int] | None = None,
    until: bytes = b"",
) -> Executed:
    """`size` is columns and rows. With `until` the stream is left when that has been written."""
    query = [("command", word) for word in command]
    query += [("stdout", "true"), ("stderr", "false" if tty else "true"), ("tty", str(tty).lower())]
    query += [("stdin", "true")] if stdin or tty else []
    query += [("container", container)] if container else []
    return asyncio.run(_bounded(_executed(access, path, query, stdin, size, until)))


async def _executed(
    access: Access,
    path: str,
    query: list[tuple[str, str]],
    stdin: bytes,
    size: tuple[int, int] | None,
    until: bytes,
) -> Executed:
    received: dict[int, bytes] = {}
    async with _opened(access, path, query) as websocket:
        if size is not None:
            columns, rows = size
            await websocket.send_bytes(
                bytes([RESIZE]) + json.dumps({"Width": columns, "Height": rows}).encode()
            )
        for start in range(0, len(stdin), 32 * 1024):
            await websocket.send_bytes(bytes([STDIN]) + stdin[start : start + 32 * 1024])
        async for message in websocket:
            assert message.type == aiohttp.WSMsgType.BINARY, f"the connection broke: {message.data}"
            data: bytes = message.data
            received[data[0]] = received.get(data[0], b"") + data[1:]
            if until and until in received.get(STDOUT, b""):
                break
    status = received.get(ERROR, b"")
    return Executed(
        received.get(STDOUT, b""), received.get(STDERR, b""), json.loads(status) if status else {}
    )


class Forwarded(msgspec.Struct, frozen=True):
    data: bytes
    error: str


def forward(access: Access, path: str, port: int, sent: bytes) -> Forwarded:
    """Sends to that port of a pod, and returns what comes back until the pod closes or something is wrong."""
    return asyncio.run(_bounded(_forwarded(access, path, port, sent)))


async def _forwarded(access: Access, path: str, port: int, sent: bytes) -> Forwarded:
    received = {0: b"", 1: b""}
    async with _opened(access, path, [("ports", str(port))]) as websocket:
        with contextlib.suppress(aiohttp.ClientConnectionResetError):
            # If nothing listens, the server may have closed the connection before anything was sent.
            await websocket.send_bytes(b"\0" + sent)
        async for message in websocket:
            received[message.data[0]] += message.data[1:]
            if len(received[1]) > 2:
                break
    announced = struct.pack("<H", port)
    assert received[0][:2] == received[1][:2] == announced, f"each channel begins with the port: {received}"
    return Forwarded(received[0][2:], received[1][2:].decode(errors="replace"))


@contextlib.asynccontextmanager
async def _opened(
    access: Access, path: str, query: list[tuple[str, str]]
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    scheme = "https" if access.context else "http"
    url = f"{scheme}://{access.host}:{access.port}{path}?{urllib.parse.urlencode(query)}"
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    tls: dict[str, Any] = {"ssl": access.context} if access.context else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        try:
            async with session.ws_connect(url, protocols=[PROTOCOL], max_msg_size=0, **tls) as websocket:
                yield websocket
        except aiohttp.WSServerHandshakeError as error:
            raise RefusedError(error.status) from error


async def _bounded(work: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await work
