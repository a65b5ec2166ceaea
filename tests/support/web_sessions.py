"""A synchronous aiohttp session with its own event loop."""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp


class WebSession:
    """Open until the end of the block."""

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
        """Set `_session`."""
        raise NotImplementedError
