"""Conditions in the status of a workload. Pure."""

from collections.abc import Iterable

from windlass.model.base import Json


def find(conditions: Iterable[Json] | None, kind: str) -> Json | None:
    return next((one for one in conditions or () if one.get("type") == kind), None)


def is_true(conditions: Iterable[Json] | None, kind: str) -> bool:
    return (find(conditions, kind) or {}).get("status") == "True"


def condition(kind: str, status: str, reason: str, message: str, now: str, *, stamp: str) -> Json:
    """Return a condition. `stamp` is the name of its second time field, lastProbeTime or lastUpdateTime."""
    return {
        "type": kind,
        "status": status,
        stamp: now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def with_one(conditions: Iterable[Json] | None, new: Json) -> list[Json]:
    """Return the conditions with one added or replaced. Its times stay if nothing else changed."""
    existing = list(conditions or ())
    former = find(existing, new["type"])
    if former is None:
        return [*existing, new]
    if all(former.get(key) == new[key] for key in ("status", "reason", "message")):
        return existing
    if former.get("status") == new["status"]:
        new = {**new, "lastTransitionTime": former.get("lastTransitionTime", new["lastTransitionTime"])}
    return [new if one.get("type") == new["type"] else one for one in existing]
