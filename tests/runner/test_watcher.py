"""Output of containers, read from a stream in pieces."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from windlass.kubeapi import access
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport
from windlass.runner import watcher


class InPieces(Transport):
    """A transport that responds with these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__(access.unix("/nonexistent/socket"))
        self.asked: list[Request] = []
        self._pieces = pieces

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Request, longest: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(request)
        yield self._answer()

    async def _answer(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


LINES = {
    "whole": ([b"a\nb\n"], ["a", "b"]),
    "pieces": ([b"a", b"b\n\nc"], ["ab", "", "c"]),
    "not-utf-8": ([b"\xc3", b"\xa4\xff\n"], ["ä\N{REPLACEMENT CHARACTER}"]),
    "long": ([b"x" * 70_000, b"\ny"], ["x" * 65_536, "x" * (70_000 - 65_536), "y"]),
    "empty": ([b""], []),
}


@pytest.mark.parametrize(("pieces", "expected"), LINES.values(), ids=LINES)
def test_lines_of_a_container(pieces: list[bytes], expected: list[str]) -> None:
    async def main() -> tuple[list[str], list[Request]]:
        async with InPieces(pieces) as transport:
            lines = [line async for line in watcher.follow_log(transport, "here", "digits-ps-0", "main")]
            return lines, transport.asked

    lines, (asked,) = asyncio.run(main())
    assert lines == expected
    assert asked.path == "/api/v1/namespaces/here/pods/digits-ps-0/log"
    assert dict(asked.query) == {"container": "main", "follow": "true"}
