"""The queue and the loop of a controller of the embedded cluster."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

ObjectRef = tuple[str, str]
"""The resource of an object and its key."""


class Worker(Protocol):
    @property
    def has_work(self) -> bool: ...

    def step(self) -> None:
        """Process one item and handle its errors."""


class WorkQueue:
    """Objects to reconcile, each once, in order of arrival."""

    def __init__(self) -> None:
        self.wake_event = asyncio.Event()
        self._refs: OrderedDict[ObjectRef, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._refs)

    def add(self, ref: ObjectRef) -> None:
        self._refs.setdefault(ref)
        self.wake_event.set()

    def take(self) -> ObjectRef:
        return self._refs.popitem(last=False)[0]


async def run(worker: Worker, wake_event: asyncio.Event) -> None:
    """Step whenever the event is set, until no work is left; never return."""
    while True:
        await wake_event.wait()
        wake_event.clear()
        while worker.has_work:
            worker.step()
            # Requests come first: yield to the event loop between two steps.
            await asyncio.sleep(0)


def call_later(seconds: float, callback: Callable[..., None], *args: Any) -> asyncio.TimerHandle | None:
    """Call back after some seconds, or at once if no event loop is running."""
    try:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)
    except RuntimeError:
        callback(*args)
        return None
