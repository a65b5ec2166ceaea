"""How far a Deployment goes in one step from its former ReplicaSets to the new one. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from windlass.model.base import Json


class Size(msgspec.Struct, frozen=True):
    """Of a ReplicaSet: how many pods it is to have, how many it has, how many of them can be used, how many leave."""

    wanted: int
    there: int = 0
    available: int = 0
    leaving: int = 0


class Bounds(msgspec.Struct, frozen=True):
    """How many pods there may be on the way, and how many have to be available."""

    most: int
    least_available: int


def bounds(spec: Json) -> Bounds:
    """A share of the replicas is rounded up for those that are too many, and down for those that are missing."""
    replicas = spec["replicas"]
    rolling = spec["strategy"].get("rollingUpdate") or {}
    surge = _number(rolling.get("maxSurge", 0), replicas, rounds_up=True)
    unavailable = _number(rolling.get("maxUnavailable", 0), replicas, rounds_up=False)
    if not surge and not unavailable:
        # Both were rounded to nothing, with which nothing could ever change.
        unavailable = 1
    return Bounds(replicas + surge, replicas - min(unavailable, replicas))


def _number(value: int | str, replicas: int, *, rounds_up: bool) -> int:
    if isinstance(value, int):
        return value
    hundredths = int(value.removesuffix("%")) * replicas
    return -(-hundredths // 100) if rounds_up else hundredths // 100


def rolled(spec: Json, new: Size, former: Mapping[str, Size]) -> tuple[int, dict[str, int]]:
    """How large the new one and the former ones, the oldest first, are to be now."""
    limits = bounds(spec)
    sizes = {name: size.wanted for name, size in former.items()}
    total = new.wanted + sum(sizes.values())
    grown = max(min(spec["replicas"] - new.wanted, limits.most - total), 0)
    wanted = min(new.wanted, spec["replicas"]) + grown
    _shrink(sizes, new, list(former.items()), limits)
    return wanted, sizes


def _shrink(sizes: dict[str, int], new: Size, former: Sequence[tuple[str, Size]], limits: Bounds) -> None:
    """Those that cannot be used go first; then as many as can be done without."""
    total = new.wanted + sum(sizes.values())
    budget = total - limits.least_available - max(new.wanted - new.available, 0)
    for name, size in former:
        cut = max(min(size.wanted - size.available, budget), 0)
        sizes[name] -= cut
        budget -= cut
    spare = new.available + sum(size.available for _, size in former) - limits.least_available
    for name, _ in former:
        cut = max(min(sizes[name], spare, budget), 0)
        sizes[name] -= cut
        budget -= cut
        spare -= cut


def recreated(spec: Json, former: Mapping[str, Size]) -> tuple[int, dict[str, int]]:
    """The new one has pods when no pod of a former one is left."""
    is_empty = not any(size.wanted or size.there or size.leaving for size in former.values())
    return (spec["replicas"] if is_empty else 0), dict.fromkeys(former, 0)
