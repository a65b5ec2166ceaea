"""A limit on concurrent requests that batches share in turns."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable


class FairSlots:
    """A semaphore that serves batches in rotation: a small batch does not wait for all requests of a large one."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        """The requests of each batch that wait for a slot, the next batch first. Empty while a slot is free."""

    @contextlib.asynccontextmanager
    async def slot(self, batch: Hashable) -> AsyncIterator[None]:
        await self._acquire(batch)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, batch: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(batch, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            was_granted = granted.done() and not granted.cancelled()
            if was_granted:
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            batch, requests = self._waiting.popitem(last=False)
            granted = requests.popleft()
            if requests:
                self._waiting[batch] = requests
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1
