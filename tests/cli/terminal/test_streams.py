"""Streams of `windlass exec`."""

import asyncio
import contextlib
import io
import sys

import pytest

from windlass.cli.terminal import streams

PIECES = (b"\x1b]0;title\x07\x1b[31mred\xe2", b"\x80\xae caf\xc3", b"\xa9\r\n10%\r20%\x1b", b"[2J\xff\n")


class Stream(io.TextIOWrapper):
    def __init__(self, *, is_terminal: bool) -> None:
        self.written = io.BytesIO()
        self._is_terminal = is_terminal
        super().__init__(self.written)

    def isatty(self) -> bool:
        return self._is_terminal


def written(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, tty: bool) -> list[bytes]:
    """Return what a command writes to standard output and standard error."""
    local = [Stream(is_terminal=is_terminal) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", local[0])
    monkeypatch.setattr(sys, "stderr", local[1])
    # The size of a terminal that does not exist cannot be read.
    monkeypatch.setattr(streams, "_terminal_sizes", contextlib.nullcontext)

    async def work() -> None:
        with streams.local_streams(has_stdin=False, tty=tty) as found:
            for piece in PIECES:
                found.stdout(piece)
                found.stderr(piece)

    asyncio.run(work())
    return [stream.written.getvalue() for stream in local]


def test_output_on_a_terminal_has_only_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "\x1b[31mred\x1b[0m caf\xe9\n10%\n20%[2J\ufffd\n".encode()
    assert written(monkeypatch, is_terminal=True, tty=False) == [expected, expected]


@pytest.mark.parametrize(("is_terminal", "tty"), [(False, False), (True, True)], ids=["pipe", "tty"])
def test_output_is_unchanged_in_a_pipe_and_with_tty(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, tty: bool
) -> None:
    assert written(monkeypatch, is_terminal=is_terminal, tty=tty) == [b"".join(PIECES)] * 2
