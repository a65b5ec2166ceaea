"""Port forwarding through the API server. No kubelet runs the pods: servers of the test respond in their place."""

import asyncio
import contextlib
import hashlib
import os
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator

import aiohttp
import in_process_cluster
import pytest
from fake_forward_pods import POD_PORTS, PORT, SELECTOR, Scene, listening, played, web_server
from in_process_cluster import ClusterNamespace, InProcessCluster

from windlass.client import port_forward
from windlass.client.errors import ClientError
from windlass.client.port_forward import Forward

LARGE = 4 * 2**20


@pytest.fixture(scope="module")
def world() -> Iterator[InProcessCluster]:
    with in_process_cluster.opened(is_installed=False, logs=POD_PORTS) as opened:
        yield opened


@pytest.fixture
def scene(place: ClusterNamespace) -> Scene:
    return Scene(place)


@pytest.fixture
def place(world: InProcessCluster) -> ClusterNamespace:
    return world.new_place()


@pytest.mark.parametrize("by_socket", [False, True], ids=["https", "unix"])
def test_many_connections_with_large_bodies(scene: Scene, by_socket: bool) -> None:
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


def test_websocket_can_be_forwarded(scene: Scene) -> None:
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


def test_new_connections_use_the_replaced_pod(scene: Scene) -> None:
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
    assert scene.notes == ["no pod is running: closed a connection"]


def test_ready_pod_is_chosen(scene: Scene) -> None:
    async def play() -> None:
        async with web_server("old") as old, web_server("new") as new:
            scene.pod("old", old)
            scene.pod("new", new, is_ready=False)
            scene.pod("over", new, phase="Failed")
            async with scene.forward() as forward:
                assert await who(forward.url) == "old"

    played(play)


def test_refused_connection_is_reported_once(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        closed_port = one.getsockname()[1]

    async def play() -> None:
        scene.pod("p", closed_port)
        async with scene.forward() as forward:
            for _ in range(3):
                with pytest.raises(aiohttp.ClientError):
                    await who(forward.url)

    played(play)
    (note,) = scene.notes
    assert note.startswith("error forwarding port 6006 to pod p")


# Closing connections


def test_half_closed_client_receives_the_response(scene: Scene) -> None:
    """The protocol has no half-close, so the pod does not notice the end of the input."""

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


def test_closed_client_is_not_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "LINGER_SECONDS", 0.05)
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


def test_early_response_is_delivered(scene: Scene) -> None:
    """E.g. from a server that rejects an upload."""

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


def test_truncated_response_resets_the_connection(scene: Scene) -> None:
    """The client must not take a partial response for a complete one."""

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


def test_slow_reader_causes_backpressure(scene: Scene) -> None:
    """The amount of buffered data is limited."""
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


def test_open_connections_are_closed_at_the_end(scene: Scene) -> None:
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


# Local addresses


def test_next_free_port_is_used(scene: Scene) -> None:
    async def play() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            wanted = taken.getsockname()[1]
            async with scene.forward(port=wanted) as forward:
                assert wanted < forward.port <= wanted + port_forward.PORTS_TO_TRY
                assert forward.url == f"http://127.0.0.1:{forward.port}/"
                assert scene.notes == [f"port {wanted} is in use: using port {forward.port}"]

    played(play)


def test_no_free_port_is_reported(scene: Scene) -> None:
    async def play() -> None:
        with contextlib.ExitStack() as taken:
            with contextlib.suppress(OSError):
                taken.enter_context(socket.create_server(("127.0.0.1", port_forward.LAST_PORT)))
            with pytest.raises(
                ClientError, match=r"port 65535 and the following ports are in use. .* --port"
            ):
                async with scene.forward(port=port_forward.LAST_PORT):
                    pass

    played(play)


@pytest.mark.parametrize(
    ("address", "words"),
    {
        "203.0.113.7": "203.0.113.7 is not an address of this machine. Choose another one with --address",
        "no such host": "cannot listen on no such host: .*--address",
    }.items(),
)
def test_foreign_address_is_rejected(scene: Scene, address: str, words: str) -> None:
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
def test_other_local_addresses(scene: Scene, address: str, host: str) -> None:
    async def play() -> None:
        async with web_server("me") as port:
            scene.pod("p", port)
            async with scene.forward(address=address) as forward:
                assert forward.url == f"http://{host}:{forward.port}/"
                assert await who(forward.url) == "me"

    played(play)
