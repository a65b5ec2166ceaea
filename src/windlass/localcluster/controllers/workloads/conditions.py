"""Conditions in the status of a workload. No function has side effects."""

from collections.abc import Iterable

from windlass.model.base import Json


def find(conditions: Iterable[Json] | None, condition_type: str) -> Json | None:
    return next((one for one in conditions or () if one.get("type") == condition_type), None)


def is_true(conditions: Iterable[Json] | None, condition_type: str) -> bool:
    return (find(conditions, condition_type) or {}).get("status") == "True"


def condition(
    condition_type: str, status: str, reason: str, message: str, now: str, *, time_field: str
) -> Json:
    """Return a condition. `time_field` is the name of its second time field, lastProbeTime or lastUpdateTime."""
    return {
        "type": condition_type,
        "status": status,
        time_field: now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def with_condition(conditions: Iterable[Json] | None, new: Json) -> list[Json]:
    """Return the conditions with `new` added, or in place of the one of the same type.

    The times stay if status, reason and message are the same. lastTransitionTime changes only with the status.
    """
    existing = list(conditions or ())
    former = find(existing, new["type"])
    if former is None:
        return [*existing, new]
    if all(former.get(key) == new[key] for key in ("status", "reason", "message")):
        return existing
    if former.get("status") == new["status"]:
        new = {**new, "lastTransitionTime": former.get("lastTransitionTime", new["lastTransitionTime"])}
    return [new if one.get("type") == new["type"] else one for one in existing]
