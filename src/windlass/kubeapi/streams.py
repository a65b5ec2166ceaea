"""How the streams of a process share one WebSocket in exec, as a client sees it. Pure: messages in, values out.

Each message begins with a byte that says which channel it belongs to. What the server says on the error channel when
the process has ended is a Status, which holds the exit code.
"""

import msgspec

from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import PODS

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255

CLOSING_PROTOCOL = "v5.channel.k8s.io"
"""By this one, which Kubernetes speaks since 1.30, a process can be told that its input has ended."""
PROTOCOLS = (CLOSING_PROTOCOL, "v4.channel.k8s.io")
"""In the order in which they are preferred."""


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """Of a terminal, in characters."""

    width: int
    height: int


class Ended(msgspec.Struct, frozen=True):
    """What became of the process. Without a code there was none: the message says why."""

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
    """A terminal has one output."""
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


def resized(size: Size) -> bytes:
    return message(RESIZE, msgspec.json.encode(size))


def end_of_input(protocol: str) -> bytes | None:
    """None where the server cannot be told."""
    return bytes((_CLOSE, STDIN)) if protocol == CLOSING_PROTOCOL else None


def parsed(received: bytes) -> tuple[int, bytes]:
    """The channel, and what came on it. An empty message is on none."""
    return (received[0], received[1:]) if received else (-1, b"")


def ended(data: bytes) -> Ended:
    """From what came on the error channel."""
    try:
        status = msgspec.json.decode(data, type=_Status)
    except msgspec.DecodeError:
        return Ended(None, data.decode("utf-8", "replace"))
    if status.status == "Success":
        return Ended(0)
    causes = status.details.causes or () if status.details is not None else ()
    for cause in causes:
        if cause.reason == "ExitCode" and cause.message.lstrip("-").isdecimal():
            return Ended(int(cause.message), status.message)
    return Ended(None, status.message or "the server does not say why")
