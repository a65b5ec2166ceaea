"""Find, measure and kill processes without cgroups.

The data comes from /proc or, on systems without /proc, from `ps`. A process that ends during a call is ignored.
"""

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self/stat").exists()
_MAX_PAUSE = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Process(msgspec.Struct, frozen=True):
    pid: int
    parent: int
    is_zombie: bool
    # Start time as a text that differs for two processes with the same PID.
    start: str


class ProcessStat(msgspec.Struct, frozen=True, gc=False):
    """CPU time of a process and of its reaped children, and its resident memory."""

    parent: int
    cpu_seconds: float
    reaped_seconds: float
    memory_bytes: int


def descendants(pid: int) -> list[int]:
    """Return all descendants, parents before children. An orphan is a child of the process that adopted it."""
    children: dict[int, list[int]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process.pid)
    found = [pid]
    for parent in found:
        found += children.get(parent, ())
    return found[1:]


def ancestors(pid: int) -> list[int]:
    """Return all ancestors, the parent first."""
    parents = {process.pid: process.parent for process in _all()}
    found: list[int] = []
    while parents.get(pid, 0) > 0:
        pid = parents[pid]
        found.append(pid)
    return found


def pids_with_variable(variable: bytes, value: bytes) -> list[int]:
    """Return the processes with this value of an environment variable, as far as their environment is readable."""
    marker = variable + b"=" + value
    if not _HAS_PROC:
        return _pids_with(marker, _ps("-axwwE", "-o", "pid=,command="))
    environments = ((pid, _bytes_of(pid, "environ")) for pid in _pids())
    return [pid for pid, text in environments if marker in text and marker in text.split(b"\0")]


def variable(pid: int, name: str) -> str:
    """Return an environment variable with which a process was started; empty if it is not readable."""
    prefix = f"{name}=".encode()
    entries = _bytes_of(pid, "environ").split(b"\0") if _HAS_PROC else ()
    return next((entry[len(prefix) :].decode() for entry in entries if entry.startswith(prefix)), "")


def command_name(pid: int) -> str:
    """Return the name of the program that a process runs; empty if it has ended or is not visible."""
    return _bytes_of(pid, "comm").decode(errors="replace").strip()


def kill_all(find: Callable[[], Iterable[int]], seconds: float = 5.0) -> list[int]:
    """Kill the processes that `find` returns until there are none, since a process may fork before it is killed.

    Returns the processes that are still running after the given time. The caller, PID 1 and zombies are ignored.
    """
    deadline = time.monotonic() + seconds
    pause = 0.001
    while True:
        running = [pid for pid in find() if pid > 1 and pid != os.getpid() and is_running(pid)]
        if not running or time.monotonic() >= deadline:
            return running
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


def memory_of(pids: Iterable[int]) -> int:
    """Return the total memory in bytes.

    With /proc, shared pages count proportionally, but not at all for processes of other users.
    """
    if not _HAS_PROC:
        listed = ",".join(map(str, pids))
        kilobytes = _ps("-o", "rss=", "-p", listed).split() if listed else []
        return sum(map(int, kilobytes)) * 1024
    return sum(map(_memory_of_one, pids))


def usage_by_pid() -> dict[int, ProcessStat]:
    """Return the usage of every process on the machine."""
    if not _HAS_PROC:
        lines = _ps("-axo", "pid=,ppid=,rss=,time=").splitlines()
        return dict(filter(None, map(_usage_from_ps, lines)))
    found = {}
    for pid in _pids():
        usage = _usage_from_stat(read_small_file(f"/proc/{pid}/stat"))
        if usage is not None:
            found[pid] = usage
    return found


def identity(pid: int) -> str | None:
    """Return a text that identifies this process even after reuse of its PID or a reboot; None if it has ended."""
    process = _process(pid)
    return f"{pid}:{process.start}" if process else None


def is_alive(identity: str) -> bool:
    """Return whether the process with this `identity` is running. A zombie has ended."""
    pid, _, start = identity.partition(":")
    process = _process(int(pid))
    return process is not None and process.start == start and not process.is_zombie


