"""Whether a container ran out of memory: from what its cgroup counts or, without one, from what its processes hold.

The texts are handed in; nothing is read from the machine here.
"""

from collections.abc import Iterable

from windlass.k8s import quantities
from windlass.model.base import Json


def kills(counters: str) -> int:
    """How often the kernel killed something, from `memory.events` (cgroup v2) or `memory.oom_control` (v1).

    A v1 kernel before 4.13 does not count, and has nothing to say here.
    """
    for line in counters.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return 0


def was_killed_for_memory(before: str, after: str) -> bool:
    """From the counters at the start of a run and at its end: a cgroup may outlive a run."""
    return kills(after) > kills(before)


def memory_limit(container: Json) -> int | None:
    """In bytes, from the container's spec."""
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return int(quantities.parse(limit)) if limit is not None and quantities.parse(limit) > 0 else None


def proportional_bytes(smaps: str) -> int:
    """What one process holds, its share of what it shares included: from its `smaps_rollup`, or its `smaps`."""
    fields = (line.split() for line in smaps.splitlines() if line.startswith("Pss:"))
    return sum(int(field[1]) * 1024 for field in fields)


def must_be_killed(smaps_of_processes: Iterable[str], limit: int | None) -> bool:
    """A process that ended while it was looked at gives an empty text, and holds nothing."""
    return limit is not None and sum(map(proportional_bytes, smaps_of_processes)) > limit
