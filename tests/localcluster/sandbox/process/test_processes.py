"""Processes are found, told apart, weighed and ended, from /proc and from what `ps` prints."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.localcluster.sandbox.process import processes

pytestmark = pytest.mark.pods

Start = Callable[..., "subprocess.Popen[str]"]

# One write per line: processes that share an output must not mix theirs.
WAITS = "import os; os.write(1, b'ready\\n'); input()"
FORKS_TWICE = """
import os, signal
if not os.fork(): os.fork()
os.write(1, b'%d\\n' % os.getpid())
signal.pause()
"""
HOLDS_50_MB = f"held = b'x' * (50 << 20); {WAITS}"


@pytest.fixture
def start() -> Iterator[Start]:
    """Runs a script, each in a process group of its own, which ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(script: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with process:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@pytest.fixture(params=["proc", "ps"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "ps" and not Path("/bin/ps").exists():
        pytest.skip("needs /bin/ps")
    if request.param == "proc" and not processes._HAS_PROC:
        pytest.skip("needs /proc")
    monkeypatch.setattr(processes, "_HAS_PROC", request.param == "proc")


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def has_ended_unreaped(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is not None


@pytest.mark.usefixtures("source")
def test_descendants_and_ancestors(start: Start) -> None:
    first = start(FORKS_TWICE)
    family = {int(line_of(first)) for _ in range(3)}
    child, grandchild = processes.descendants(first.pid)
    assert {first.pid, child, grandchild} == family
    assert processes.descendants(child) == [grandchild]
    assert processes.ancestors(grandchild)[:3] == [child, first.pid, os.getpid()]
    assert processes.descendants(grandchild) == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_marked_process_is_found_by_its_exact_value(start: Start) -> None:
    ours = start(WAITS, WINDLASS_TEST_MARK="one")
    others = [start(WAITS, WINDLASS_TEST_MARK="one more"), start(WAITS, NOT_WINDLASS_TEST_MARK="one")]
    for process in (ours, *others):
        line_of(process)
    assert processes.pids_with_variable(b"WINDLASS_TEST_MARK", b"one") == [ours.pid]


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (b"", []),
        (b"  7 /bin/sleep 9 POD=a HOME=/\n  8 /bin/sleep 9 POD=b", [7]),
        (b"  7 /bin/sleep POD=ab\n  8 sh XPOD=a\n  9 sh TERM=x POD=a", [9]),
    ],
)
def test_marked_process_is_found_in_ps_output(listing: bytes, expected: list[int]) -> None:
    assert processes._pids_with(b"POD=a", listing) == expected


def test_kill_all_kills_new_processes(start: Start) -> None:
    appeared: list[subprocess.Popen[str]] = []

    def find() -> list[int]:
        if len(appeared) < 3:
            appeared.append(start(WAITS))
        return [process.pid for process in appeared]

    assert processes.kill_all(find, seconds=60) == []
    assert [process.wait() for process in appeared] == [-signal.SIGKILL] * 3


def test_kill_all_returns_survivors(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(WAITS)
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    assert processes.kill_all(lambda: [process.pid], seconds=0.01) == [process.pid]
    assert set(killed) <= {process.pid}


@pytest.mark.parametrize("pid", [os.getpid(), 1, 0, -1], ids=["itself", "the first", "0", "-1"])
def test_kill_all_spares_caller_and_pid_1(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("must not be killed"))
    assert processes.kill_all(lambda: [pid]) == []


def test_zombie_is_not_alive(start: Start) -> None:
    process = start("pass")
    assert has_ended_unreaped(process.pid)
    assert processes.kill_all(lambda: [process.pid], seconds=0) == []


def test_identity_differs_after_pid_reuse(start: Start) -> None:
    process = start(WAITS)
    line_of(process)
    identity = processes.identity(process.pid)
    assert identity is not None
    assert processes.is_alive(identity)
    assert not processes.is_alive(identity.replace(":", ":1", 1))
    process.kill()
    assert has_ended_unreaped(process.pid)
    assert not processes.is_alive(identity)
    process.wait()
    assert processes.identity(process.pid) is None
    assert not processes.is_alive(identity)


STAT = "{pid} ({name}) {state} 4 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 8901 0 0"


@pytest.mark.skipif(not processes._HAS_PROC, reason="the id of a boot is in /proc")
@pytest.mark.parametrize(
    ("name", "state", "threads", "is_zombie"),
    [
        ("sleep", "S", 1, False),
        ("a) R 99 (b", "S", 1, False),
        ("sleep", "Z", 1, True),
        # Its first thread has ended, another runs on.
        ("python", "Z", 2, False),
    ],
)
def test_stat_is_parsed(name: str, state: str, threads: int, is_zombie: bool) -> None:
    process = processes._from_stat(STAT.format(pid=12, name=name, state=state, threads=threads).encode())
    assert process is not None
    assert (process.pid, process.parent, process.is_zombie) == (12, 4, is_zombie)
    assert process.start.startswith("8901:")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"", None),
        (
            b"   12     4 Ss   Mon Nov  3 10:20:30 2025    ",
            processes._Process(12, 4, False, "Mon-Nov-3-10:20:30-2025"),
        ),
        (b"12 4 Z+ Mon Nov 13 10:20:30 2025", processes._Process(12, 4, True, "Mon-Nov-13-10:20:30-2025")),
    ],
)
def test_ps_line_is_parsed(line: bytes, expected: processes._Process | None) -> None:
    assert processes._from_ps(line) == expected


@pytest.mark.usefixtures("source")
def test_memory_of_a_process(start: Start) -> None:
    process = start(HOLDS_50_MB)
    line_of(process)
    assert 50 << 20 <= processes.memory_of([process.pid]) < 90 << 20


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc with smaps_rollup")
def test_shared_memory_counts_proportionally(start: Start) -> None:
    process = start(f"import os; held = b'x' * (50 << 20); os.fork(); {WAITS}")
    assert [line_of(process), line_of(process)] == ["ready", "ready"]
    both = [process.pid, *processes.descendants(process.pid)]
    assert len(both) == 2
    assert 50 << 20 <= processes.memory_of(both) < 90 << 20


@pytest.mark.skipif(not processes._HAS_PROC, reason="needs /proc")
def test_memory_without_access_to_proportional_values(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(HOLDS_50_MB)
    line_of(process)
    read = processes._bytes_of
    monkeypatch.setattr(processes, "_bytes_of", lambda pid, file: b"" if "smaps" in file else read(pid, file))
    assert 50 << 20 <= processes.memory_of([process.pid]) < 90 << 20


@pytest.mark.usefixtures("source")
def test_ended_process_uses_no_memory(start: Start) -> None:
    process = start("pass")
    process.wait()
    assert processes.memory_of([process.pid]) == 0
    assert processes.memory_of([]) == 0


def test_proportional_bytes_adds_all_mappings() -> None:
    assert processes.proportional_bytes("Pss: 4 kB\nPss_Dirty: 4 kB\nPss: 8 kB\n") == 12 * 1024
