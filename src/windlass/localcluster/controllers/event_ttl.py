"""Delete events one hour after their last occurrence, as Kubernetes does."""

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

EVENT_TTL = timedelta(hours=1)
_INTERVAL_SECONDS = 60.0


async def run(lifecycle: Lifecycle) -> None:
    while True:
        await asyncio.sleep(_INTERVAL_SECONDS)
        try:
            delete_expired(lifecycle)
        except (ApiError, StoreError) as error:
            logger.warning("cannot delete expired events: %s", error)


def delete_expired(lifecycle: Lifecycle) -> None:
    kind = lifecycle.registry.built_in("events")
    oldest = format_time(lifecycle.clock() - EVENT_TTL)
    for body in lifecycle.store.all("events"):
        event = bodies.decode_stored(body)
        if _last_occurrence(event) < oldest:
            meta = event["metadata"]
            lifecycle.delete(kind, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"]))


def _last_occurrence(event: Object) -> str:
    """Return the time of the last occurrence. Times in this format can be compared as text."""
    series = event.get("series") or {}
    times = (
        event["metadata"]["creationTimestamp"],
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max(str(time) for time in times if time)
