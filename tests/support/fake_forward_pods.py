"""Pods that do not run, test servers that answer for them, and forwarded ports."""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from fake_companions import PodPorts
from in_process_cluster import ClusterNamespace

from windlass.client import connection as connections
from windlass.client.connection import Connection
from windlass.client.port_forward import Forward
from windlass.kubeapi import access
from windlass.kubeapi.transport import Transport

PORT = 6006
LABELS = {"windlass.dev/job": "digits", "windlass.dev/companion": "tensorboard"}
SELECTOR = "windlass.dev/job=digits,windlass.dev/companion=tensorboard"
SECONDS = 240
POD_PORTS = PodPorts()


class Scene:
    def __init__(self, place: ClusterNamespace) -> None:
        self.place = place
        self.notes: list[str] = []

    def pod(self, name: str, port: int = 0, *, is_ready: bool = True, phase: str = "Running") -> None:
        """Create a running pod; connections to its port go to this port of the machine."""
        POD_PORTS.of[name] = port
        spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "i"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": LABELS}, "spec": spec}
        self.place.client.post(self.place.path("pods"), body).expect(201)
        ready = {"type": "Ready", "status": "True" if is_ready else "False"}
        status = {"status": {"phase": phase, "conditions": [ready]}}
        self.place.client.patch(self.place.path("pods", name, "status"), status).expect(200)

    def delete(self, name: str) -> None:
        now = {"gracePeriodSeconds": 0}
        self.place.client.delete(self.place.path("pods", name), now).expect(200)

    @contextlib.asynccontextmanager
    async def forward(self, *, by_socket: bool = False, **options: Any) -> AsyncIterator[Forward]:
        async with self.connected(by_socket=by_socket) as connection:
            given = {"port": 0, "note": self.notes.append, **options}
            async with Forward(connection, SELECTOR, PORT, **given) as forward:
                yield forward

    @contextlib.asynccontextmanager
    async def connected(self, *, by_socket: bool = False) -> AsyncIterator[Connection]:
        if by_socket:
            async with Transport(access.unix(self.place.kubeconfig.parent / "api")) as transport:
                yield Connection(transport, self.place.name)
            return
        async with connections.connected(str(self.place.kubeconfig), "", self.place.name) as found:
            yield found


def played(play: Callable[[], Awaitable[None]]) -> None:
    """Run a test and check that it leaves no task and no connection open."""

    async def whole() -> None:
        before = set(asyncio.all_tasks())
        opened = _sockets()
        async with asyncio.timeout(SECONDS):
            await play()
            while set(asyncio.all_tasks()) != before or _sockets() > opened:
                await asyncio.sleep(0.01)

    asyncio.run(whole())


def _sockets() -> int:
    """Return the sockets of this process, except those to the API server."""
    return sum(_is_socket(each) for each in Path("/proc/self/fd").iterdir())


def _is_socket(descriptor: Path) -> bool:
    with contextlib.suppress(OSError):
        return str(descriptor.readlink()).startswith("socket:")
    return False


@contextlib.asynccontextmanager
async def listening(serve: Callable[[StreamReader, StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    async def served(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await serve(reader, writer)
        writer.close()

    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def web_server(name: str = "") -> AsyncIterator[int]:
    """Run a web server that echoes, tells its name, and supports WebSocket."""

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(body=await request.read())

    async def who(request: web.Request) -> web.StreamResponse:
        return web.Response(text=name)

    async def talk(request: web.Request) -> web.StreamResponse:
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        async for message in answer:
            await answer.send_str(f"you said {message.data}")
        return answer

    app = web.Application(client_max_size=2**30)
    app.add_routes([web.post("/echo", echo), web.get("/who", who), web.get("/talk", talk)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
