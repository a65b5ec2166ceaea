"""Ports of this machine that lead to pods, through the API server. Nothing runs the pods: servers of the test answer
in their place."""

import asyncio
import contextlib
import hashlib
import os
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import hollow_world
import pytest
from aiohttp import web
from companion_scenes import PodPorts
from hollow_world import HollowPlace, HollowWorld

from windlass.client import connection as connections
from windlass.client import forwarding
from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.client.forwarding import Forward
from windlass.kubeapi import access
from windlass.kubeapi.transport import Transport

PORT = 6006
LABELS = {"windlass.dev/job": "digits", "windlass.dev/companion": "tensorboard"}
SELECTOR = "windlass.dev/job=digits,windlass.dev/companion=tensorboard"
LARGE = 4 * 2**20
SECONDS = 240


POD_PORTS = PodPorts()


@pytest.fixture(scope="module")
def world() -> Iterator[HollowWorld]:
    with hollow_world.opened(is_installed=False, logs=POD_PORTS) as opened:
        yield opened


class Scene:
    def __init__(self, place: HollowPlace) -> None:
        self.place = place
        self.notes: list[str] = []

    def pod(self, name: str, port: int = 0, *, is_ready: bool = True, phase: str = "Running") -> None:
        """One that says that it runs; whoever asks for its port is led to that one of this machine."""
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


@pytest.fixture
def scene(place: HollowPlace) -> Scene:
    return Scene(place)


@pytest.fixture
def place(world: HollowWorld) -> HollowPlace:
    return world.new_place()


def played(play: Callable[[], Awaitable[None]]) -> None:
    """And it leaves no task, and no connection open."""

    async def whole() -> None:
        before = set(asyncio.all_tasks())
        opened = _sockets()
        async with asyncio.timeout(SECONDS):
            await play()
            while set(asyncio.all_tasks()) != before or _sockets() > opened:
                await asyncio.sleep(0.01)

    asyncio.run(whole())


def _sockets() -> int:
    """Those of this process, but for the ones that the API server has for us."""
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
    """Gives back what it is sent, says who it is, and speaks WebSocket."""

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


