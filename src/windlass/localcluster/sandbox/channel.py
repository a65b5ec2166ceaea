"""Messages and file descriptors over a unix socket."""

import array
import contextlib
import os
import socket
import struct
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import msgspec

Message = TypeVar("Message")

_HEADER = struct.Struct("!IB")
_MAX_DESCRIPTORS = 8
_READ_BYTES = 64 * 1024
_encoder = msgspec.msgpack.Encoder()


class Channel(Generic[Message]):
    """One end of a connection. `incoming` is the type of received messages."""

    def __init__(self, end: socket.socket, incoming: Any) -> None:
        self.socket = end
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(incoming)
        self._received = bytearray()
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: msgspec.Struct, *descriptors: int) -> None:
        """Send a message. Descriptors stay open on this side. Raises OSError if the connection is closed."""
        data = encoded(message, len(descriptors))
        sent = socket.send_fds(self.socket, [data], descriptors) if descriptors else self.socket.send(data)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def receive(self) -> list[tuple[Message, list[int]]]:
        """Read once, and return the complete messages, each with its descriptors.

        Raises EOFError when the peer has closed the connection.
        """
        data = self._read()
        if not data:
            raise EOFError
        self._received += data
        complete = []
        while (message := self._next()) is not None:
            complete.append(message)
        return complete

    def _read(self) -> bytes:
        """Receive with close-on-exec, which socket.recv_fds does not set: children must not inherit the descriptors."""
        size = _MAX_DESCRIPTORS * array.array("i").itemsize
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            data, ancillary, _, _ = self.socket.recvmsg(_READ_BYTES, socket.CMSG_SPACE(size), flags)
        except ConnectionError:
            return b""
        for level, type_, packed in ancillary:
            if (level, type_) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(packed[: len(packed) - len(packed) % numbers.itemsize])
                self._descriptors += numbers
        return data

    def _next(self) -> tuple[Message, list[int]] | None:
        if len(self._received) < _HEADER.size:
            return None
        length, count = _HEADER.unpack_from(self._received)
        end = _HEADER.size + length
        if len(self._received) < end:
            return None
        message = self._decoder.decode(bytes(self._received[_HEADER.size : end]))
        del self._received[:end]
        own, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return message, own

    def close(self) -> None:
        self.socket.close()
        close_all(self._descriptors)
        self._descriptors.clear()


def encoded(message: msgspec.Struct, descriptor_count: int = 0) -> bytes:
    """Return the bytes of a message that is sent with this number of descriptors."""
    body = _encoder.encode(message)
    return _HEADER.pack(len(body), descriptor_count) + body


def pair(left_incoming: Any, right_incoming: Any) -> tuple[Channel[Any], Channel[Any]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(left, left_incoming), Channel(right, right_incoming)


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
