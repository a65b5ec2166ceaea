"""The channels of a forwarded port, from a client's side."""

import pytest

from windlass.kubeapi import port_forwards
from windlass.kubeapi.port_forwards import Chunk, ChunkDecoder

ANNOUNCED = [b"\0\x76\x17", b"\1\x76\x17"]

RECEIVED: dict[str, tuple[list[bytes], list[Chunk]]] = {
    "announcements-alone": (ANNOUNCED, [Chunk(), Chunk()]),
    "data": ([*ANNOUNCED, b"\0a", b"\0b"], [Chunk(), Chunk(), Chunk(data=b"a"), Chunk(data=b"b")]),
    "with-the-announcement": ([b"\0\x76\x17abc"], [Chunk(data=b"abc")]),
    "in-pieces": ([b"\0\x76", b"\0\x17a"], [Chunk(), Chunk(data=b"a")]),
    "error": (
        [*ANNOUNCED, b"\1refused: \xff\n"],
        [Chunk(), Chunk(), Chunk(error="refused: \N{REPLACEMENT CHARACTER}")],
    ),
    "error-before-data": ([b"\1\x76\x17no"], [Chunk(error="no")]),
    "unknown-channel": ([b"\2abc", b"\xffabc"], [Chunk(), Chunk()]),
    "empty": ([b"", b"\0", b"\1"], [Chunk(), Chunk(), Chunk()]),
}


@pytest.mark.parametrize(("messages", "pieces"), RECEIVED.values(), ids=RECEIVED.keys())
def test_messages_are_decoded(messages: list[bytes], pieces: list[Chunk]) -> None:
    decoder = ChunkDecoder()
    assert [decoder.decode(each) for each in messages] == pieces


def test_data_is_encoded() -> None:
    assert port_forwards.message(b"abc") == b"\0abc"


def test_port_forward_request() -> None:
    request = port_forwards.request("default", "digits-tensorboard-0", 6006)
    assert request.path == "/api/v1/namespaces/default/pods/digits-tensorboard-0/portforward"
    assert (request.query, request.subresource) == ((("ports", "6006"),), "portforward")
