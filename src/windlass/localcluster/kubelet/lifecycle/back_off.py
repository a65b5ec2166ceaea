"""The restart back-off of containers.

The first restart is immediate, the second waits for the base, each further one twice as long up to the limit. A run
that lasted long enough resets the back-off.
"""

from datetime import datetime, timedelta

import msgspec

from windlass.k8s import times
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, Terminated, Waiting
from windlass.model.base import Json


class BackOff(msgspec.Struct, frozen=True):
    base: timedelta = timedelta(seconds=10)
    limit: timedelta = timedelta(seconds=300)
    reset_after: timedelta = timedelta(minutes=10)


KUBELET = BackOff()


def next_delay(container: ContainerRecord, policy: BackOff) -> timedelta:
    """Return the back-off after the next run if the container is started now."""
    end = container.latest_end
    if end is None:
        return timedelta()
    earlier = timedelta(seconds=container.back_off_seconds)
    if not earlier or _is_reset(end, policy):
        return min(policy.base, policy.limit)
    return min(2 * earlier, policy.limit)


def ends_at(container: ContainerRecord, policy: BackOff) -> datetime | None:
    """Return when the container may be restarted; None for immediately."""
    current = container.current
    if isinstance(current, Waiting):
        return current.since + policy.base if current.since else None
    if not isinstance(current, Terminated) or current.finished_at is None or _is_reset(current, policy):
        return None
    return current.finished_at + timedelta(seconds=container.back_off_seconds)


def remaining_until(container: ContainerRecord, now: datetime, policy: BackOff) -> datetime | None:
    """Return `ends_at`, or None if it has passed.

    An end in the future was recorded before the clock was set back: restart early rather than wait for hours.
    """
    moment = ends_at(container, policy)
    if moment is None or moment <= now or _began(container, now) > now:
        return None
    return moment


def _began(container: ContainerRecord, now: datetime) -> datetime:
    current = container.current
    if isinstance(current, Terminated):
        return current.finished_at or now
    return (current.since if isinstance(current, Waiting) else None) or now


def _is_reset(end: Terminated, policy: BackOff) -> bool:
    if end.started_at is None or end.finished_at is None:
        return False
    return end.finished_at - end.started_at > policy.reset_after


def waiting_message(pod: Json, container: ContainerRecord) -> str:
    delay = times.format_duration(timedelta(seconds=container.back_off_seconds))
    return f"back-off {delay} restarting failed container={container.name} pod={specs.full_name(pod)}"


def event_message(pod: Json, container: ContainerRecord) -> str:
    """Return the message of the event `BackOff`."""
    return f"Back-off restarting failed container {container.name} in pod {specs.full_name(pod)}"
