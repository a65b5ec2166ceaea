"""Find the processes, namespaces, cgroups and network settings of one cluster, e.g. leftovers after its end.

Processes are found by a marker in their environment, everything else through these processes: their namespaces and
cgroups, their network interface, and the firewall rules for their network. Other clusters may run at the same time.
"""

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from conformance.waiting import wait_for

MARKER: Final = "WINDLASS_TEST_RUN"
NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")


class Process(msgspec.Struct, frozen=True, order=True):
    """`started` tells it from a later one with the same number."""

    pid: int
    started: str
    parent: int
    command: tuple[str, ...]

    @property
    def is_alive(self) -> bool:
        found = _process(Path("/proc", str(self.pid)))
        return found is not None and found.started == self.started

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def marked(mark: str, name: str = MARKER) -> list[Process]:
    """The processes that carry the mark, and live."""
    variable = f"{name}={mark}".encode()
    found = [Path("/proc", pid) for pid in _pids() if variable in _environment(pid).split(b"\0")]
    return sorted(filter(None, map(_process, found)))


def lineage(process: Process, among: Iterable[Process]) -> list[Process]:
    """The process and its ancestors as far as they are known, the oldest first."""
    by_pid = {each.pid: each for each in among}
    line = [process]
    while (parent := by_pid.get(line[0].parent)) is not None:
        line.insert(0, parent)
    return line


class Network(msgspec.Struct, frozen=True, order=True):
    gateway: str
    subnet: str


class Traces(msgspec.Struct, frozen=True):
    """The processes and kernel objects of a cluster."""

    mark: str
    folder: str
    # In the kernel's ticks since the machine was started.
    taken_at: int
    namespaces: frozenset[str]
    control_groups: frozenset[str]
    networks: frozenset[Network]
    interfaces: frozenset[tuple[str, int]]

    def left(self) -> dict[str, list[str]]:
        """Return what still exists, by kind."""
        found = {
            "processes": [f"{each.pid} {' '.join(each.command)[:200]}" for each in marked(self.mark)],
            "mounts": [line for line in _lines("/proc/self/mountinfo") if self._is_of_ours(line)],
            "namespaces": sorted(self.namespaces & set(_namespaces_in_use(self.taken_at))),
            "control groups": sorted(each for each in self.control_groups if Path(each).exists()),
            "interfaces": [name for name, index in self.interfaces & set(_interfaces())],
            "rules": [line for line in _rules() if any(each.subnet in line for each in self.networks)],
        }
        return {kind: things for kind, things in found.items() if things}

    def _is_of_ours(self, line: str) -> bool:
        return self.folder in line or any(each in line for each in self.namespaces)

    def but_control_groups(self) -> "Traces":
        return msgspec.structs.replace(self, control_groups=frozenset())

    def wait_until_gone(self) -> None:
        left: list[dict[str, list[str]]] = []

        def is_gone() -> bool:
            left[:] = [self.left()]
            return not left[0]

        try:
            wait_for("nothing to be left", is_gone)
        except AssertionError:
            raise AssertionError(f"this is left: {json.dumps(left[0], indent=1)}") from None


def traces(mark: str, folder: Path) -> Traces:
    processes = [Path("/proc", str(each.pid)) for each in marked(mark)]
    own = set(_namespaces_of(Path("/proc/self")))
    networks = frozenset(
        network
        for each in processes
        if _link(each / "ns/net") not in own
        for network in _networks(each / "net/route")
    )
    return Traces(
        mark=mark,
        folder=str(folder),
        taken_at=_ticks(),
        namespaces=frozenset(inode for each in processes for inode in _namespaces_of(each)) - own,
        control_groups=frozenset(
            str(found)
            for each in processes
            for found in set(_control_groups(each)) - set(_control_groups(Path("/proc/self")))
            # Other processes may move it, too.
            if any(part.startswith("windlass-") for part in found.parts)
        ),
        networks=networks,
        interfaces=frozenset(_interfaces_of({each.gateway for each in networks})),
    )


def kill_all(processes: Iterable[Process]) -> None:
    """All of them stand still before the first one dies, so that none can react to the death of another."""
    doomed = list(processes)
    for each in doomed:
        each.kill(signal.SIGSTOP)
    for each in doomed:
        each.kill()


# /proc


def _pids() -> list[str]:
    return [each.name for each in os.scandir("/proc") if each.name.isdigit()]


def _folders() -> Iterator[Path]:
    return (Path("/proc", pid) for pid in _pids())


def _environment(pid: str) -> bytes:
    """Without pathlib, which takes longer: it is called for every process of the machine."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def _process(folder: Path) -> Process | None:
    """None for one that has gone, or is dead and only waits to be asked how it ended."""
    try:
        stat = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if stat[0] in "ZX":
        return None
    command = tuple(word.decode(errors="replace") for word in words[:-1])
    return Process(pid=int(folder.name), started=stat[19], parent=int(stat[1]), command=command)


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _namespaces_of(folder: Path) -> Iterator[str]:
    """As `net:[4026531840]`."""
    return filter(None, (_link(folder / "ns" / kind) for kind in NAMESPACES))


def _namespaces_in_use(since: int) -> Iterator[str]:
    """By those who ran at that time already: the number of a namespace that is gone is given to a later one."""
    for folder in _folders():
        process = _process(folder)
        if process is not None and int(process.started) <= since:
            yield from _namespaces_of(folder)


def _ticks() -> int:
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return int(uptime * os.sysconf("SC_CLK_TCK")) + 1


def _control_groups(folder: Path) -> Iterator[Path]:
    for line in _lines(str(folder / "cgroup")):
        _, controllers, path = line.split(":", 2)
        root = CONTROL_GROUPS / controllers.removeprefix("name=")
        yield (root if root.is_dir() else CONTROL_GROUPS) / path.strip("/")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


# Networks


def _networks(routes: Path) -> Iterator[Network]:
    """From the table of routes of a network namespace: the gateway, and the network that it is in."""
    rows = [line.split() for line in _lines(str(routes))[1:]]
    gateways = [_address(row[2]) for row in rows if int(row[1], 16) == 0 and int(row[2], 16)]
    subnets = [
        ipaddress.ip_network(f"{_address(row[1])}/{_address(row[7])}") for row in rows if int(row[7], 16)
    ]
    for gateway in gateways:
        for subnet in subnets:
            if ipaddress.ip_address(gateway) in subnet:
                yield Network(gateway, str(subnet))


def _address(text: str) -> str:
    return socket.inet_ntoa(struct.pack("<I", int(text, 16)))


def _interfaces() -> Iterator[tuple[str, int]]:
    for each in _json_output("ip", "-j", "addr"):
        yield each["ifname"], each["ifindex"]


def _interfaces_of(gateways: set[str]) -> Iterator[tuple[str, int]]:
    """The interfaces of the machine that have one of these addresses, and those that are ports of them."""
    every = list(_json_output("ip", "-j", "addr"))
    bridges = {
        each["ifname"] for each in every if gateways & {at.get("local") for at in each.get("addr_info", ())}
    }
    for each in every:
        if each["ifname"] in bridges or each.get("master") in bridges:
            yield each["ifname"], each["ifindex"]


def _json_output(*command: str) -> Iterator[dict[str, Any]]:
    text = _output(*command)
    yield from json.loads(text) if text else ()


def _rules() -> list[str]:
    """Return the rules of the packet filter, from both interfaces."""
    return [*_output("nft", "list", "ruleset").splitlines(), *_output("iptables-save").splitlines()]


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
