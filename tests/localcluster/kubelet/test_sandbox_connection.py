"""Calls and news over a channel, in an event loop: every call gets its answer, or hears that there will be none."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.kubelet import sandbox_connection
from windlass.localcluster.kubelet.sandbox_connection import Connection, SandboxCallError
from windlass.localcluster.sandbox import channel, messages
from windlass.localcluster.sandbox.channel import Channel

PATIENCE_SECONDS = 60


class World:
    """A connection, what came of it, and the other end."""

    def __init__(self) -> None:
        mine, self.other = channel.pair(messages.FromSupervisor, messages.ToSupervisor)
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.unclaimed: list[int] = []
        self.losses = 0
        self.lost = asyncio.Event()
        self.connection = Connection(mine, self._hear, self._lose)
        self.other.socket.setblocking(False)

    def _hear(self, message: Any, descriptors: list[int]) -> None:
        self.heard.put_nowait(message)
        self.unclaimed += descriptors

    def _lose(self) -> None:
        self.losses += 1
        self.lost.set()

    async def asked(self) -> Any:
        """Return the messages that the peer has received."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.other.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self.other.fileno())
        ((message, _),) = self.other.receive()
        return message

    def close(self) -> None:
        self.connection.close()
        self.other.close()


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await test(world)
        finally:
            world.close()

    asyncio.run(main())


def attach(call: int) -> messages.Attach:
    return messages.Attach(call, "id")


def test_call_returns_the_response_with_its_number() -> None:
    async def test(world: World) -> None:
        one = asyncio.create_task(world.connection.call(attach))
        first = await world.asked()
        two = asyncio.create_task(world.connection.call(attach))
        second = await world.asked()
        assert first.call != second.call
        readers = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
        world.other.send(messages.Opened(second.call), *readers[:1])
        world.other.send(messages.Opened(first.call), *readers[1:])
        for task, request, count in ((one, first, 2), (two, second, 1)):
            number, descriptors = await task
            assert (number, len(descriptors)) == (request.call, count)
            for each in descriptors:
                os.close(each)
        for each in readers:
            os.close(each)

    run(test)


def test_refused_call_raises() -> None:
    async def test(world: World) -> None:
        calling = asyncio.create_task(world.connection.call(attach))
        request = await world.asked()
        world.other.send(messages.Rejected(request.call, "the reason"))
        with pytest.raises(SandboxCallError, match="the reason"):
            await calling
        assert world.connection.is_open

    run(test)


def test_message_without_call_goes_to_the_listener() -> None:
    async def test(world: World) -> None:
        calling = asyncio.create_task(world.connection.call(attach))
        request = await world.asked()
        world.other.send(messages.Started("id", 1.0))
        world.other.send(messages.Opened(request.call))
        await calling
        # The number has been answered: what comes now under it is something else.
        world.other.send(messages.Exited(request.call, 3))
        assert [await world.heard.get(), await world.heard.get()] == [
            messages.Started("id", 1.0),
            messages.Exited(request.call, 3),
        ]

    run(test)


def test_late_response_goes_to_the_listener_with_its_descriptors() -> None:
    async def test(world: World) -> None:
        calling = asyncio.create_task(world.connection.call(attach))
        request = await world.asked()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        reader, writer = os.pipe()
        world.other.send(messages.Opened(request.call), writer)
        os.close(writer)
        assert await world.heard.get() == messages.Opened(request.call)
        channel.close_all(world.unclaimed)
        assert os.read(reader, 1) == b""
        os.close(reader)

    run(test)


def test_cancelled_call_closes_descriptors_of_its_response() -> None:
    async def test(world: World) -> None:
        calling = asyncio.create_task(world.connection.call(attach))
        request = await world.asked()
        reader, writer = os.pipe()
        world.other.send(messages.Opened(request.call), writer)
        os.close(writer)
        world.connection._receive()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        os.set_blocking(reader, False)
        assert os.read(reader, 1) == b""
        os.close(reader)

    run(test)


@pytest.mark.parametrize("ending", [b"", b"\0\0\0\3\0abc"], ids=["the end", "nonsense"])
def test_lost_connection_is_reported_once_and_fails_pending_calls(ending: bytes) -> None:
    async def test(world: World) -> None:
        calls = [asyncio.create_task(world.connection.call(attach)) for _ in range(2)]
        await asyncio.sleep(0)
        if ending:
            world.other.socket.sendall(ending)
        else:
            world.other.close()
        for call in calls:
            with pytest.raises(SandboxCallError, match="the connection is closed"):
                await call
        await world.lost.wait()
        world.connection.send(messages.End())
        await asyncio.sleep(0)
        assert (world.losses, world.connection.is_open) == (1, False)

    run(test)


def test_messages_before_the_end_are_delivered() -> None:
    async def test(world: World) -> None:
        world.other.send(messages.Started("id", 1.0))
        world.other.close()
        assert await world.heard.get() == messages.Started("id", 1.0)
        await world.lost.wait()

    run(test)


def test_failed_send_loses_the_connection() -> None:
    async def test(world: World) -> None:
        world.other.socket.shutdown(socket.SHUT_RD)
        world.connection.send(messages.End())
        await world.lost.wait()
        assert world.losses == 1

    run(test)


def test_slow_reader_does_not_block_and_gets_everything() -> None:
    async def test(world: World) -> None:
        sent = [messages.Attach(number, "x" * 1000) for number in range(2000)]
        for message in sent:
            world.connection.send(message)
        found: list[Any] = []
        while len(found) < len(sent):
            with contextlib.suppress(BlockingIOError):
                found += [message for message, _ in world.other.receive()]
            await asyncio.sleep(0)
        assert found == sent
        world.connection.send(messages.End())
        assert await world.asked() == messages.End()

    run(test)


def test_connection_to_a_stopped_peer_can_be_closed() -> None:
    async def test(world: World) -> None:
        for number in range(2000):
            world.connection.send(messages.Attach(number, "x" * 1000))
        world.connection.close()
        await asyncio.sleep(0)
        assert world.losses == 0

    run(test)


def test_closed_connection_delivers_nothing() -> None:
    async def test(world: World) -> None:
        calling = asyncio.create_task(world.connection.call(attach))
        await world.asked()
        world.connection.close()
        world.connection.close()
        with pytest.raises(SandboxCallError):
            await calling
        assert world.losses == 0

    run(test)


def test_call_on_a_closed_connection_fails() -> None:
    async def test(world: World) -> None:
        world.connection.close()
        with pytest.raises(SandboxCallError):
            await world.connection.call(attach)

    run(test)


@pytest.mark.parametrize("depth", [0, 3])
def test_connect_accepts_paths_of_any_length(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["long" * 20] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    handle = os.open(folder, os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{handle}/socket")
    listener.listen()
    made = sandbox_connection.connect(folder / "socket", messages.FromSupervisor)
    accepted: Channel[Any] = Channel(listener.accept()[0], messages.ToSupervisor)
    accepted.send(messages.Hello(()))
    assert made.receive() == [(messages.Hello(()), [])]
    for each in (made, accepted, listener):
        each.close()
    os.close(handle)


@pytest.mark.parametrize("depth", [0, 3])
def test_connect_fails_without_listener(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["long" * 20] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        sandbox_connection.connect(folder / "socket", messages.FromSupervisor)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
