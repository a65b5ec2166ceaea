"""The WebSocket protocol of port-forward: encodes and decodes messages.

The first byte of a message is its channel (see `streams`). A port has a data channel and an error channel; both begin
with the port number in two bytes. The protocol cannot close a single direction.
"""

import msgspec

from windlass.kubeapi import streams
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import PODS

DATA, ERROR = range(2)

PROTOCOLS = ("v4.channel.k8s.io",)
"""Supported by kubelets of all releases."""

_PORT_BYTES = 2


class Chunk(msgspec.Struct, frozen=True):
    data: bytes = b""
    """Data from the pod."""
    error: str = ""
    """Why the connection failed."""


def request(namespace: str, pod: str, port: int) -> Request:
    """Request one connection to a port."""
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


class ChunkDecoder:
    """Decodes the messages of one connection, without the port numbers."""

    def __init__(self) -> None:
        self._remaining = {DATA: _PORT_BYTES, ERROR: _PORT_BYTES}
        """Bytes of the port number that have not arrived, by channel."""

    def decode(self, received: bytes) -> Chunk:
        """Decode a message. Messages of unknown channels are empty."""
        channel, data = streams.parse_message(received)
        if channel not in self._remaining:
            return Chunk()
        skipped = min(len(data), self._remaining[channel])
        self._remaining[channel] -= skipped
        rest = data[skipped:]
        return Chunk(data=rest) if channel == DATA else Chunk(error=rest.decode("utf-8", "replace").strip())
