"""What the scheduler says of a pod: a condition in its status, and two events at most. Pure."""

import hashlib
from datetime import UTC, datetime

from windlass.localcluster.scheduling.placing import SCHEDULER
from windlass.model.base import Json

_SCHEDULED = "PodScheduled"
_LONGEST_NAME = 253
_LONGEST_MESSAGE = 1024


def message_of(pod: Json) -> str:
    """What its status says of why it has no node; nothing when it says nothing."""
    found = _condition(pod)
    return str(found.get("message", "")) if found.get("reason") == "Unschedulable" else ""


def with_condition(pod: Json, message: str, now: str) -> Json:
    """The pod with a condition that says why it has no node."""
    former = _condition(pod)
    was_false = former.get("status") == "False"
    condition = {
        "type": _SCHEDULED,
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": former.get("lastTransitionTime", now) if was_false else now,
        "reason": "Unschedulable",
        "message": message,
    }
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one.get("type") != _SCHEDULED]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def bound_event(pod: Json, node: str, time: datetime) -> Json:
    meta = pod["metadata"]
    message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
    return _event(pod, ("Normal", "Scheduled", "Binding"), message, time)


def failed_event(pod: Json, message: str, time: datetime) -> Json:
    return _event(pod, ("Warning", "FailedScheduling", "Scheduling"), message, time)


def repeated(event: Json, message: str, time: datetime) -> Json:
    """The event that there is, once more: of a pod that fits nowhere for a day there is one all the same."""
    count = (event.get("series") or {}).get("count", 1)
    series = {"count": count + 1, "lastObservedTime": _written(time)}
    return {**event, "message": _cut(message), "series": series}


def _event(pod: Json, sort: tuple[str, str, str], message: str, time: datetime) -> Json:
    type_, reason, action = sort
    meta = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(meta["name"], meta["uid"], reason), "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        },
        "type": type_,
        "reason": reason,
        "action": action,
        "message": _cut(message),
        "eventTime": _written(time),
        "reportingComponent": SCHEDULER,
        "reportingInstance": f"{SCHEDULER}-windlass",
        "source": {},
    }


def _name(pod: str, uid: str, reason: str) -> str:
    """The same for the same pod and reason, so that there is no second one."""
    digest = hashlib.blake2b(f"{uid}/{reason}".encode(), digest_size=8).hexdigest()
    return f"{pod[: _LONGEST_NAME - len(digest) - 1].rstrip('.-')}.{digest}"


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _LONGEST_MESSAGE:
        return message
    end = " ..."
    return encoded[: _LONGEST_MESSAGE - len(end)].decode(errors="ignore") + end


def _written(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _condition(pod: Json) -> Json:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == _SCHEDULED), {})
