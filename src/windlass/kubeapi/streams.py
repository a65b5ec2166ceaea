"""The WebSocket protocols of exec and port-forward: requests, and encoding and decoding of messages.

The first byte of a message is its channel. The error channel of an exec has a Status: the exit code after the process
has ended, or why it was not started. A forwarded port has a data channel and an error channel; both begin with the port
number in two bytes. The port-forward protocol cannot close a single direction.
"""

import msgspec

from windlass.kubeapi import requests
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import PODS

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
PORT_DATA, PORT_ERROR = range(2)
_CLOSE = 255
_PORT_NUMBER_BYTES = 2

CLOSING_PROTOCOL = "v5.channel.k8s.io"
"""Can signal the end of stdin; supported since Kubernetes 1.30."""
EXEC_PROTOCOLS = (CLOSING_PROTOCOL, "v4.channel.k8s.io")
"""In the order of preference."""
PORT_FORWARD_PROTOCOLS = ("v4.channel.k8s.io",)
"""Supported by kubelets of all releases."""


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """The size of a terminal in characters."""

    width: int
    height: int


class ExecResult(msgspec.Struct, frozen=True):
    """The exit code of the process, and a message if it is not 0. The code is None if it is unknown, e.g. because the
    process was not started."""

    code: int | None
    message: str = ""


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] | None = ()


class _Status(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""
    details: _Details | None = None


def exec_request(
    namespace: str, pod: str, container: str, command: tuple[str, ...], *, stdin: bool, tty: bool
) -> Request:
    """Return a request to run a command. A terminal has no separate stderr."""
    query = [("command", argument) for argument in command]
    query += [("container", container), ("stdout", "true")]
    flags = {"stdin": stdin, "stderr": not tty, "tty": tty}
    query += [(name, "true") for name, is_set in flags.items() if is_set]
    return requests.get(PODS, namespace, pod, "exec", tuple(query))


def port_forward_request(namespace: str, pod: str, port: int) -> Request:
    """Return a request for one connection to a port."""
    return requests.get(PODS, namespace, pod, "portforward", (("ports", str(port)),))


def message(channel: int, data: bytes) -> bytes:
    return bytes((channel,)) + data


def resize_message(size: Size) -> bytes:
    return message(RESIZE, msgspec.json.encode(size))


def end_of_input(protocol: str) -> bytes | None:
    """Return the message that ends stdin; None if the protocol has none."""
    return bytes((_CLOSE, STDIN)) if protocol == CLOSING_PROTOCOL else None


def parse_message(received: bytes) -> tuple[int, bytes]:
    """Return channel and data; channel -1 for an empty message."""
    return (received[0], received[1:]) if received else (-1, b"")


def parse_result(data: bytes) -> ExecResult:
    """Decode the message on the error channel."""
    try:
        status = msgspec.json.decode(data, type=_Status)
    except msgspec.DecodeError:
        return ExecResult(None, data.decode("utf-8", "replace"))
    if status.status == "Success":
        return ExecResult(0)
    causes = status.details.causes or () if status.details is not None else ()
    for cause in causes:
        if cause.reason == "ExitCode" and cause.message.lstrip("-").isdecimal():
            return ExecResult(int(cause.message), status.message)
    return ExecResult(None, status.message or "no reason given")


class Chunk(msgspec.Struct, frozen=True):
    """A message of a forwarded connection."""

    data: bytes = b""
    """Data from the pod."""
    error: str = ""
    """Why the connection failed."""


class ChunkDecoder:
    """Decodes the messages of one forwarded connection, without the port numbers."""

    def __init__(self) -> None:
        self._remaining = {PORT_DATA: _PORT_NUMBER_BYTES, PORT_ERROR: _PORT_NUMBER_BYTES}
        """Bytes of the port number that have not arrived, by channel."""

    def decode(self, received: bytes) -> Chunk:
        """Decode a message. Return an empty chunk for a port number and for an unknown channel."""
        channel, data = parse_message(received)
        if channel not in self._remaining:
            return Chunk()
        skipped = min(len(data), self._remaining[channel])
        self._remaining[channel] -= skipped
        rest = data[skipped:]
        return (
            Chunk(data=rest) if channel == PORT_DATA else Chunk(error=rest.decode("utf-8", "replace").strip())
        )
