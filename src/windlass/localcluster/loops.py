"""How a loop of the cluster works off what it has to do."""

import asyncio
from typing import Protocol


class Worker(Protocol):
    @property
    def has_work(self) -> bool: ...

    def step(self) -> None:
        """Do one piece of the work. What fails is for the worker to deal with."""


async def work_off(worker: Worker, news: asyncio.Event) -> None:
    """Whenever there is news, step until there is nothing left to do; without end."""
    while True:
        await news.wait()
        news.clear()
        while worker.has_work:
            worker.step()
            # Requests come first: between two steps, whoever waits gets a turn.
            await asyncio.sleep(0)
