"""The source and the length of termination messages."""

import pytest

from windlass.localcluster.kubelet.lifecycle import termination_message

LOG = [b"line %d\n" % number for number in range(100)]


@pytest.mark.parametrize(
    ("policy", "file", "log", "code", "expected"),
    [
        ("File", b"why", LOG, 1, "why"),
        ("File", b"", LOG, 1, ""),
        ("FallbackToLogsOnError", b"why", LOG, 1, "why"),
        ("FallbackToLogsOnError", b"", LOG, 0, ""),
        ("FallbackToLogsOnError", b"", LOG, 1, b"".join(LOG[-80:]).decode()),
        ("FallbackToLogsOnError", b"", [b"x" * 5000], 1, "x" * 2048),
        ("FallbackToLogsOnError", b"", [], 1, ""),
        ("File", b"a" + b"b" * 4096, [], 0, "b" * 4096),
        ("File", "é".encode() * 2048 + b"x", [], 0, "é" * 2047 + "x"),
    ],
)
def test_message(policy: str, file: bytes, log: list[bytes], code: int, expected: str) -> None:
    assert termination_message.message(policy, file, log, exit_code=code) == expected


@pytest.mark.parametrize(
    ("containers", "bytes_left"), [(1, 4096), (3, 4096), (4, 3072), (24, 512), (0, 4096)]
)
def test_limited(containers: int, bytes_left: int) -> None:
    assert len(termination_message.limited("x" * 4096, containers)) == bytes_left
