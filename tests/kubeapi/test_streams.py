"""The channels of an exec, from a client's side."""

import json
from typing import Any

import pytest

from windlass.kubeapi import streams
from windlass.kubeapi.streams import ExecResult, Size

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
