"""A session of aiohttp with a loop of its own, for tests that do one thing after the other."""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp


class WebSession:
    """Open as long as the block lasts."""

    _session: aiohttp.ClientSession

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.__enter__()
        self._runner.run(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._session.close())
        finally:
            self._runner.__exit__(kind, error, trace)

    async def _open(self) -> None:
        """Sets `_session`."""
        raise NotImplementedError
