"""How long a workload waits before it makes another pod in the place of one that failed. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from windlass.localcluster.controllers.workloads.observed import Pod

_FIRST = timedelta(seconds=10)
_LONGEST = timedelta(minutes=10)


def next_creation(failed: Iterable[Pod], succeeded: Iterable[Pod], now: datetime) -> datetime:
    """Ten seconds after the first failure since the last success, and twice as long with each that follows it."""
    last_success = max(map(_end, succeeded), default=None)
    since = [end for end in map(_end, failed) if last_success is None or end >= last_success]
    if not since:
        return now
    # The exponent is cut so that it stays a number.
    wait: timedelta = min(_FIRST * 2 ** min(len(since) - 1, 16), _LONGEST)
    return max(since) + wait


def replacement(pod: Pod) -> datetime:
    """When a pod that ended may be replaced by one of its name: one that ended at once would do so again."""
    return pod.created + _FIRST


def _end(pod: Pod) -> datetime:
    return pod.ended or pod.deleted or pod.created
