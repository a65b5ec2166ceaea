"""Events about pods and workloads, as the components of a cluster record them; what is told is theirs to say.

There are two sorts. The older one counts how often the same was said of the same object; the kubelet's are of it. The
newer one has an action and a series, whose message may change; the scheduler's are of it. The name of an event follows
from what it is about, so that what repeats is counted without anything being remembered here, over restarts too.
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
_LONGEST_NAME = 253
_LONGEST_MESSAGE = 1024
# So many messages of one sort may differ in so long a time, as in Kubernetes; from then on one event stands for all.
MOST_SIMILAR = 10
_SIMILAR_WITHIN = timedelta(minutes=10)
_MOST_SORTS = 4096
COMBINED = "(combined from similar events): "

Sort = tuple[str, ...]


class EventRecorder:
    """Of one component on one host. Events are a courtesy: one that is refused, as in a namespace that is going, keeps
    nothing from happening. When nothing can be stored at all, a StoreError says so as anywhere."""

    def __init__(self, lifecycle: Lifecycle, component: str, host: str) -> None:
        self._lifecycle = lifecycle
        self._component = component
        self._host = host
        self._similar = _Similar()

    def record(self, pod: Json, type_: str, reason: str, message: str, field_path: str = "") -> None:
        """Once more, if it was said before."""
        time = self._lifecycle.clock()
        sort = (pod["metadata"]["uid"], self._component, type_, reason, field_path)
        shown = self._similar.shown(sort, message, time)
        # What stands for many has one name, whatever it says.
        parts = sort if shown.startswith(COMBINED) else (*sort, shown)
        event = self._event(pod, type_, reason, shown, parts)
        if field_path:
            event["involvedObject"]["fieldPath"] = field_path
        event |= {
            "source": {"component": self._component, "host": self._host},
            "firstTimestamp": format_time(time),
            "lastTimestamp": format_time(time),
            "count": 1,
        }
        self._put(event, lambda known: _counted(known, event))

    def record_series(self, pod: Json, type_: str, reason: str, action: str, message: str) -> None:
        """One event for each reason, however often and with whatever message: of a pod that fits nowhere for a day
        there is one all the same."""
        time = format_micro_time(self._lifecycle.clock())
        event = self._event(pod, type_, reason, message, (pod["metadata"]["uid"], reason))
        event |= {"action": action, "eventTime": time, "source": {}}
        self._put(event, lambda known: _continued(known, event))

    def _event(self, pod: Json, type_: str, reason: str, message: str, parts: Sort) -> Json:
        meta = pod["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": _name(meta["name"], parts), "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": pod.get("apiVersion", "v1"),
                "kind": pod.get("kind", "Pod"),
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            },
            "type": type_,
            "reason": reason,
            "message": _cut(message),
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    def _put(self, event: Json, repeated: Callable[[Json], Json]) -> None:
        kind = self._lifecycle.registry.find_by_resource(_EVENTS)
        assert kind is not None  # noqa: S101 — it stands in the table
        name, namespace = event["metadata"]["name"], event["metadata"]["namespace"]
        try:
            if self._lifecycle.store.get(_EVENTS, object_key(namespace, name)) is None:
                self._lifecycle.create(kind, namespace, event, WriteOptions())
            else:
                self._lifecycle.amend(kind, namespace, name, repeated)
        except ApiError as error:
            logger.debug("no event about %s: %s", name, error.message)


class _Similar:
    """Which messages of one sort were said of late. Of too many sorts, the oldest are forgotten."""

    def __init__(self) -> None:
        self._said: OrderedDict[Sort, tuple[datetime, set[str]]] = OrderedDict()

    def shown(self, sort: Sort, message: str, now: datetime) -> str:
        last, messages = self._said.pop(sort, (now, set[str]()))
        if abs(now - last) > _SIMILAR_WITHIN:
            messages = set()
        is_one_too_many = message not in messages and len(messages) >= MOST_SIMILAR
        if not is_one_too_many:
            messages.add(message)
        self._said[sort] = (now, messages)
        if len(self._said) > _MOST_SORTS:
            self._said.popitem(last=False)
        return COMBINED + message if is_one_too_many else message


def _counted(known: Json, event: Json) -> Json:
    return {
        **known,
        "message": event["message"],
        "count": (known.get("count") or 1) + 1,
        "lastTimestamp": event["lastTimestamp"],
    }


def _continued(known: Json, event: Json) -> Json:
    count = (known.get("series") or {}).get("count", 1)
    series = {"count": count + 1, "lastObservedTime": event["eventTime"]}
    return {**known, "message": event["message"], "series": series}


def _name(pod: str, parts: Sort) -> str:
    digest = hashlib.blake2b("/".join(parts).encode(), digest_size=8).hexdigest()
    return f"{pod[: _LONGEST_NAME - len(digest) - 1].rstrip('.-')}.{digest}"


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _LONGEST_MESSAGE:
        return message
    end = " ..."
    return encoded[: _LONGEST_MESSAGE - len(end)].decode(errors="ignore") + end
