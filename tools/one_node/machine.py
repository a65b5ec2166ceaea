"""The namespaces of the cluster: create, enter, inspect and end them.

They are mount, PID, network, UTS and IPC namespaces. A link connects the host with the node, so that the host can reach
pods and services.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import programs
from one_node import layout, machine_init

NAMESPACES: Final = ("--mount", "--pid", "--net", "--uts", "--ipc")
SECONDS: Final = 60.0


class MachineError(Exception):
    """This machine cannot run the cluster. The message contains the cause and a remedy."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """The namespaces of a running cluster."""

    pid: int
    """PID of its first process on the host."""

    def command(self, *argv: str | Path) -> list[str]:
        """Return the command that runs another one inside."""
        return ["nsenter", f"--target={self.pid}", *NAMESPACES, "--", *map(str, argv)]

    def run(self, *argv: str | Path) -> str:
        done = subprocess.run(self.command(*argv), capture_output=True, text=True)
        if done.returncode != 0:
            raise MachineError(f"`{' '.join(map(str, argv))}` failed on the node: {done.stderr.strip()}")
        return done.stdout

    def succeeds(self, *argv: str | Path) -> bool:
        done = subprocess.run(self.command(*argv), capture_output=True)
        return done.returncode == 0

    def start(self, argv: Sequence[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start a process that outlives this one and ends with the machine. The returned process ends with it."""
        with log.open("ab") as output:
            return subprocess.Popen(
                self.command(*argv),
                env=environment,
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def processes(self) -> dict[int, list[str]]:
        """Return the command of each process inside, by its PID on the host."""
        return dict(_processes_of(_namespace(self.pid)))


def _namespace(pid: int) -> Path:
    """Return the PID namespace of a process."""
    return Path(f"/proc/{pid}/ns/pid").readlink()


def _processes_of(place: Path) -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if _namespace(int(entry.name)) == place:
                yield int(entry.name), (entry / "cmdline").read_text().split("\0")[:-1]


# Lifecycle


def start(data: Path) -> Machine:
    log = data / "machine.log"
    init = [sys.executable, "-I", "-S", machine_init.__file__, str(data), layout.NODE]
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["unshare", *NAMESPACES, "--fork", "--kill-child", "--", *init],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(
            "the node's namespaces", lambda: (data / "ready").exists() or _require_commands(process, log)
        )
        machine = Machine(_only_child(process.pid))
        _record(data).write_text(json.dumps({"pid": machine.pid, "started": _started(machine.pid)}))
    except BaseException:
        process.kill()  # it could not be found again
        raise
    _link(machine)
    return machine


def _require_commands(process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is None:
        return False
    raise MachineError(
        f"This machine does not allow namespaces (exit code {process.returncode}). "
        f"The end of {log}:\n{programs.tail(log)}"
    )


def _only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def _link(machine: Machine) -> None:
    """Connect the host. The bridge exists before the first pod, because the API server listens on its address."""
    _run(
        "ip",
        "link",
        "add",
        layout.UPLINK,
        "type",
        "veth",
        "peer",
        "name",
        "uplink",
        "netns",
        str(machine.pid),
    )
    _run("ip", "address", "add", layout.HOST_END, "dev", layout.UPLINK)
    _run("ip", "link", "set", layout.UPLINK, "up")
    machine.run("ip", "link", "set", "lo", "up")
    machine.run("ip", "address", "add", layout.NODE_END, "dev", "uplink")
    machine.run("ip", "link", "set", "uplink", "up")
    machine.run("ip", "route", "add", "default", "via", layout.HOST_END.partition("/")[0])
    machine.run("ip", "link", "add", layout.BRIDGE, "type", "bridge")
    machine.run("ip", "address", "add", f"{layout.ADDRESS}/24", "dev", layout.BRIDGE)
    machine.run("ip", "link", "set", layout.BRIDGE, "up")
    _run("ip", "route", "add", layout.NETWORK, "via", layout.NODE_END.partition("/")[0])


def running(data: Path) -> Machine | None:
    """Return the machine started there, unless it has ended since."""
    try:
        record = json.loads(_record(data).read_text())
    except FileNotFoundError:
        return None
    return Machine(record["pid"]) if _started(record["pid"]) == record["started"] else None


def end(data: Path) -> None:
    """End all processes and mounts, and delete all files."""
    if machine := running(data):
        place = _namespace(machine.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(machine.pid, signal.SIGKILL)
        wait_for("the node's processes to end", lambda: not list(_processes_of(place)))
    link = Path("/sys/class/net", layout.UPLINK)
    wait_for("the link to the node to go", lambda: not link.exists())
    _remove_control_groups()
    shutil.rmtree(data, ignore_errors=True)


def _remove_control_groups() -> None:
    for group in control_groups():
        if group.exists():
            folders = sorted((each for each in group.rglob("*") if each.is_dir()), reverse=True)
            for folder in (*folders, group):
                wait_for(f"{folder} to be empty", lambda at=folder: _is_removed(at))  # type: ignore[misc]


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # the kernel still has its ended processes
        return False
    return True


def control_groups() -> list[Path]:
    """Return our cgroups: one, or with version 1 one per controller."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    points = {mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2")}
    return [Path(point, layout.CGROUP) for point in sorted(points)]


def _record(data: Path) -> Path:
    return data / "machine.json"


def _started(pid: int) -> str:
    """Return the start time of a process in kernel ticks, to detect a reused PID. Empty: no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        raise MachineError(f"`{' '.join(argv)}` failed: {done.stderr.strip()}")


def wait_for(what: str, look: Callable[[], bool], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            raise MachineError(f"Timed out after {seconds:.0f} s waiting for {what}.")
        time.sleep(0.05)
