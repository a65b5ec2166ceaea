"""Events are kept for an hour after what they last told of, as in every Kubernetes: else they would fill the store."""

import asyncio
import logging
from datetime import timedelta

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.lifecycle import Lifecycle, format_time
from windlass.localcluster.apiserver.options import DeleteOptions
from windlass.localcluster.apiserver.strategy import Object
from windlass.localcluster.store_types import StoreError

logger = logging.getLogger(__name__)

KEPT = timedelta(hours=1)
_SECONDS_BETWEEN_LOOKS = 60.0


class Expiry:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            try:
                self.sweep()
            except (ApiError, StoreError) as error:
                logger.warning("old events could not be removed: %s", error)

    def sweep(self) -> None:
        kind = self._lifecycle.registry.find_by_resource("events")
        oldest = format_time(self._lifecycle.clock() - KEPT)
        for body in self._lifecycle.store.all("events"):
            event = bodies.decode_stored(body)
            if kind is not None and _last_told(event) < oldest:
                meta = event["metadata"]
                self._lifecycle.delete(kind, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"]))


def _last_told(event: Object) -> str:
    """When it last happened. Times are written so that they sort as text."""
    series = event.get("series") or {}
    times = (
        event["metadata"]["creationTimestamp"],
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max(str(time) for time in times if time)
