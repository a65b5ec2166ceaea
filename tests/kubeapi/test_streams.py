"""The channels of an exec, from a client's side."""

import json
from typing import Any

import pytest

from windlass.kubeapi import streams
from windlass.kubeapi.streams import Chunk, ChunkDecoder, ExecResult, Size

STATUSES: dict[str, tuple[Any, ExecResult]] = {
    "success": ({"metadata": {}, "status": "Success"}, ExecResult(0)),
    "exit-code": (
        {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": "command terminated",
            "details": {"causes": [{"reason": "ExitCode", "message": "42"}]},
        },
        ExecResult(42, "command terminated"),
    ),
    "never-started": (
        {"status": "Failure", "reason": "InternalError", "message": "no such file", "details": None},
        ExecResult(None, "no such file"),
    ),
    "causes-of-something-else": (
        {"status": "Failure", "message": "no", "details": {"causes": [{"reason": "X", "message": "7"}]}},
        ExecResult(None, "no"),
    ),
    "no-causes": (
        {"status": "Failure", "message": "no", "details": {"causes": None}},
        ExecResult(None, "no"),
    ),
    "no-words": ({"status": "Failure"}, ExecResult(None, "no reason given")),
}


@pytest.mark.parametrize(("status", "expected"), STATUSES.values(), ids=STATUSES.keys())
def test_result_of_a_process(status: Any, expected: ExecResult) -> None:
    assert streams.parse_result(json.dumps(status).encode()) == expected


def test_result_that_is_not_a_status() -> None:
    assert streams.parse_result(b"plain words") == ExecResult(None, "plain words")


def test_messages_have_a_channel() -> None:
    assert streams.message(streams.STDIN, b"a") == b"\0a"
    assert streams.parse_message(b"\1out") == (streams.STDOUT, b"out")
    assert streams.parse_message(b"") == (-1, b"")
    assert streams.resize_message(Size(80, 24)) == b'\4{"Width":80,"Height":24}'


@pytest.mark.parametrize(
    ("protocol", "sent"), [("v5.channel.k8s.io", b"\xff\0"), ("v4.channel.k8s.io", None)]
)
def test_end_of_input_depends_on_the_protocol(protocol: str, sent: bytes | None) -> None:
    assert streams.end_of_input(protocol) == sent


def test_exec_request() -> None:
    request = streams.exec_request("ns", "a pod", "main", ("sh", "-c", "a & b"), stdin=True, tty=True)
    assert request.path == "/api/v1/namespaces/ns/pods/a%20pod/exec"
    assert request.query == (
        ("command", "sh"),
        ("command", "-c"),
        ("command", "a & b"),
        ("container", "main"),
        ("stdout", "true"),
        ("stdin", "true"),
        ("tty", "true"),
    )
    plain = streams.exec_request("ns", "p", "main", ("true",), stdin=False, tty=False)
    assert plain.query[-2:] == (("stdout", "true"), ("stderr", "true"))


# Port forwarding

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
    assert streams.message(streams.PORT_DATA, b"abc") == b"\0abc"


def test_port_forward_request() -> None:
    request = streams.port_forward_request("default", "digits-tensorboard-0", 6006)
    assert request.path == "/api/v1/namespaces/default/pods/digits-tensorboard-0/portforward"
    assert (request.query, request.subresource) == ((("ports", "6006"),), "portforward")
