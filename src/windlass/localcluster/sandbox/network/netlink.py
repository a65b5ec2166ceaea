"""Netlink: the protocol to configure links, addresses, routes and packet filters of the kernel.

A connection belongs to the network namespace in which it was opened, even if its process enters another one. `links`
and `masquerade` build the requests.
"""

import os
import socket
import struct
from collections.abc import Iterable, Iterator

REQUEST = 0x001
ACKNOWLEDGE = 0x004
DUMP = 0x300
CREATE = 0x400
EXCLUSIVE = 0x200
APPEND = 0x800

_ERROR = 2
_DONE = 3
_NESTED = 0x8000
_KIND_OF_ATTRIBUTE = 0x3FFF
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_MAX_RESPONSE = 1 << 16


class Connection(socket.socket):
    def __init__(self, protocol: int) -> None:
        super().__init__(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self.bind((0, 0))

    def request(self, what: str, kind: int, body: bytes, flags: int = 0) -> list[bytes]:
        """Send a request and return the responses. `what` describes it in the message of an OSError."""
        self.send(message(kind, body, flags | ACKNOWLEDGE))
        return self.wait(what, acknowledgements=1)

    def wait(self, what: str, acknowledgements: int) -> list[bytes]:
        """Return the responses to the messages that were sent, up to the last acknowledgement."""
        responses: list[bytes] = []
        while acknowledgements:
            for kind, body in self._received():
                if kind == _ERROR:
                    _raise_for(what, body)
                    acknowledgements -= 1
                else:
                    responses.append(body)
        return responses

    def dump(self, what: str, kind: int, body: bytes) -> list[bytes]:
        """Return the bodies of all objects of a type."""
        self.send(message(kind, body, DUMP))
        found: list[bytes] = []
        while True:
            for response_kind, response in self._received():
                if response_kind == _DONE:
                    return found
                if response_kind == _ERROR:
                    _raise_for(what, response)
                found.append(response)

    def _received(self) -> Iterator[tuple[int, bytes]]:
        data = self.recv(_MAX_RESPONSE)
        while len(data) >= _HEADER.size:
            length, kind, _, _, _ = _HEADER.unpack_from(data)
            yield kind, data[_HEADER.size : length]
            data = data[_aligned(length) :]


def message(kind: int, body: bytes, flags: int = 0) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, REQUEST | flags, 0, 0) + body


def attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(_aligned(length) - length)


def nested(kind: int, attributes: Iterable[bytes]) -> bytes:
    return attribute(kind | _NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        found[kind & _KIND_OF_ATTRIBUTE] = data[_ATTRIBUTE.size : length]
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _raise_for(what: str, body: bytes) -> None:
    code = -struct.unpack_from("=i", body)[0]
    if code:
        raise OSError(code, f"{what}: {os.strerror(code)}")
