"""CPU and memory usage of containers, from their cgroups, otherwise from /proc.

All containers are measured together, so that /proc is read once. Memory from /proc is the resident memory, where shared
pages count for each process. For the init process, only the CPU time of its reaped children counts.
"""

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox.process import cgroups, processes
from windlass.localcluster.sandbox.process.processes import ProcessStat
from windlass.localcluster.usage import ProcessUsage

_MICRO = 1_000_000
_NANO = 1_000_000_000


class Target(msgspec.Struct, frozen=True):
    """A run of a container: PID of its init process, and directories of its cgroup."""

    init_pid: int
    cgroups: tuple[str, ...] = ()


class _Counters(msgspec.Struct, frozen=True):
    """The files of a cgroup that contain counters; empty if there is no such file."""

    cpu: str = ""
    memory: str = ""
    memory_parts: str = ""


def read(targets: Mapping[str, Target]) -> dict[str, ProcessUsage]:
    """Return the usage of each target, without the containers that have ended."""
    counted = {name: (_cpu(target.cgroups), _memory(target.cgroups)) for name, target in targets.items()}
    is_all_counted = all(None not in pair for pair in counted.values())
    stats = {} if is_all_counted else processes.usage_by_pid()
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    found = {}
    for name, (cpu, memory) in counted.items():
        is_counted = cpu is not None and memory is not None
        summed = None if is_counted else _usage_of_processes(targets[name].init_pid, stats, children)
        if is_counted or summed is not None:
            own = summed or ProcessUsage()
            found[name] = ProcessUsage(
                own.cpu_seconds if cpu is None else cpu, own.memory_bytes if memory is None else memory
            )
    return found


def _usage_of_processes(
    init_pid: int, stats: Mapping[int, ProcessStat], children: Mapping[int, Iterable[int]]
) -> ProcessUsage | None:
    if init_pid not in stats:
        return None
    descendants = list(children.get(init_pid, ()))
    for pid in descendants:
        descendants += children.get(pid, ())
    cpu = stats[init_pid].reaped_seconds + sum(
        stats[pid].cpu_seconds + stats[pid].reaped_seconds for pid in descendants
    )
    return ProcessUsage(cpu, sum(stats[pid].memory_bytes for pid in descendants))


def _cpu(folders: tuple[str, ...]) -> float | None:
    file = _counters(folders).cpu
    text = _text(file) if file else ""
    if file.endswith("cpu.stat"):
        used = cgroups.counter(text, "usage_usec")
        return None if used is None else used / _MICRO
    return int(text) / _NANO if text.strip().isdigit() else None


def _memory(folders: tuple[str, ...]) -> int | None:
    """Return the memory without the inactive file cache."""
    counters = _counters(folders)
    text = _text(counters.memory) if counters.memory else ""
    if not text.strip().isdigit():
        return None
    parts = _text(counters.memory_parts)
    cached = cgroups.counter(parts, "total_inactive_file") or cgroups.counter(parts, "inactive_file") or 0
    return max(int(text) - cached, 0)


@functools.lru_cache(maxsize=4096)
def _counters(folders: tuple[str, ...]) -> _Counters:
    def first(*names: str) -> str:
        files = (Path(folder, name) for name in names for folder in folders)
        return next((str(file) for file in files if file.exists()), "")

    # In cgroups v1, cpu.stat has another meaning.
    cpu = first("cpuacct.usage") or (first("cpu.stat") if first("cgroup.controllers") else "")
    memory = first("memory.current", "memory.usage_in_bytes")
    return _Counters(cpu, memory, str(Path(memory).with_name("memory.stat")) if memory else "")


def _text(file: str) -> str:
    """Return the text of a file; empty if the cgroup was removed."""
    return processes.read_small_file(file).decode(errors="replace")
