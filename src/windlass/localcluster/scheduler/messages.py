"""What the scheduler says of a pod: a condition in its status, and the words of its events. Pure."""

from windlass.model.base import Json

_SCHEDULED = "PodScheduled"


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


def bound_message(pod: Json, node: str) -> str:
    meta = pod["metadata"]
    return f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"


def _condition(pod: Json) -> Json:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == _SCHEDULED), {})
