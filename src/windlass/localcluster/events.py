"""Record events about pods and workloads, as the components of a cluster do.

There are two styles. The older one counts repetitions of the same message; the kubelet and the workload controllers
use it. The newer one has an action and a series whose message may change; the scheduler uses it. The name of an event
contains a hash of its identity: the object, the reason and, in the older style, component, type, field path and
(except for combined events) message. A repeated event therefore updates the stored event, also after a restart.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta

from windlass.k8s.api_errors import ApiError
from windlass.k8s.times import format_micro_time
from windlass.localcluster.apiserver.lifecycle import Lifecycle, format_time
from windlass.localcluster.apiserver.options import WriteOptions
from windlass.localcluster.store_types import object_key
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_EVENTS = "events"
_MAX_NAME_LENGTH = 253
_MAX_MESSAGE_BYTES = 1024
# As in Kubernetes: if more than MAX_SIMILAR different messages with the same key arrive, each within _SIMILAR_WITHIN of
# the previous one, the further ones are combined into one event.
MAX_SIMILAR = 10
_SIMILAR_WITHIN = timedelta(minutes=10)
_MAX_EVENT_KEYS = 4096
COMBINED = "(combined from similar events): "

EventKey = tuple[str, ...]


class EventRecorder:
    """Records the events of one component on one host. A rejected event, e.g. in a terminating namespace, is ignored; a
    StoreError is raised if nothing can be stored."""

    def __init__(self, lifecycle: Lifecycle, component: str, host: str) -> None:
        self._lifecycle = lifecycle
        self._component = component
        self._host = host
        self._similar = _SimilarEvents()

    def record(self, obj: Json, type_: str, reason: str, message: str, field_path: str = "") -> None:
        """Record an event, or count it if the same event was recorded before."""
        time = self._lifecycle.clock()
        event_key = (obj["metadata"]["uid"], self._component, type_, reason, field_path)
        message = self._similar.combine(event_key, message, time)
        # A combined event has one name, whatever its message.
        identity = event_key if message.startswith(COMBINED) else (*event_key, message)
        event = self._event(obj, type_, reason, message, identity)
        if field_path:
            event["involvedObject"]["fieldPath"] = field_path
        event |= {
            "source": {"component": self._component, "host": self._host},
            "firstTimestamp": format_time(time),
            "lastTimestamp": format_time(time),
            "count": 1,
        }
        self._put(event, lambda stored: _with_count(stored, event))

    def record_series(self, obj: Json, type_: str, reason: str, action: str, message: str) -> None:
        """Record one event per object and reason, with the last message, e.g. for a pod that stays unschedulable."""
        time = format_micro_time(self._lifecycle.clock())
        event = self._event(obj, type_, reason, message, (obj["metadata"]["uid"], reason))
        event |= {"action": action, "eventTime": time, "source": {}}
        self._put(event, lambda stored: _with_series(stored, event))

    def _event(self, obj: Json, type_: str, reason: str, message: str, identity: tuple[str, ...]) -> Json:
        meta = obj["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": _name(meta["name"], identity), "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": obj.get("apiVersion", "v1"),
                "kind": obj.get("kind", "Pod"),
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            },
            "type": type_,
            "reason": reason,
            "message": _truncate(message),
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    def _put(self, event: Json, update_existing: Callable[[Json], Json]) -> None:
        kind = self._lifecycle.registry.built_in(_EVENTS)
        name, namespace = event["metadata"]["name"], event["metadata"]["namespace"]
        try:
            if self._lifecycle.store.get(_EVENTS, object_key(namespace, name)) is None:
                self._lifecycle.create(kind, namespace, event, WriteOptions())
            else:
                self._lifecycle.amend(kind, namespace, name, update_existing)
        except ApiError as error:
            logger.debug("cannot record event %s: %s", name, error.message)


class _SimilarEvents:
    """The recent messages of each event key. The least recently used keys are dropped."""

    def __init__(self) -> None:
        self._messages: OrderedDict[EventKey, tuple[datetime, set[str]]] = OrderedDict()

    def combine(self, event_key: EventKey, message: str, now: datetime) -> str:
        """Return the message, with the prefix COMBINED if the event has to be combined with earlier ones."""
        last, messages = self._messages.pop(event_key, (now, set[str]()))
        if abs(now - last) > _SIMILAR_WITHIN:
            messages = set()
        is_combined = message not in messages and len(messages) >= MAX_SIMILAR
        if not is_combined:
            messages.add(message)
        self._messages[event_key] = (now, messages)
        if len(self._messages) > _MAX_EVENT_KEYS:
            self._messages.popitem(last=False)
        return COMBINED + message if is_combined else message


def _with_count(stored: Json, event: Json) -> Json:
    return {
        **stored,
        "message": event["message"],
        "count": (stored.get("count") or 1) + 1,
        "lastTimestamp": event["lastTimestamp"],
    }


def _with_series(stored: Json, event: Json) -> Json:
    count = (stored.get("series") or {}).get("count", 1)
    series = {"count": count + 1, "lastObservedTime": event["eventTime"]}
    return {**stored, "message": event["message"], "series": series}


def _name(object_name: str, identity: tuple[str, ...]) -> str:
    digest = hashlib.blake2b("/".join(identity).encode(), digest_size=8).hexdigest()
    return f"{object_name[: _MAX_NAME_LENGTH - len(digest) - 1].rstrip('.-')}.{digest}"


def _truncate(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _MAX_MESSAGE_BYTES:
        return message
    end = " ..."
    return encoded[: _MAX_MESSAGE_BYTES - len(end)].decode(errors="ignore") + end
