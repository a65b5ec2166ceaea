"""Ports of this machine that lead to pods, through the API server. Nothing runs the pods: servers of the test answer
in their place."""

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
    assert scene.notes == ["no pod is running: closed a connection"]


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
                assert wanted < forward.port <= wanted + port_forward.PORTS_TO_TRY
                assert forward.url == f"http://127.0.0.1:{forward.port}/"
                assert scene.notes == [f"port {wanted} is in use: using port {forward.port}"]

    played(play)


def test_no_port_at_all(scene: Scene) -> None:
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