@pytest.mark.parametrize("by_socket", [False, True], ids=["https", "unix"])
def test_many_connections_and_large_bodies_both_ways(scene: Scene, by_socket: bool) -> None:
    bodies = [os.urandom(LARGE // 16) for _ in range(16)] + [os.urandom(LARGE), b"", b"\n"]

    async def send(url: str, body: bytes) -> None:
        async with aiohttp.ClientSession() as session, session.post(f"{url}echo", data=body) as answer:
            found = await answer.read()
        assert hashlib.sha256(found).digest() == hashlib.sha256(body).digest()

    async def play() -> None:
        async with web_server() as port:
            scene.pod("p", port)
            async with scene.forward(by_socket=by_socket) as forward:
                await asyncio.gather(*(send(forward.url, body) for body in bodies))
        assert scene.notes == []

    played(play)


def test_a_websocket_within_it(scene: Scene) -> None:
    async def play() -> None:
        async with web_server() as port:
            scene.pod("p", port)
            async with (
                scene.forward() as forward,
                aiohttp.ClientSession() as session,
                session.ws_connect(f"{forward.url}talk") as talk,
            ):
                for word in ("hello", "again"):
                    await talk.send_str(word)
                    assert await talk.receive_str() == f"you said {word}"

    played(play)


async def who(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}who") as answer:
        return await answer.text()


def test_a_pod_that_was_replaced(scene: Scene) -> None:
    async def play() -> None:
        async with web_server("one") as first, web_server("two") as second:
            await asyncio.to_thread(scene.pod, "one", first)
            async with scene.forward() as forward:
                assert await who(forward.url) == "one"
                await asyncio.to_thread(scene.delete, "one")
                with pytest.raises(aiohttp.ClientError):
                    await who(forward.url)
                await asyncio.to_thread(scene.pod, "two", second)
                assert await who(forward.url) == "two"

    played(play)
    assert scene.notes == ["there is no pod that runs: a connection was closed"]


def test_of_several_pods_the_one_that_answers(scene: Scene) -> None:
    async def play() -> None:
        async with web_server("old") as old, web_server("new") as new:
            scene.pod("old", old)
            scene.pod("new", new, is_ready=False)
            scene.pod("over", new, phase="Failed")
            async with scene.forward() as forward:
                assert await who(forward.url) == "old"

    played(play)


def test_a_port_on_which_nobody_listens(scene: Scene) -> None:
    """Told once, however often somebody tries."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        nobody = one.getsockname()[1]

    async def play() -> None:
        scene.pod("p", nobody)
        async with scene.forward() as forward:
            for _ in range(3):
                with pytest.raises(aiohttp.ClientError):
                    await who(forward.url)

    played(play)
    (note,) = scene.notes
    assert note.startswith("error forwarding port 6006 to pod p")


# Who says goodbye, and how


def test_who_has_said_all_still_hears_the_answer(scene: Scene) -> None:
    """The pod is not told that the input has ended: there is no way to say so."""

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        line = await reader.readline()
        writer.write(b"you said " + line)
        await writer.drain()

    async def play() -> None:
        async with listening(answer) as port:
            scene.pod("p", port)
            async with scene.forward() as forward:
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
                writer.write(b"hello\n")
                writer.write_eof()
                assert await reader.read() == b"you said hello\n"
                writer.close()

    played(play)


def test_who_is_gone_is_not_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "LINGER_SECONDS", 0.05)
    gone = asyncio.Event()

    async def wait(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"x")
        await reader.read()
        gone.set()

    async def play() -> None:
        async with listening(wait) as port:
            scene.pod("p", port)
            async with scene.forward() as forward:
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
                assert await reader.read(1) == b"x"
                writer.close()
                await gone.wait()

    played(play)


def test_a_pod_that_answers_before_it_has_heard_all(scene: Scene) -> None:
    """As one that refuses an upload."""

    async def refuse(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"too much" * 1000)
        await writer.drain()

    async def play() -> None:
        async with listening(refuse) as port:
            scene.pod("p", port)
            async with scene.forward() as forward:
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
                writer.write(b"x")
                assert await reader.read() == b"too much" * 1000
                writer.close()

    played(play)


def test_an_answer_that_is_cut_is_no_answer(scene: Scene) -> None:
    """Nobody takes what has come for the whole."""

    async def play() -> None:
        async def half(reader: StreamReader, writer: StreamWriter) -> None:
            writer.write(b"half")
            await writer.drain()
            await reader.read()

        async with listening(half) as port:
            scene.pod("p", port)
            async with (
                scene.connected() as connection,
                Forward(connection, SELECTOR, PORT, port=0) as forward,
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
                assert await reader.readexactly(4) == b"half"
                await connection.transport.close()
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                writer.close()

    played(play)


def test_one_that_does_not_read_holds_the_other_up(scene: Scene) -> None:
    """And what lies on the way is bounded."""
    sent = 0

    async def pour(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(bytes(2**16))
            await writer.drain()
            sent += 2**16

    async def play() -> None:
        async with listening(pour) as port:
            scene.pod("p", port)
            async with scene.forward() as forward:
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
                await reader.readexactly(1)
                before = -1
                while sent != before:
                    before = sent
                    await asyncio.sleep(0.5)
                assert sent < 64 * 2**20
                writer.close()

    played(play)


def test_connections_that_are_open_when_it_ends(scene: Scene) -> None:
    async def hold(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"x")
        await reader.read()

    async def play() -> None:
        async with listening(hold) as port:
            scene.pod("p", port)
            async with scene.forward() as forward:
                held = [await asyncio.open_connection("127.0.0.1", forward.port) for _ in range(10)]
                for reader, _ in held:
                    assert await reader.read(1) == b"x"
            for reader, writer in held:
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", forward.port)

    played(play)


# Where it listens


def test_a_port_that_is_taken(scene: Scene) -> None:
    async def play() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            wanted = taken.getsockname()[1]
            async with scene.forward(port=wanted) as forward:
                assert wanted < forward.port <= wanted + forwarding.FURTHER_PORTS
                assert forward.url == f"http://127.0.0.1:{forward.port}/"
                assert scene.notes == [f"port {wanted} is taken: {forward.port} is used"]

    played(play)


def test_no_port_at_all(scene: Scene) -> None:
    async def play() -> None:
        with contextlib.ExitStack() as taken:
            with contextlib.suppress(OSError):
                taken.enter_context(socket.create_server(("127.0.0.1", forwarding.LAST_PORT)))
            with pytest.raises(ClientError, match=r"port 65535 and those after it are taken: .* --port"):
                async with scene.forward(port=forwarding.LAST_PORT):
                    pass

    played(play)


@pytest.mark.parametrize(
    ("address", "words"),
    {
        "203.0.113.7": "203.0.113.7 is no address of this machine: choose another one with --address",
        "no such host": "no such host cannot be listened on: .*--address",
    }.items(),
)
def test_what_is_no_address_of_this_machine(scene: Scene, address: str, words: str) -> None:
    async def play() -> None:
        with pytest.raises(ClientError, match=words):
            async with scene.forward(address=address):
                pass

    played(play)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104
        ("127.0.0.2", "127.0.0.2"),
        ("::1", "[::1]"),
    ],
)
def test_other_addresses(scene: Scene, address: str, host: str) -> None:
    async def play() -> None:
        async with web_server("me") as port:
            scene.pod("p", port)
            async with scene.forward(address=address) as forward:
                assert forward.url == f"http://{host}:{forward.port}/"
                assert await who(forward.url) == "me"

    played(play)
