"""The restart back-off of containers.

The first restart is immediate, the second is delayed by `_BASE`, and each further one by twice the previous delay, up
to `_LIMIT`. A run that lasted longer than `_RESET_AFTER` resets the back-off.

A start that fails because of configuration, a volume or an image is retried after `_BASE`.
"""

from datetime import datetime, timedelta

from windlass.k8s import times
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, Terminated, Waiting
from windlass.model.base import Json

_BASE = timedelta(seconds=10)
_LIMIT = timedelta(seconds=300)
_RESET_AFTER = timedelta(minutes=10)


def next_delay(container: ContainerRecord) -> timedelta:
    """Return the delay before the restart that follows the next run, if that run starts now."""
    end = container.latest_end
    if end is None:
        return timedelta()
    latest = timedelta(seconds=container.back_off_seconds)
    return _BASE if not latest or _is_reset(end) else min(2 * latest, _LIMIT)


def restart_time(container: ContainerRecord, now: datetime) -> datetime | None:
    """Return when the container may be restarted; None for immediately.

    If the recorded time is in the future, the clock was set back: the container may then restart immediately.
    """
    start, delay = None, _BASE
    match container.current:
        case Waiting(since=since):
            start = since
        case Terminated(finished_at=finished_at) as end if not _is_reset(end):
            start, delay = finished_at, timedelta(seconds=container.back_off_seconds)
    return start + delay if start and start <= now < start + delay else None


def _is_reset(end: Terminated) -> bool:
    if end.started_at is None or end.finished_at is None:
        return False
    return end.finished_at - end.started_at > _RESET_AFTER


def waiting_message(pod: Json, container: ContainerRecord) -> str:
    delay = times.format_duration(timedelta(seconds=container.back_off_seconds))
    return f"back-off {delay} restarting failed container={container.name} pod={specs.full_name(pod)}"


def event_message(pod: Json, container: ContainerRecord) -> str:
    return f"Back-off restarting failed container {container.name} in pod {specs.full_name(pod)}"
