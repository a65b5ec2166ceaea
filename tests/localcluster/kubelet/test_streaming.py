"""Streams between clients and processes in containers."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from windlass.localcluster.apiserver.streams.websockets import STDERR, STDOUT
from windlass.localcluster.kubelet import streaming
from windlass.localcluster.kubelet.sandbox_connection import SandboxCallError
from windlass.localcluster.kubelet.streaming import RemoteProcess
from windlass.localcluster.kubelet.supervisor_client import Executed, SupervisorClient

PATIENCE_SECONDS = 60
CALL = 7


class Supervisor:
    """Records the abandoned calls."""

    def __init__(self) -> None:
        self.abandoned: list[int] = []

    def abandon(self, call: int) -> None:
        self.abandoned.append(call)


class World:
    """The ends of a process, which the test plays."""

    def __init__(self) -> None:
        self.supervisor = Supervisor()
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._before = opened()
        self._own: set[int] = set()

    @property
    def supervision(self) -> SupervisorClient:
        return cast("SupervisorClient", self.supervisor)

    def pipes(self) -> tuple[RemoteProcess, int, int, int]:
        (stdin, a), (b, stdout), (c, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._own |= {stdin, stdout, stderr}
        executed = Executed(CALL, [a, b, c], self.exit_code)
        return streaming.executed_process(self.supervision, executed), stdin, stdout, stderr

    def terminal(self) -> tuple[RemoteProcess, int]:
        master, slave = os.openpty()
        self._own.add(slave)
        executed = Executed(CALL, [master], self.exit_code)
        return streaming.executed_process(self.supervision, executed), slave

    def attached(self, *, has_stdin: bool) -> tuple[RemoteProcess, int, int]:
        (output, writer), (reader, stdin) = os.pipe(), os.pipe()
        self._own |= {writer, reader}
        if not has_stdin:
            os.close(stdin)
        descriptors = [output, stdin] if has_stdin else [output]
        process = streaming.attached_process(self.supervision, CALL, descriptors, is_terminal=False)
        return process, writer, reader

    def attached_terminal(self) -> tuple[RemoteProcess, int]:
        master, slave = os.openpty()
        output, writer = os.pipe()
        os.close(writer)
        self._own.add(slave)
        descriptors = [output, master]
        return streaming.attached_process(self.supervision, CALL, descriptors, is_terminal=True), slave

    def close(self, *descriptors: int) -> None:
        for each in descriptors:
            self._own.discard(each)
            os.close(each)

    def left_open(self) -> int:
        """Return the number of new descriptors, without those of the test."""
        return opened() - self._before - len(self._own)

    def end(self) -> None:
        self.close(*tuple(self._own))


def opened() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await test(world)
        finally:
            world.end()

    asyncio.run(main())


async def all_of(process: RemoteProcess) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async for stream, piece in process.output():
        found[stream] = found.get(stream, b"") + piece
    return found


async def read_all(descriptor: int, count: int) -> bytes:
    os.set_blocking(descriptor, False)
    found = b""
    while len(found) < count:
        try:
            found += os.read(descriptor, count)
        except BlockingIOError:
            await asyncio.sleep(0.001)
    return found


def test_exec_returns_both_streams_and_exit_code() -> None:
    async def test(world: World) -> None:
        process, _, stdout, stderr = world.pipes()
        reading = asyncio.create_task(all_of(process))
        os.write(stdout, b"out")
        os.write(stderr, b"err")
        await asyncio.sleep(0)
        os.write(stdout, b"put")
        world.close(stdout, stderr)
        assert await reading == {STDOUT: b"output", STDERR: b"err"}
        world.exit_code.set_result(3)
        assert await process.wait() == 3
        assert world.left_open() == 0

    run(test)


def test_large_output_of_one_stream_does_not_block_the_other() -> None:
    async def test(world: World) -> None:
        process, _, stdout, stderr = world.pipes()
        much = os.urandom(1 << 20)

        def write() -> None:
            rest = memoryview(much)
            while rest:
                rest = rest[os.write(stdout, rest) :]
            os.write(stderr, b"err")

        writing = asyncio.get_running_loop().run_in_executor(None, write)
        reading = asyncio.create_task(all_of(process))
        await writing
        world.close(stdout, stderr)
        assert await reading == {STDOUT: much, STDERR: b"err"}

    run(test)


def test_stdin_of_any_length_arrives_and_ends() -> None:
    async def test(world: World) -> None:
        process, stdin, _, _ = world.pipes()
        much = os.urandom(1 << 20)
        writing = asyncio.create_task(process.write_stdin(much))
        assert await read_all(stdin, len(much)) == much
        await writing
        await process.close_stdin()
        await process.close_stdin()
        assert os.read(stdin, 1) == b""
        await process.write_stdin(b"too late")
        await process.abandon()
        assert world.left_open() == 0

    run(test)


def test_writing_to_closed_stdin_fails() -> None:
    """A process may close its stdin and go on: what it says is still heard."""

    async def test(world: World) -> None:
        process, stdin, stdout, stderr = world.pipes()
        world.close(stdin)
        with pytest.raises(BrokenPipeError):
            await process.write_stdin(b"word")
        reading = asyncio.create_task(all_of(process))
        os.write(stdout, b"out")
        world.close(stdout, stderr)
        assert await reading == {STDOUT: b"out"}

    run(test)


def test_terminal_merges_streams_and_ends_input_with_a_character() -> None:
    async def test(world: World) -> None:
        process, slave = world.terminal()
        await process.resize(100, 40)
        assert size_of(slave) == (40, 100)
        await process.write_stdin(b"word\n")
        assert os.read(slave, 100) == b"word\n"
        await process.close_stdin()
        # The end of the input is a character, which the terminal takes for one.
        assert os.read(slave, 100) == b""
        reading = asyncio.create_task(all_of(process))
        os.write(slave, b"done\n")
        world.close(slave)
        said = await reading
        assert list(said) == [STDOUT]
        assert said[STDOUT].endswith(b"done\r\n")
        assert world.left_open() == 0
        # A client may be late.
        await process.resize(1, 1)

    run(test)


@pytest.mark.parametrize("has_stdin", [True, False])
def test_attach_returns_output_and_stdin(has_stdin: bool) -> None:
    async def test(world: World) -> None:
        process, writer, reader = world.attached(has_stdin=has_stdin)
        await process.write_stdin(b"in")
        if has_stdin:
            assert os.read(reader, 9) == b"in"
        reading = asyncio.create_task(all_of(process))
        os.write(writer, b"out")
        world.close(writer)
        assert await reading == {STDOUT: b"out"}
        assert await process.wait() == 0
        assert world.left_open() == 0

    run(test)


def test_attach_to_a_terminal() -> None:
    async def test(world: World) -> None:
        process, slave = world.attached_terminal()
        await process.resize(100, 40)
        assert size_of(slave) == (40, 100)
        await process.write_stdin(b"word\n")
        assert os.read(slave, 100) == b"word\n"
        await process.close_stdin()
        assert os.read(slave, 100) == b""
        assert await all_of(process) == {}
        assert world.left_open() == 0

    run(test)


@pytest.mark.parametrize(("width", "seen"), [(1 << 20, 0xFFFF), (-1, 0)])
def test_invalid_terminal_size_is_clamped(width: int, seen: int) -> None:
    async def test(world: World) -> None:
        process, slave = world.terminal()
        await process.resize(width, 40)
        assert size_of(slave) == (40, seen)
        await process.abandon()

    run(test)


def size_of(terminal: int) -> tuple[int, int]:
    """Rows and columns."""
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8))
    return rows, columns


def test_abandon_closes_descriptors_and_tells_supervisor_once() -> None:
    async def test(world: World) -> None:
        process, *_ = world.pipes()
        await process.abandon()
        await process.abandon()
        assert world.supervisor.abandoned == [CALL]
        assert world.left_open() == 0

    run(test)


def test_stopping_to_read_closes_all_descriptors() -> None:
    async def test(world: World) -> None:
        process, _, stdout, _ = world.pipes()
        os.write(stdout, b"out")
        output = cast("Any", process.output())
        assert await anext(output) == (STDOUT, b"out")
        await output.aclose()
        assert world.left_open() == 0

    run(test)


def test_wait_fails_when_supervisor_has_ended() -> None:
    async def test(world: World) -> None:
        process, *_ = world.pipes()
        world.exit_code.set_exception(SandboxCallError("the pod's supervisor has gone"))
        with pytest.raises(OSError, match="the pod's supervisor has gone"):
            await process.wait()
        await process.abandon()

    run(test)
