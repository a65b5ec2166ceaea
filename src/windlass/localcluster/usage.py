"""Compute the resource usage of containers from two samples.

A rate covers the window between two samples. The start of a container counts as a sample without usage. A window of
more than MAX_WINDOW seconds does not represent current usage: if both the last sample and the start of a container are
older, the container has no rate until the next sample.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

MAX_WINDOW = 60.0
_NANOCORES_PER_CORE = 1_000_000_000
_MIN_WINDOW = 0.001


class ProcessUsage(msgspec.Struct, frozen=True):
    """The CPU time that a container's processes have used so far, and the memory they hold."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0


class UsageSample(msgspec.Struct, frozen=True):
    """The usage of a container at a time of a monotonic clock."""

    at: float
    usage: ProcessUsage = ProcessUsage()


class ContainerUsage(msgspec.Struct, frozen=True):
    name: str
    nanocores: int
    memory_bytes: int
    window_seconds: float
    gpus: float | None = None
    """Usage as a number of GPUs: 1.5 for two that are each used to 75 %. None if it is not known."""
    gpu_memory_bytes: int | None = None


class PodUsage(msgspec.Struct, frozen=True):
    node: str
    containers: tuple[ContainerUsage, ...]


class UsageSnapshot(msgspec.Struct, frozen=True):
    """The usage of running pods by UID."""

    at: datetime
    pods: Mapping[str, PodUsage] = {}


def window_start(before: UsageSample | None, now: float, age_seconds: float) -> UsageSample | None:
    """Return the sample at the start of a container's window: the last one, or the start of the container.

    None if both are too old.
    """
    if before is not None and now - before.at <= MAX_WINDOW:
        return before
    return UsageSample(now - age_seconds) if age_seconds <= MAX_WINDOW else None


def usage_between(name: str, before: UsageSample, now: UsageSample) -> ContainerUsage:
    """Return the usage between two samples.

    The total CPU time may decrease, since the time of ended processes that were not reaped is lost. The rate is then 0.
    """
    window = max(now.at - before.at, _MIN_WINDOW)
    seconds = max(now.usage.cpu_seconds - before.usage.cpu_seconds, 0.0)
    return ContainerUsage(name, round(seconds / window * _NANOCORES_PER_CORE), now.usage.memory_bytes, window)


def total(pods: Iterable[PodUsage]) -> tuple[int, int]:
    """Return the total nanocores and the total bytes of memory."""
    containers = [container for pod in pods for container in pod.containers]
    return sum(each.nanocores for each in containers), sum(each.memory_bytes for each in containers)
