"""What containers use: from what their processes have used up by two moments to a rate. Pure.

A rate is of a window, from an earlier look to this one. The start of a container is such a look as well: it had used
nothing by then. A window that is too long says nothing of what is used now, so it takes a second look then.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

LONGEST_WINDOW = 60.0
_NANO = 1_000_000_000
_LEAST_WINDOW = 0.001


class Load(msgspec.Struct, frozen=True):
    """What a container's processes have used of the CPU since they began, and what memory they hold."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0


class Look(msgspec.Struct, frozen=True):
    """A load, and when it was looked at. The clock is one that never steps back."""

    at: float
    load: Load = Load()


class ContainerUsage(msgspec.Struct, frozen=True):
    name: str
    nanocores: int
    memory_bytes: int
    window_seconds: float


class PodUsage(msgspec.Struct, frozen=True):
    node: str
    containers: tuple[ContainerUsage, ...]


class Reading(msgspec.Struct, frozen=True):
    """Of all pods of which something runs, by uid."""

    at: datetime
    pods: Mapping[str, PodUsage] = {}


def since(before: Look | None, now: float, age_seconds: float) -> Look | None:
    """The look from which the window of a container of that age reaches until now; None where there is none."""
    if before is not None and now - before.at <= LONGEST_WINDOW:
        return before
    return Look(now - age_seconds) if age_seconds <= LONGEST_WINDOW else None


def used(name: str, before: Look, now: Look) -> ContainerUsage:
    """A process that nobody waited for takes with it what it has used: the rate is then less, but never below 0."""
    window = max(now.at - before.at, _LEAST_WINDOW)
    seconds = max(now.load.cpu_seconds - before.load.cpu_seconds, 0.0)
    return ContainerUsage(name, round(seconds / window * _NANO), now.load.memory_bytes, window)


def total(pods: Iterable[PodUsage]) -> tuple[int, int]:
    """Nanocores and bytes of memory."""
    containers = [container for pod in pods for container in pod.containers]
    return sum(each.nanocores for each in containers), sum(each.memory_bytes for each in containers)
