"""A channel to the spawner or to a supervisor, in the daemon's event loop."""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from windlass.localcluster.sandbox import channel
from windlass.localcluster.sandbox.channel import Channel

# Of a unix socket, on every system that there is.
_LONGEST_PATH = 100

_GONE = "the other side has gone"
_numbers = itertools.count(1)


class SandboxCallError(OSError):
    """What was asked for is not done; the message says why."""


class Connection:
    """`hear` gets every message that answers no call, with descriptors that are its own to close; `lose` is called
    once, when the other side has gone."""

    def __init__(
        self, to: Channel[Any], hear: Callable[[Any, list[int]], None], lose: Callable[[], None]
    ) -> None:
        self._channel = to
        self._hear = hear
        self._lose = lose
        self._answers: dict[int, asyncio.Future[tuple[Any, list[int]]]] = {}
        self._loop = asyncio.get_running_loop()
        to.socket.setblocking(False)
        # What the other side has not taken yet: one that was stopped must not stop the daemon.
        self._outgoing = bytearray()
        self.is_open = True
        self._loop.add_reader(to.fileno(), self._receive)

    def send(self, message: msgspec.Struct) -> None:
        """What cannot be sent is lost with the one that it was for."""
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

    async def call(self, make: Callable[[int], msgspec.Struct]) -> tuple[int, list[int]]:
        """The number of the call and the descriptors that came with the answer, which the caller closes."""
        if not self.is_open:
            raise SandboxCallError(_GONE)
        number = next(_numbers)
        future = self._answers[number] = self._loop.create_future()
        self.send(make(number))
        try:
            answer, descriptors = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                close_all(future.result()[1])
            raise
        finally:
            self._answers.pop(number, None)
        message = getattr(answer, "message", None)
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
            future = self._answers.pop(getattr(message, "call", 0), None)
            if future is not None and not future.done():
                future.set_result((message, descriptors))
                continue
            self._hear(message, descriptors)

    def _end(self) -> None:
        if self.is_open:
            self.close()
            self._lose()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        for future in self._answers.values():
            if not future.done():
                future.set_exception(SandboxCallError(_GONE))


def connect(path: Path, incoming: Any) -> Channel[Any]:
    """To a socket of whatever path. Raises OSError when nobody listens there."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if len(os.fsencode(path)) <= _LONGEST_PATH:
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


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
