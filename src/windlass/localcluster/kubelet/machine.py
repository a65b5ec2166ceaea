"""The resources and properties of this machine, from system files and system calls.

A cgroup limit of the daemon counts as the capacity of the machine, since pods run in that cgroup.
"""

import math
import os
import platform
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

import windlass
from windlass.localcluster.apiserver.openapi import discovery
from windlass.localcluster.kubelet.lifecycle.statuses import RUNTIME
from windlass.localcluster.sandbox import kernel
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.localcluster.scheduler.nodes import Machine

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_LOOPBACK = "127.0.0.1"
# An address reserved for documentation. A socket connected to it has the local address of the default route.
_REMOTE_ADDRESS = ("192.0.2.1", 9)


def _cpus() -> int:
    # macOS has no CPU affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _address() -> str:
    """Return the machine's address on the default route. Connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_REMOTE_ADDRESS)
        return str(probe.getsockname()[0])


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The functions and the root directory that this module uses; tests replace them."""

    root: Path = Path("/")
    uname: Callable[[], platform.uname_result] = platform.uname
    mac_version: Callable[[], str] = lambda: platform.mac_ver()[0]
    cpus: Callable[[], int] = _cpus
    memory_bytes: Callable[[], int] = _memory_bytes
    storage_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).total
    address: Callable[[], str] = _address


SYSTEM = Sources()


def detect(data: Path, sources: Sources = SYSTEM, gpus: tuple[Gpu, ...] = ()) -> Machine:
    """Return the properties of this machine. `data` is the directory on whose disk the pods write."""
    uname = sources.uname()
    return Machine(
        host_name=uname.node or "localhost",
        cpu=min([sources.cpus(), *_cpu_limits(sources)]),
        memory_bytes=min([_memory(sources), *_memory_limits(sources)]),
        storage_bytes=_storage(data, sources),
        gpus=gpus,
        architecture=_ARCHITECTURES.get(uname.machine, uname.machine.lower()),
        operating_system=uname.system.lower(),
        os_image=_os_image(uname, sources),
        kernel_version=uname.release,
        machine_id=kernel.read_text(sources.root / "etc/machine-id").strip(),
        boot_id=kernel.read_text(sources.root / "proc/sys/kernel/random/boot_id").strip(),
        address=_own_address(sources),
        version=discovery.version()["gitVersion"],
        runtime_version=f"{RUNTIME}://{windlass.__version__}",
    )


# Limits of cgroups v1 and v2, including those of all parent cgroups.


def _cpu_limits(sources: Sources) -> Iterator[int]:
    for group in _groups(sources, "cpu"):
        quota, _, period = kernel.read_text(group / "cpu.max").strip().partition(" ")
        quota = quota or kernel.read_text(group / "cpu.cfs_quota_us").strip()
        period = period or kernel.read_text(group / "cpu.cfs_period_us").strip()
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield max(1, math.floor(int(quota) / int(period)))


def _memory_limits(sources: Sources) -> Iterator[int]:
    for group in _groups(sources, "memory"):
        limit = (
            kernel.read_text(group / "memory.max").strip()
            or kernel.read_text(group / "memory.limit_in_bytes").strip()
        )
        if limit.isdecimal():
            yield int(limit)


def _groups(sources: Sources, controller: str) -> Iterator[Path]:
    """Yield the directories of the daemon's cgroups for this controller, and of their parents."""
    cgroup_root = sources.root / "sys/fs/cgroup"
    for line in kernel.read_text(sources.root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = cgroup_root / controllers if controllers else cgroup_root
        own = top / path.lstrip("/")
        # A container often sees only the directory of its own cgroup, as the root of the hierarchy.
        yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(top))


def _memory(sources: Sources) -> int:
    found = re.search(
        r"^MemTotal:\s+(\d+) kB$", kernel.read_text(sources.root / "proc/meminfo"), re.MULTILINE
    )
    return int(found[1]) * 1024 if found else sources.memory_bytes()


def _storage(data: Path, sources: Sources) -> int:
    """Return the size of the disk on which the directory is or will be."""
    present = next(folder for folder in (data.absolute(), *data.absolute().parents) if folder.exists())
    return sources.storage_bytes(present)


def _os_image(uname: platform.uname_result, sources: Sources) -> str:
    if uname.system == "Darwin":
        return f"macOS {sources.mac_version()}".strip()
    named = re.search(
        r'^PRETTY_NAME="?([^"\n]+)"?$', kernel.read_text(sources.root / "etc/os-release"), re.MULTILINE
    )
    return named[1] if named else uname.system


def _own_address(sources: Sources) -> str:
    try:
        found = sources.address()
    except OSError:
        return _LOOPBACK
    return _LOOPBACK if found in ("", "0.0.0.0") else found  # noqa: S104 — nothing is bound to it
