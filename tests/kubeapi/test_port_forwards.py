"""The channels of a forwarded port, from a client's side."""

import pytest

from windlass.kubeapi import port_forwards
from windlass.kubeapi.port_forwards import Incoming, Piece

ANNOUNCED = [b"\0\x76\x17", b"\1\x76\x17"]

RECEIVED: dict[str, tuple[list[bytes], list[Piece]]] = {
    "announcements-alone": (ANNOUNCED, [Piece(), Piece()]),
    "data": ([*ANNOUNCED, b"\0a", b"\0b"], [Piece(), Piece(), Piece(data=b"a"), Piece(data=b"b")]),
    "with-the-announcement": ([b"\0\x76\x17abc"], [Piece(data=b"abc")]),
    "in-pieces": ([b"\0\x76", b"\0\x17a"], [Piece(), Piece(data=b"a")]),
    "error": (
        [*ANNOUNCED, b"\1refused: \xff\n"],
        [Piece(), Piece(), Piece(error="refused: \N{REPLACEMENT CHARACTER}")],
    ),
    "error-before-data": ([b"\1\x76\x17no"], [Piece(error="no")]),
    "unknown-channel": ([b"\2abc", b"\xffabc"], [Piece(), Piece()]),
    "empty": ([b"", b"\0", b"\1"], [Piece(), Piece(), Piece()]),
}


@pytest.mark.parametrize(("messages", "pieces"), RECEIVED.values(), ids=RECEIVED.keys())
def test_what_comes(messages: list[bytes], pieces: list[Piece]) -> None:
    incoming = Incoming()
    assert [incoming.piece(each) for each in messages] == pieces


def test_what_goes() -> None:
    assert port_forwards.message(b"abc") == b"\0abc"


def test_what_is_asked_for() -> None:
    request = port_forwards.request("default", "digits-tensorboard-0", 6006)
    assert request.path == "/api/v1/namespaces/default/pods/digits-tensorboard-0/portforward"
    assert (request.query, request.subresource) == ((("ports", "6006"),), "portforward")
