"""How a connection to a port of a pod goes over one WebSocket, as a client sees it. Pure: messages in, values out.

Each message begins with a byte that says which channel it belongs to (see `streams`). A port has two: one for its data,
and one on which the server says what went wrong. Both begin with the number of the port, in two bytes. Nobody can be
told that one direction has ended: the whole is closed, or nothing.
"""

import msgspec

from windlass.kubeapi import streams
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import PODS

DATA, ERROR = range(2)

PROTOCOLS = ("v4.channel.k8s.io",)
"""Kubelets of all releases speak this one."""

_ANNOUNCEMENT_BYTES = 2


class Piece(msgspec.Struct, frozen=True):
    data: bytes = b""
    """What the pod has sent."""
    error: str = ""
    """Why nothing more comes of it."""


def request(namespace: str, pod: str, port: int) -> Request:
    """One connection to that port."""
    return Request(
        verb=Verb.GET,
        method="GET",
        resource=PODS,
        path=PODS.path(namespace, pod, "portforward"),
        query=(("ports", str(port)),),
        namespace=namespace,
        subresource="portforward",
    )


def message(data: bytes) -> bytes:
    return streams.message(DATA, data)


class Incoming:
    """What comes of one connection: without the announcements, in whatever pieces those are."""

    def __init__(self) -> None:
        self._announced = {DATA: _ANNOUNCEMENT_BYTES, ERROR: _ANNOUNCEMENT_BYTES}
        """Bytes of the announcement that are still to come, on each channel."""

    def piece(self, received: bytes) -> Piece:
        """Of a channel that does not exist, nothing."""
        channel, data = streams.parsed(received)
        if channel not in self._announced:
            return Piece()
        announced = min(len(data), self._announced[channel])
        self._announced[channel] -= announced
        rest = data[announced:]
        return Piece(data=rest) if channel == DATA else Piece(error=rest.decode("utf-8", "replace").strip())
