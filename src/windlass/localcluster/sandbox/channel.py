"""Messages over a unix socket, with the file descriptors that belong to them."""

import array
import contextlib
import os
import socket
import struct
from typing import Any, Generic, TypeVar

import msgspec

Message = TypeVar("Message")

_HEADER = struct.Struct("!IB")
_MOST_DESCRIPTORS = 8
_PIECE = 64 * 1024
_encoder = msgspec.msgpack.Encoder()


class Channel(Generic[Message]):
    """One end. Messages of the given type come in; any go out."""

    def __init__(self, end: socket.socket, incoming: Any) -> None:
        self.socket = end
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(incoming)
        self._received = bytearray()
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: msgspec.Struct, *descriptors: int) -> None:
        """The descriptors stay open on this side. Raises OSError when nobody is there any more."""
        data = encoded(message, len(descriptors))
        sent = socket.send_fds(self.socket, [data], descriptors) if descriptors else self.socket.send(data)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def receive(self) -> list[tuple[Message, list[int]]]:
        """What one read completes, perhaps nothing. Raises EOFError at the end."""
        piece = self._read()
        if not piece:
            raise EOFError
        self._received += piece
        found = []
        while (complete := self._next()) is not None:
            found.append(complete)
        return found

    def _read(self) -> bytes:
        """socket.recv_fds without its gap: what is received must not be inherited by whoever is forked next."""
        room = _MOST_DESCRIPTORS * array.array("i").itemsize
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            piece, ancillary, _, _ = self.socket.recvmsg(_PIECE, socket.CMSG_SPACE(room), flags)
        except ConnectionError:
            return b""
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                self._descriptors += numbers
        return piece

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
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors.clear()


def encoded(message: msgspec.Struct, descriptors: int = 0) -> bytes:
    """As it goes over the socket, together with so many descriptors."""
    body = _encoder.encode(message)
    return _HEADER.pack(len(body), descriptors) + body


def pair(left_type: Any, right_type: Any) -> tuple[Channel[Any], Channel[Any]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(left, left_type), Channel(right, right_type)
