"""Which processes there are, what they hold, and how to end all of a kind: for where no cgroup says so.

Answers come from /proc, and from `ps` on a machine without it. A process that ends while it is looked at is as one that
was never there: nothing here fails for it. What a container is made of is not known here.
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
_LONGEST_PAUSE = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Process(msgspec.Struct, frozen=True):
    pid: int
    parent: int
    is_zombie: bool
    # When it started, in words that two processes of one number do not share.
    start: str


class Share(msgspec.Struct, frozen=True, gc=False):
    """What a process has used of the CPU itself, what those had used that it has waited for, and what is resident."""

    parent: int
    cpu_seconds: float
    reaped_seconds: float
    memory_bytes: int


def children_of(pid: int) -> list[int]:
    return [process.pid for process in _all() if process.parent == pid]


def descendants(pid: int) -> list[int]:
    """Parents before their children. A process whose parent has ended is found only below whoever adopted it."""
    children: dict[int, list[int]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process.pid)
    found = [pid]
    for parent in found:
        found += children.get(parent, ())
    return found[1:]


def ancestors(pid: int) -> list[int]:
    """The nearest first."""
    parents = {process.pid: process.parent for process in _all()}
    found: list[int] = []
    while parents.get(pid, 0) > 0:
        pid = parents[pid]
        found.append(pid)
    return found


def marked(variable: bytes, value: bytes) -> list[int]:
    """The processes that were started with this in their environment, of those whose environment may be read."""
    marker = variable + b"=" + value
    if not _HAS_PROC:
        return _pids_with(marker, _ps("-axwwE", "-o", "pid=,command="))
    return [pid for pid in _pids() if marker in _bytes_of(pid, "environ").split(b"\0")]


def kill_all(find: Callable[[], Iterable[int]], seconds: float = 5.0) -> list[int]:
    """Kills what is found until nothing is, since what is killed may have forked just before; answers with what is left
    after so many seconds. The caller and PID 1 are spared, and zombies are dead already."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    while True:
        left = [pid for pid in find() if pid > 1 and pid != os.getpid() and _is_running(pid)]
        if not left or time.monotonic() >= deadline:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def memory_of(pids: Iterable[int]) -> int:
    """In bytes; what several processes share is shared out among them."""
    if not _HAS_PROC:
        every = ",".join(map(str, pids))
        return (
            sum(int(kilobytes) * 1024 for kilobytes in _ps("-o", "rss=", "-p", every).split()) if every else 0
        )
    return sum(map(_memory_of_one, pids))


def shares() -> dict[int, Share]:
    """Of every process of the machine."""
    if not _HAS_PROC:
        lines = _ps("-axo", "pid=,ppid=,rss=,time=").splitlines()
        return dict(filter(None, map(_share_from_ps, lines)))
    found = {}
    for pid in _pids():
        share = _share_from_stat(_stat_of(pid))
        if share is not None:
            found[pid] = share
    return found


def identity(pid: int) -> str | None:
    """Words for this very process: a later one of the same number has others, and so has one after a reboot. None where
    there is none."""
    process = _one(pid)
    return f"{pid}:{process.start}" if process else None


def is_alive(identity: str) -> bool:
    """Whether the process of these words, as `identity` gave them, still runs. A zombie does not."""
    pid, _, start = identity.partition(":")
    process = _one(int(pid))
    return process is not None and process.start == start and not process.is_zombie


def _is_running(pid: int) -> bool:
    process = _one(pid)
    return process is not None and not process.is_zombie


def _all() -> Iterator[_Process]:
    if not _HAS_PROC:
        return filter(None, map(_from_ps, _ps("-axo", "pid=,ppid=,stat=,lstart=").splitlines()))
    return filter(None, map(_one, _pids()))


def _one(pid: int) -> _Process | None:
    if not _HAS_PROC:
        return _from_ps(_ps("-o", "pid=,ppid=,stat=,lstart=", "-p", str(pid)))
    return _from_stat(_bytes_of(pid, "stat"))


def _from_stat(text: bytes) -> _Process | None:
    """From /proc/<pid>/stat, whose second field is in parentheses and may hold anything, parentheses too."""
    pid = text.partition(b" ")[0]
    fields = text.rpartition(b")")[2].split()
    if not fields:
        return None
    # A first thread that has ended is shown as a zombie while the others run on.
    is_zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return _Process(int(pid), int(fields[1]), is_zombie, f"{int(fields[19])}:{_boot()}")


def _from_ps(line: bytes) -> _Process | None:
    fields = line.split(None, 3)
    if len(fields) < 4:
        return None
    start = b"-".join(fields[3].split()).decode(errors="replace")
    return _Process(int(fields[0]), int(fields[1]), fields[2].startswith(b"Z"), start)


def _share_from_stat(text: bytes) -> Share | None:
    fields = text.rpartition(b")")[2].split(None, 22)
    if len(fields) < 22:
        return None
    own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return Share(int(fields[1]), own / _TICKS, reaped / _TICKS, int(fields[21]) * _PAGE)


def _share_from_ps(line: bytes) -> tuple[int, Share] | None:
    """From a line such as `  71     1  5120   1-02:03:04.50`. What was reaped is not told."""
    fields = line.split()
    if len(fields) != 4:
        return None
    days, _, clock = fields[3].rpartition(b"-")
    seconds = 0.0
    for part in clock.split(b":"):
        seconds = seconds * 60 + float(part)
    used = int(days or 0) * 86400 + seconds
    return int(fields[0]), Share(int(fields[1]), used, 0.0, int(fields[2]) * 1024)


def _pids_with(marker: bytes, listing: bytes) -> list[int]:
    """From lines of a PID, a command and its environment, which `ps` parts by nothing but spaces."""
    lines = (line.split() for line in listing.splitlines())
    return [int(words[0]) for words in lines if marker in words[1:]]


def _memory_of_one(pid: int) -> int:
    shares = _bytes_of(pid, "smaps_rollup").decode()
    if shares:
        return proportional_bytes(shares)
    # Another user's process keeps its shares to itself; what is its own alone is the least that it holds.
    pages = _bytes_of(pid, "statm").split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def proportional_bytes(smaps: str) -> int:
    """Return the memory of a process from its `smaps_rollup` or `smaps`; shared pages count proportionally."""
    fields = (line.split() for line in smaps.splitlines() if line.startswith("Pss:"))
    return sum(int(field[1]) * 1024 for field in fields)


def _pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit()]


def _stat_of(pid: int) -> bytes:
    """As `_bytes_of` does, at a third of the price: this is done for every process of the machine."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _bytes_of(pid: int, file: str) -> bytes:
    """Nothing, where the process is gone or may not be looked at."""
    try:
        return (_PROC / str(pid) / file).read_bytes()
    except OSError:
        return b""


@functools.cache
def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _ps(*options: str) -> bytes:
    # A start is written in the words of the locale, at the hour of the time zone.
    surroundings = {"LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(["/bin/ps", *options], capture_output=True, check=False, env=surroundings).stdout
