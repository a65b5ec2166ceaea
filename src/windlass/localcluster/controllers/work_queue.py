"""Base classes of the embedded cluster's controllers: a control loop, and a controller with a queue of objects."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import StoreError

logger = logging.getLogger(__name__)

ObjectRef = tuple[str, str]
"""The resource of an object and its key."""


class ControlLoop:
    """Calls `step` while there is work; otherwise waits for `_wake_event`."""

    def __init__(self) -> None:
        self._wake_event = asyncio.Event()

    @property
    def has_work(self) -> bool:
        raise NotImplementedError

    def step(self) -> None:
        """Process one item and handle its errors."""
        raise NotImplementedError

    async def run(self) -> None:
        while True:
            await self._wake_event.wait()
            self._wake_event.clear()
            while self.has_work:
                self.step()
                # API requests have priority: yield to the event loop between two steps.
                await asyncio.sleep(0)


class QueueController(ControlLoop):
    """Reconciles queued objects in order of arrival. An object that is already queued is not queued again."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._refs: OrderedDict[ObjectRef, None] = OrderedDict()

    def _reconcile(self, ref: ObjectRef) -> None:
        raise NotImplementedError

    def _on_rejected(self, ref: ObjectRef, error: ApiError) -> None:
        """Handle an ApiError that `_reconcile` raised."""
        raise NotImplementedError

    def _retry(self, ref: ObjectRef) -> None:
        """Requeue an object later, because its changes could not be stored."""
        raise NotImplementedError

    @property
    def has_work(self) -> bool:
        return bool(self._refs)

    def _enqueue(self, ref: ObjectRef) -> None:
        self._refs.setdefault(ref)
        self._wake_event.set()

    def step(self) -> None:
        ref, _ = self._refs.popitem(last=False)
        try:
            self._reconcile(ref)
        except ApiError as error:
            self._on_rejected(ref, error)
        except StoreError as error:
            self._after_commit(ref, error)
        except Exception:
            logger.exception("cannot reconcile %s %s", *ref)
        if not self._store.is_committed:
            self._store.on_commit(lambda failure: self._after_commit(ref, failure))

    def _after_commit(self, ref: ObjectRef, failure: StoreError | None) -> None:
        if failure is not None:
            logger.warning("%s %s is retried: %s", *ref, failure)
            self._retry(ref)


def call_later(seconds: float, callback: Callable[..., None], *args: Any) -> asyncio.TimerHandle | None:
    """Call `callback` after `seconds`, or at once if no event loop is running."""
    try:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)
    except RuntimeError:
        callback(*args)
        return None
