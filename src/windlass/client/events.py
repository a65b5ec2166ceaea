"""Read the Kubernetes events of a job and its pods, oldest first. Repeated events are merged.

The API server keeps events for an hour by default.
"""

import contextlib
import itertools
import re
from collections.abc import AsyncGenerator, Iterable
from datetime import UTC, datetime

import msgspec

from windlass.client import lookup, watch
from windlass.client.connection import Connection
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi.reflector import Changed, Deleted, Listed
from windlass.kubeapi.resources import EVENTS
from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.framework import Framework

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LIFE = ("FailedScheduling", "Scheduled", "Pulling", "Pulled", "Created", "Started")
"""Reasons of the events of a pod in their order. Different components report them, in requests that overtake others."""


class Event(msgspec.Struct, frozen=True):
    """An event, which may have occurred several times."""

    first: datetime
    last: datetime
    count: int
    type: str
    """Normal or Warning."""
    reason: str
    object: str
    """Name of the job or of a task, e.g. `worker-1`."""
    message: str
    uid: str = ""
    """UID of the Framework or of the pod. A retried task has another pod."""

    @property
    def is_warning(self) -> bool:
        return self.type == "Warning"


# Events as the API server returns them


class _Involved(Sparse, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Series(Sparse, frozen=True):
    count: int = 0
    last_observed_time: datetime | None = None


class ApiEvent(Sparse, frozen=True):
    """An event of any object in the namespace."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: _Involved = _Involved()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None

    @property
    def first(self) -> datetime:
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp or _EARLIEST

    @property
    def last(self) -> datetime:
        observed = self.series.last_observed_time if self.series is not None else None
        return observed or self.last_timestamp or self.first

    @property
    def occurrence_count(self) -> int:
        return (self.series.count if self.series is not None else 0) or self.count or 1


decode = msgspec.json.Decoder(ApiEvent).decode


def _task_of(framework: Framework, pod: str) -> str:
    """Return the task of the pod with this name, which may be deleted; empty for a pod that runs no task of the job."""
    roles = {role.name for role in framework.spec.task_roles}
    found = re.fullmatch(rf"{re.escape(framework.name)}-(([a-z0-9]{{1,63}})-[0-9]{{1,5}})", pod)
    return found[1] if found and found[2] in roles else ""


def _event_of(framework: Framework, event: ApiEvent) -> Event | None:
    """Convert an event of the API server. Return None for an event of another object, e.g. of an earlier job."""
    involved = event.involved_object
    if involved.kind == names.KIND:
        is_same = involved.name == framework.name and involved.uid in ("", framework.uid)
        subject = framework.name if is_same else ""
    elif involved.kind == "Pod":
        created = framework.metadata.creation_timestamp or _EARLIEST
        subject = _task_of(framework, involved.name) if event.last >= created else ""
    else:
        subject = ""
    if not subject:
        return None
    return Event(
        event.first,
        event.last,
        event.occurrence_count,
        event.type,
        event.reason,
        subject,
        event.message,
        involved.uid,
    )


def merge_repeated(events: Iterable[Event]) -> list[Event]:
    """Merge repeated events, add up their counts, and sort them."""
    merged: dict[tuple[str, str, str, str], Event] = {}
    for event in events:
        key = (event.uid, event.object, event.reason, event.message)
        previous = merged.get(key)
        if previous is not None:
            event = msgspec.structs.replace(
                event,
                first=min(previous.first, event.first),
                last=max(previous.last, event.last),
                count=previous.count + event.count,
            )
        merged[key] = event
    return in_order(merged.values())


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sort events by the second of `last`, with a stable sort. Those of a pod in the same second follow its life."""
    by_second = sorted(events, key=_second)
    return [event for _, group in itertools.groupby(by_second, _second) for event in _in_order_of_life(group)]


def _second(event: Event) -> datetime:
    """Return the time without its fraction, which only some components report."""
    return event.last.replace(microsecond=0)


def _in_order_of_life(same_second: Iterable[Event]) -> list[Event]:
    """Sort the events of each pod, without a change of the places that they have among the others."""
    events = list(same_second)
    by_uid: dict[str, list[Event]] = {}
    for event in events:
        by_uid.setdefault(event.uid, []).append(event)
    sorted_events = {uid: iter(sorted(each, key=_life_stage)) for uid, each in by_uid.items()}
    return [next(sorted_events[event.uid]) for event in events]


def _life_stage(event: Event) -> int:
    return _LIFE.index(event.reason) if event.reason in _LIFE else len(_LIFE)


async def read(connection: Connection, framework: Framework) -> list[Event]:
    """Return the events of the job and its pods. Raises the errors of `Connection.send`."""
    listed = await lookup.list_objects(connection, EVENTS, connection.namespace)
    found = (_event_of(framework, event) for event in _decode_in_order(listed))
    return merge_repeated(event for event in found if event is not None)


def _decode_in_order(listed: Iterable[msgspec.Raw]) -> list[ApiEvent]:
    """Decode events and sort them by resource version: times have a resolution of seconds."""

    def order(event: ApiEvent) -> int:
        version = event.metadata.resource_version
        return int(version) if version.isdecimal() else 0

    return sorted(map(decode, listed), key=order)


async def follow(connection: Connection, framework: Framework) -> AsyncGenerator[Event, None]:
    """Yield existing events, then new and repeated ones, without end. Raises ApiError."""
    counts: dict[tuple[str, datetime], int] = {}

    def new_events(api_event: ApiEvent) -> list[Event]:
        event = _event_of(framework, api_event)
        is_new = counts.get((api_event.metadata.uid, api_event.last), 0) < api_event.occurrence_count
        counts[api_event.metadata.uid, api_event.last] = api_event.occurrence_count
        return [event] if event is not None and is_new else []

    async with contextlib.aclosing(watch.watch_objects(connection, EVENTS)) as changes:
        async for change in changes:
            match change:
                case Listed(items=items):
                    events = merge_repeated(
                        event for api_event in _decode_in_order(items) for event in new_events(api_event)
                    )
                case Changed(object=body):
                    events = new_events(decode(body))
                case Deleted():
                    events = []
            for event in events:
                yield event
