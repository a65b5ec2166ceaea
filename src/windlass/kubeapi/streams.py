"""The WebSocket protocol of exec: encodes and decodes messages.

The first byte of a message is its channel. After the process has ended, the error channel has a Status with the exit
code.
"""

import msgspec

from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import PODS

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255

CLOSING_PROTOCOL = "v5.channel.k8s.io"
"""Can signal the end of stdin; supported since Kubernetes 1.30."""
PROTOCOLS = (CLOSING_PROTOCOL, "v4.channel.k8s.io")
"""In the order of preference."""


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """The size of a terminal in characters."""

    width: int
    height: int


class ExecResult(msgspec.Struct, frozen=True):
    """The exit code of the process, or None and a message if it was not started."""

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
    """Request to run a command. A terminal has no separate stderr."""
    query = [("command", word) for word in command]
    query += [("container", container), ("stdout", "true")]
    query += [
        (name, "true")
        for name, is_wanted in (("stdin", stdin), ("stderr", not tty), ("tty", tty))
        if is_wanted
    ]
    return Request(
        verb=Verb.GET,
        method="GET",
        resource=PODS,
        path=PODS.path(namespace, pod, "exec"),
        query=tuple(query),
        namespace=namespace,
        subresource="exec",
    )


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
