"""CPU and memory usage of containers, from their cgroups, otherwise from /proc.

All containers are measured together, so that /proc is read once. Memory from /proc is the resident memory, where shared
pages count for each process. Of the init process, only the CPU time of its reaped children counts.
"""

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.sandbox.process.processes import ProcessStat
from windlass.localcluster.usage import ProcessUsage

_MICRO = 1_000_000
_NANO = 1_000_000_000


class Target(msgspec.Struct, frozen=True):
    """A run of a container: PID of its init process, and directories of its cgroup."""

    init: int
    groups: tuple[str, ...] = ()


class _Counters(msgspec.Struct, frozen=True):
    """The files of a cgroup that contain counters; empty if there is none."""

    cpu: str = ""
    memory: str = ""
    memory_parts: str = ""


def read(targets: Mapping[str, Target]) -> dict[str, ProcessUsage]:
    """Return the usage by name, without the containers that have ended."""
    counted = {name: (_cpu(target.groups), _memory(target.groups)) for name, target in targets.items()}
    is_all_counted = all(None not in pair for pair in counted.values())
    shares = {} if is_all_counted else processes.usage_by_pid()
    children: dict[int, list[int]] = {}
    for pid, share in shares.items():
        children.setdefault(share.parent, []).append(pid)
    found = {}
    for name, (cpu, memory) in counted.items():
        is_counted = cpu is not None and memory is not None
        load = None if is_counted else _of_processes(targets[name].init, shares, children)
        if is_counted or load is not None:
            own = load or ProcessUsage()
            found[name] = ProcessUsage(
                own.cpu_seconds if cpu is None else cpu, own.memory_bytes if memory is None else memory
            )
    return found


def _of_processes(
    init: int, shares: Mapping[int, ProcessStat], children: Mapping[int, Iterable[int]]
) -> ProcessUsage | None:
    if init not in shares:
        return None
    below = list(children.get(init, ()))
    for pid in below:
        below += children.get(pid, ())
    cpu = shares[init].reaped_seconds + sum(
        shares[pid].cpu_seconds + shares[pid].reaped_seconds for pid in below
    )
    return ProcessUsage(cpu, sum(shares[pid].memory_bytes for pid in below))


def _cpu(groups: tuple[str, ...]) -> float | None:
    file = _counters(groups).cpu
    text = _text(file) if file else ""
    if file.endswith("cpu.stat"):
        used = _field(text, "usage_usec")
        return None if used is None else used / _MICRO
    return int(text) / _NANO if text.strip().isdigit() else None


def _memory(groups: tuple[str, ...]) -> int | None:
    """Return the memory without the inactive file cache."""
    counters = _counters(groups)
    text = _text(counters.memory) if counters.memory else ""
    if not text.strip().isdigit():
        return None
    parts = _text(counters.memory_parts)
    cached = _field(parts, "total_inactive_file") or _field(parts, "inactive_file") or 0
    return max(int(text) - cached, 0)


@functools.lru_cache(maxsize=4096)
def _counters(groups: tuple[str, ...]) -> _Counters:
    def first(*names: str) -> str:
        files = (Path(folder, name) for name in names for folder in groups)
        return next((str(file) for file in files if file.exists()), "")

    # cpu.stat of version 1 has another meaning.
    cpu = first("cpuacct.usage") or (first("cpu.stat") if first("cgroup.controllers") else "")
    memory = first("memory.current", "memory.usage_in_bytes")
    return _Counters(cpu, memory, str(Path(memory).with_name("memory.stat")) if memory else "")


def _field(text: str, name: str) -> int | None:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return None


def _text(file: str) -> str:
    """Return the text of a file; empty if the cgroup was removed."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 1 << 16).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
