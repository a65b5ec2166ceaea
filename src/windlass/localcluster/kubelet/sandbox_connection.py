"""A channel to the spawner or to a supervisor, in the daemon's event loop."""

import asyncio
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from windlass.localcluster.sandbox import channel
from windlass.localcluster.sandbox.channel import Channel

# Length in bytes that every system allows for the path of a unix socket.
_MAX_PATH = 100

_CLOSED = "the connection is closed"
_call_numbers = itertools.count(1)


class SandboxCallError(OSError):
    """The spawner or a supervisor rejected a request, or the connection was lost."""


class Connection:
    """A connection with requests and responses.

    `on_message` receives every message that is not an expected response, and must close the message's descriptors.
    `on_lost` is called once when the peer has closed the connection or communication has failed.
    """

    def __init__(
        self, peer: Channel[Any], on_message: Callable[[Any, list[int]], None], on_lost: Callable[[], None]
    ) -> None:
        self._channel = peer
        self._on_message = on_message
        self._on_lost = on_lost
        self._responses: dict[int, asyncio.Future[tuple[Any, list[int]]]] = {}
        self._loop = asyncio.get_running_loop()
        peer.socket.setblocking(False)
        # Data that could not be sent yet. A stopped peer must not block the daemon.
        self._outgoing = bytearray()
        self.is_open = True
        self._loop.add_reader(peer.fileno(), self._receive)

    def send(self, message: msgspec.Struct) -> None:
        """Queue a message. It is dropped if the connection is closed."""
        if not self.is_open:
            return
        was_waiting = bool(self._outgoing)
        self._outgoing += channel.encoded(message)
        if not was_waiting:
            self._flush()

    def _flush(self) -> None:
        try:
            sent = self._channel.socket.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._loop.call_soon(self._end)
            return
        del self._outgoing[:sent]
        if self._outgoing:
            self._loop.add_writer(self._channel.fileno(), self._flush)
        else:
            self._loop.remove_writer(self._channel.fileno())

    async def call(self, new_request: Callable[[int], msgspec.Struct]) -> tuple[int, list[int]]:
        """Send a request, and return the number of the call and the descriptors of the response.

        The caller must close the descriptors. Raises SandboxCallError.
        """
        if not self.is_open:
            raise SandboxCallError(_CLOSED)
        number = next(_call_numbers)
        future = self._responses[number] = self._loop.create_future()
        self.send(new_request(number))
        try:
            response, descriptors = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                channel.close_all(future.result()[1])
            raise
        finally:
            self._responses.pop(number, None)
        message = getattr(response, "message", None)
        if message is not None:
            raise SandboxCallError(message)
        return number, descriptors

    def _receive(self) -> None:
        try:
            received = self._channel.receive()
        except (EOFError, OSError, msgspec.MsgspecError):
            self._end()
            return
        for message, descriptors in received:
            future = self._responses.pop(getattr(message, "call", 0), None)
            if future is not None and not future.done():
                future.set_result((message, descriptors))
                continue
            self._on_message(message, descriptors)

    def _end(self) -> None:
        if self.is_open:
            self.close()
            self._on_lost()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        for future in self._responses.values():
            if not future.done():
                future.set_exception(SandboxCallError(_CLOSED))


def connect(path: Path, incoming: Any) -> Channel[Any]:
    """Connect to a unix socket. On Linux, its path may have any length. Raises OSError if nothing listens there."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if len(os.fsencode(path)) <= _MAX_PATH:
            end.connect(str(path))
        else:
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                end.connect(f"/proc/self/fd/{folder}/{path.name}")
            finally:
                os.close(folder)
    except OSError:
        end.close()
        raise
    return Channel(end, incoming)


async def wait_until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    await _wait(descriptor, loop.add_reader, loop.remove_reader)


async def wait_until_writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    await _wait(descriptor, loop.add_writer, loop.remove_writer)


async def _wait(descriptor: int, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
