"""How a loop of the cluster works off what it has to do."""

import asyncio
from collections import OrderedDict
from typing import Protocol

ObjectRef = tuple[str, str]
"""The resource of an object, and its key."""


class Worker(Protocol):
    @property
    def has_work(self) -> bool: ...

    def step(self) -> None:
        """Do one piece of the work. What fails is for the worker to deal with."""


class Queue:
    """What is still to be looked at, each once, in the order in which it came."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._keys: OrderedDict[ObjectRef, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, ref: ObjectRef) -> None:
        self._keys.setdefault(ref)
        self.news.set()

    def take(self) -> ObjectRef:
        return self._keys.popitem(last=False)[0]


async def work_off(worker: Worker, news: asyncio.Event) -> None:
    """Whenever there is news, step until there is nothing left to do; without end."""
    while True:
        await news.wait()
        news.clear()
        while worker.has_work:
            worker.step()
            # Requests come first: between two steps, whoever waits gets a turn.
            await asyncio.sleep(0)
