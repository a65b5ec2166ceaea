"""The delay before a workload replaces a failed pod. No function has side effects."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from windlass.localcluster.controllers.workloads.observed import Pod

_FIRST_DELAY = timedelta(seconds=10)
_MAX_DELAY = timedelta(minutes=10)


def next_creation_time(failed: Iterable[Pod], succeeded: Iterable[Pod], now: datetime) -> datetime:
    """Return when the next pod may be created. The delay starts at 10 s and doubles with each failure since the last
    success, up to 10 min."""
    last_success = max(map(_end, succeeded), default=None)
    failure_times = [end for end in map(_end, failed) if last_success is None or end >= last_success]
    if not failure_times:
        return now
    # The exponent is limited to avoid an overflow.
    wait: timedelta = min(_FIRST_DELAY * 2 ** min(len(failure_times) - 1, 16), _MAX_DELAY)
    return max(failure_times) + wait


def replacement_time(pod: Pod) -> datetime:
    """Return when a finished pod may be replaced by one of the same name."""
    return pod.created + _FIRST_DELAY


def _end(pod: Pod) -> datetime:
    return pod.ended or pod.deleted or pod.created
