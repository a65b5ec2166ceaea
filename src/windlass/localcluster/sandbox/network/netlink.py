"""Netlink: the protocol to configure links, addresses, routes and packet filters of the kernel.

A connection belongs to the network namespace in which it was opened, even if its process enters another namespace.
`links` and `masquerade` build the requests.
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
_ATTRIBUTE_TYPE_MASK = 0x3FFF
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_MAX_RESPONSE = 1 << 16


class Connection(socket.socket):
    def __init__(self, protocol: int) -> None:
        super().__init__(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self.bind((0, 0))

    def request(self, what: str, message_type: int, body: bytes, flags: int = 0) -> list[bytes]:
        """Send a request and return the responses. `what` describes the request in an OSError."""
        self.send(message(message_type, body, flags | ACKNOWLEDGE))
        return self.wait(what, acknowledgements=1)

    def wait(self, what: str, acknowledgements: int) -> list[bytes]:
        """Return the responses to the messages that were sent, up to the last acknowledgement."""
        responses: list[bytes] = []
        while acknowledgements:
            for message_type, body in self._received():
                if message_type == _ERROR:
                    _raise_for(what, body)
                    acknowledgements -= 1
                else:
                    responses.append(body)
        return responses

    def dump(self, what: str, message_type: int, body: bytes) -> list[bytes]:
        """Send a request to list all objects of a type, and return the bodies of the objects."""
        self.send(message(message_type, body, DUMP))
        found: list[bytes] = []
        while True:
            for response_type, response in self._received():
                if response_type == _DONE:
                    return found
                if response_type == _ERROR:
                    _raise_for(what, response)
                found.append(response)

    def _received(self) -> Iterator[tuple[int, bytes]]:
        data = self.recv(_MAX_RESPONSE)
        while len(data) >= _HEADER.size:
            length, message_type, _, _, _ = _HEADER.unpack_from(data)
            yield message_type, data[_HEADER.size : length]
            data = data[_aligned(length) :]


def message(message_type: int, body: bytes, flags: int = 0) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), message_type, REQUEST | flags, 0, 0) + body


def attribute(attribute_type: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, attribute_type) + value + bytes(_aligned(length) - length)


def nested(attribute_type: int, attributes: Iterable[bytes]) -> bytes:
    return attribute(attribute_type | _NESTED, b"".join(attributes))


def text(attribute_type: int, value: str) -> bytes:
    return attribute(attribute_type, value.encode() + b"\0")


def number(attribute_type: int, value: int) -> bytes:
    return attribute(attribute_type, struct.pack("=I", value))


def attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= _ATTRIBUTE.size:
        length, attribute_type = _ATTRIBUTE.unpack_from(data)
        found[attribute_type & _ATTRIBUTE_TYPE_MASK] = data[_ATTRIBUTE.size : length]
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _raise_for(what: str, body: bytes) -> None:
    code = -struct.unpack_from("=i", body)[0]
    if code:
        raise OSError(code, f"{what}: {os.strerror(code)}")