def is_running(pid: int) -> bool:
    """Return whether a process is visible and has not ended. A zombie has ended."""
    process = _process(pid)
    return process is not None and not process.is_zombie


def _all() -> Iterator[_Process]:
    if not _HAS_PROC:
        return filter(None, map(_from_ps, _ps("-axo", "pid=,ppid=,stat=,lstart=").splitlines()))
    return filter(None, map(_process, _pids()))


def _process(pid: int) -> _Process | None:
    if not _HAS_PROC:
        return _from_ps(_ps("-o", "pid=,ppid=,stat=,lstart=", "-p", str(pid)))
    return _from_stat(_bytes_of(pid, "stat"))


def _from_stat(text: bytes) -> _Process | None:
    """Parse /proc/<pid>/stat. Its second field is in parentheses and may contain parentheses."""
    pid = text.partition(b" ")[0]
    fields = text.rpartition(b")")[2].split()
    if not fields:
        return None
    # If only the main thread has ended, the process looks like a zombie.
    is_zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return _Process(int(pid), int(fields[1]), is_zombie, f"{int(fields[19])}:{_boot_id()}")


def _from_ps(line: bytes) -> _Process | None:
    fields = line.split(None, 3)
    if len(fields) < 4:
        return None
    start = b"-".join(fields[3].split()).decode(errors="replace")
    return _Process(int(fields[0]), int(fields[1]), fields[2].startswith(b"Z"), start)


def _usage_from_stat(text: bytes) -> ProcessStat | None:
    fields = text.rpartition(b")")[2].split(None, 22)
    if len(fields) < 22:
        return None
    own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return ProcessStat(int(fields[1]), own / _TICKS, reaped / _TICKS, int(fields[21]) * _PAGE)


def _usage_from_ps(line: bytes) -> tuple[int, ProcessStat] | None:
    """Parse a line like `  71     1  5120   1-02:03:04.50`. It does not contain the usage of reaped children."""
    fields = line.split()
    if len(fields) != 4:
        return None
    days, _, clock = fields[3].rpartition(b"-")
    seconds = 0.0
    for part in clock.split(b":"):
        seconds = seconds * 60 + float(part)
    used = int(days or 0) * 86400 + seconds
    return int(fields[0]), ProcessStat(int(fields[1]), used, 0.0, int(fields[2]) * 1024)


def _pids_with(marker: bytes, listing: bytes) -> list[int]:
    """Return the PIDs of lines with the marker. `ps` separates PID, command and environment by spaces."""
    lines = (line.split() for line in listing.splitlines())
    return [int(pid) for pid, *texts in lines if marker in texts]


def _memory_of_one(pid: int) -> int:
    smaps = _bytes_of(pid, "smaps_rollup").decode()
    if smaps:
        return proportional_bytes(smaps)
    # The file of another user's process is not readable: use the private memory, which is a lower bound.
    pages = _bytes_of(pid, "statm").split()
    return (int(pages[1]) - int(pages[2])) * _PAGE if pages else 0


def proportional_bytes(smaps: str) -> int:
    """Return the memory of a process from its `smaps_rollup` or `smaps`; shared pages count proportionally."""
    fields = (line.split() for line in smaps.splitlines() if line.startswith("Pss:"))
    return sum(int(field[1]) * 1024 for field in fields)


def _pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit()]


def read_small_file(path: str) -> bytes:
    """Return up to 64 KiB of a file; empty if it is not readable.

    It does not use pathlib, which is slower, because it is called for every process on the machine.
    """
    return next(_pieces(path), b"")


def _bytes_of(pid: int, file: str) -> bytes:
    """Return the content of a file in /proc/<pid>; empty if the process has ended or is not accessible."""
    return b"".join(_pieces(f"/proc/{pid}/{file}"))


def _pieces(path: str) -> Iterator[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        while piece := os.read(descriptor, 1 << 16):
            yield piece
    except OSError:
        return
    finally:
        os.close(descriptor)


@functools.cache
def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _ps(*options: str) -> bytes:
    # The format of start times depends on the locale and the time zone.
    environment = {"LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(["/bin/ps", *options], capture_output=True, check=False, env=environment).stdout
