"""Compute one step of a Deployment's rollout from its former ReplicaSets to the new one. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from windlass.model.base import Json


class Size(msgspec.Struct, frozen=True):
    """The pods of a ReplicaSet: desired, current, available and terminating."""

    desired: int
    current: int = 0
    available: int = 0
    terminating: int = 0


class Bounds(msgspec.Struct, frozen=True):
    """The maximum number of pods during a rollout, and the minimum number of available ones."""

    max_pods: int
    min_available: int


def bounds(spec: Json) -> Bounds:
    """Return the limits of a rolling update. maxSurge is rounded up, maxUnavailable down."""
    replicas = spec["replicas"]
    rolling = spec["strategy"].get("rollingUpdate") or {}
    surge = _number(rolling.get("maxSurge", 0), replicas, rounds_up=True)
    unavailable = _number(rolling.get("maxUnavailable", 0), replicas, rounds_up=False)
    if not surge and not unavailable:
        # With both rounded to zero, nothing could ever change.
        unavailable = 1
    return Bounds(replicas + surge, replicas - min(unavailable, replicas))


def _number(value: int | str, replicas: int, *, rounds_up: bool) -> int:
    if isinstance(value, int):
        return value
    hundredths = int(value.removesuffix("%")) * replicas
    return -(-hundredths // 100) if rounds_up else hundredths // 100


def rolling_sizes(spec: Json, new: Size, former: Mapping[str, Size]) -> tuple[int, dict[str, int]]:
    """Return the next sizes of the new ReplicaSet and of the former ones (oldest first)."""
    limits = bounds(spec)
    sizes = {name: size.desired for name, size in former.items()}
    total = new.desired + sum(sizes.values())
    grown = max(min(spec["replicas"] - new.desired, limits.max_pods - total), 0)
    desired = min(new.desired, spec["replicas"]) + grown
    _shrink(sizes, new, list(former.items()), limits)
    return desired, sizes


def _shrink(sizes: dict[str, int], new: Size, former: Sequence[tuple[str, Size]], limits: Bounds) -> None:
    """Scale down unavailable pods first, then as many available ones as the limit allows."""
    total = new.desired + sum(sizes.values())
    budget = total - limits.min_available - max(new.desired - new.available, 0)
    for name, size in former:
        cut = max(min(size.desired - size.available, budget), 0)
        sizes[name] -= cut
        budget -= cut
    spare = new.available + sum(size.available for _, size in former) - limits.min_available
    for name, _ in former:
        cut = max(min(sizes[name], spare, budget), 0)
        sizes[name] -= cut
        budget -= cut
        spare -= cut


def recreate_sizes(spec: Json, former: Mapping[str, Size]) -> tuple[int, dict[str, int]]:
    """Return the sizes for the strategy Recreate: the new ReplicaSet starts when all former pods are gone."""
    is_empty = not any(size.desired or size.current or size.terminating for size in former.values())
    return (spec["replicas"] if is_empty else 0), dict.fromkeys(former, 0)
