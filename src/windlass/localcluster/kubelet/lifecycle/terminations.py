"""The termination of a pod: deletion, deadline or eviction, and its grace period."""

from datetime import datetime, timedelta

import msgspec

from windlass.k8s import times
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.lifecycle.records import Ending, PodRecord
from windlass.model.base import Json

# The minimum time between SIGTERM and SIGKILL, as in the kubelet.
MIN_GRACE_SECONDS = 2

EVICTED = "Evicted"

_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


def ending_of(pod: Json, record: PodRecord, now: datetime) -> Ending | None:
    """Return the termination of a pod; None if it is not terminating.

    A recorded termination takes precedence, so that setting the clock back does not cancel it. Next come an exceeded
    deadline and a deletion, in this order. A deletion can also shorten the grace period of the other terminations.
    """
    deletion = _deletion(pod)
    known = record.ending or _deadline_ending(pod, record, now)
    if known is None or deletion is None:
        return known or deletion
    grace = min(known.grace_seconds, deletion.grace_seconds)
    return msgspec.structs.replace(known, grace_seconds=grace)


def deadline(pod: Json, record: PodRecord) -> datetime | None:
    seconds = pod["spec"].get("activeDeadlineSeconds")
    start = times.parse_time(specs.status(pod).get("startTime")) or record.start_time
    return start + timedelta(seconds=seconds) if seconds is not None and start else None


def eviction(message: str) -> Ending:
    return Ending(MIN_GRACE_SECONDS, EVICTED, message)


def _deletion(pod: Json) -> Ending | None:
    meta = pod["metadata"]
    if not meta.get("deletionTimestamp"):
        return None
    grace = meta.get("deletionGracePeriodSeconds")
    return Ending(max(specs.grace_seconds(pod) if grace is None else grace, MIN_GRACE_SECONDS))


def _deadline_ending(pod: Json, record: PodRecord, now: datetime) -> Ending | None:
    moment = deadline(pod, record)
    if moment is None or now < moment:
        return None
    return Ending(max(specs.grace_seconds(pod), MIN_GRACE_SECONDS), "DeadlineExceeded", _DEADLINE_MESSAGE)
