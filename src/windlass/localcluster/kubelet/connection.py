"""A channel to the spawner or to a supervisor, in the daemon's event loop."""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from windlass.localcluster.sandbox.channel import Channel

# The messages are small and the other side reads at once. One that does not (it was stopped) must not stop the daemon.
_SECONDS_TO_SEND = 5.0
# Of a unix socket, on every system that there is.
_LONGEST_PATH = 100

_numbers = itertools.count(1)


class CallRefusedError(Exception):
    """What was asked for is not done; the message says why."""


class Connection:
    """`hear` gets every message that answers no call, `lose` is called once, when the other side has gone."""

    def __init__(self, channel: Channel[Any], hear: Callable[[Any], None], lose: Callable[[], None]) -> None:
        self._channel = channel
        self._hear = hear
        self._lose = lose
        self._answers: dict[int, asyncio.Future[tuple[Any, list[int]]]] = {}
        self._loop = asyncio.get_running_loop()
        channel.socket.settimeout(_SECONDS_TO_SEND)
        self.is_open = True
        self._loop.add_reader(channel.fileno(), self._receive)

    def send(self, message: msgspec.Struct) -> None:
        """What cannot be sent is lost with the one that it was for."""
        try:
            self._channel.send(message)
        except OSError:
            self._loop.call_soon(self._end)

    async def call(self, make: Callable[[int], msgspec.Struct]) -> tuple[int, list[int]]:
        """The number of the call and the descriptors that came with the answer, which the caller closes."""
        number = next(_numbers)
        future = self._answers[number] = self._loop.create_future()
        self.send(make(number))
        try:
            answer, descriptors = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                _close(future.result()[1])
            raise
        finally:
            self._answers.pop(number, None)
        message = getattr(answer, "message", None)
        if message is not None:
            raise CallRefusedError(message)
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
            _close(descriptors)
            self._hear(message)

    def _end(self) -> None:
        if self.is_open:
            self.close()
            self._lose()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._channel.fileno())
        self._channel.close()
        for future in self._answers.values():
            if not future.done():
                future.set_exception(CallRefusedError("the other side has gone"))


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


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
