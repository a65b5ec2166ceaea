"""Resource usage of containers from cgroups v1, v2 and /proc."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.localcluster.sandbox.process import processes, usage
from windlass.localcluster.sandbox.process.processes import ProcessStat
from windlass.localcluster.sandbox.process.usage import Target
from windlass.localcluster.usage import ProcessUsage

pytestmark = pytest.mark.pods

# A process that stands for an init, its child that holds 50 MB, and a child of that which it has waited for after it
# had used a fifth of a second of the CPU.
FAMILY = """
import os, time
if not os.fork():
    held = b'x' * (50 << 20)
    if not os.fork():
        while sum(os.times()[:2]) < 0.2: pass
        os._exit(0)
    os.wait()
    os.write(1, b'ready')
    time.sleep(100000)
os.wait()
"""
INIT_ITSELF = 20 << 20
"""More than its own memory would add to that of its child's."""


@pytest.fixture
def init() -> Iterator[int]:
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        yield process.pid
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(params=["proc", "ps"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "ps" and not Path("/bin/ps").exists():
        pytest.skip("needs /bin/ps")
    if request.param == "proc" and not processes._HAS_PROC:
        pytest.skip("needs /proc")
    monkeypatch.setattr(processes, "_HAS_PROC", request.param == "proc")
    return str(request.param)


def test_usage_of_a_process_tree(init: int, source: str) -> None:
    found = usage.read({"a": Target(init), "gone": Target(2**22 + 1)})
    assert list(found) == ["a"]
    load = found["a"]
    assert 50 << 20 <= load.memory_bytes < (50 << 20) + 2 * INIT_ITSELF
    if source == "proc":
        # `ps` does not tell what those used that have ended.
        assert load.cpu_seconds >= 0.19


def test_without_targets_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "usage_by_pid", lambda: pytest.fail("no container is running"))
    assert usage.read({}) == {}


def test_processes_are_read_once_for_all_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def shares() -> dict[int, ProcessStat]:
        reads.append(1)
        return {
            1: ProcessStat(0, 100.0, 100.0, 1000),
            10: ProcessStat(1, 50.0, 0.5, 500),
            11: ProcessStat(10, 1.0, 2.0, 30),
            12: ProcessStat(11, 4.0, 0.0, 40),
            20: ProcessStat(1, 50.0, 0.0, 500),
        }

    monkeypatch.setattr(processes, "usage_by_pid", shares)
    assert usage.read({"a": Target(10), "b": Target(20)}) == {
        "a": ProcessUsage(7.5, 70),
        "b": ProcessUsage(0.0, 0),
    }
    assert len(reads) == 1


class Files(dict[str, str]):
    """The files of a cgroup by their relative paths."""

    def write(self, folder: Path) -> tuple[str, ...]:
        for name, text in self.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        return tuple(str(folder / name) for name in sorted({name.partition("/")[0] for name in self}))


UNIFIED = Files(
    {
        "group/cgroup.controllers": "cpu memory pids\n",
        "group/cpu.stat": "usage_usec 2500000\nuser_usec 2000000\n",
        "group/memory.current": "5000\n",
        "group/memory.stat": "anon 4000\ninactive_file 600\nactive_file 400\n",
    }
)
VERSION_1 = Files(
    {
        "cpu/cpuacct.usage": "2500000000\n",
        "cpu/cpu.stat": "nr_periods 7\n",
        "memory/memory.usage_in_bytes": "5000\n",
        "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 600\n",
    }
)
MEMORY_ALONE = Files({name: text for name, text in VERSION_1.items() if name.startswith("memory")})
CPU_WITHOUT_ACCOUNTS = Files({"cpu/cpu.stat": "nr_periods 7\n", "pids/pids.max": "4096\n"})
GROUPS = {
    "version 2": (UNIFIED, ProcessUsage(2.5, 4400)),
    "version 1": (VERSION_1, ProcessUsage(2.5, 4400)),
    "memory alone": (MEMORY_ALONE, ProcessUsage(7.0, 4400)),
    "neither": (CPU_WITHOUT_ACCOUNTS, ProcessUsage(7.0, 70)),
    "none": (Files(), ProcessUsage(7.0, 70)),
}


@pytest.mark.parametrize(("files", "expected"), GROUPS.values(), ids=GROUPS)
def test_usage_from_a_cgroup(
    files: Files, expected: ProcessUsage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that the cgroup does not count come from /proc."""
    monkeypatch.setattr(
        processes, "usage_by_pid", lambda: {1: ProcessStat(0, 9, 0, 900), 2: ProcessStat(1, 7.0, 0, 70)}
    )
    assert usage.read({"a": Target(1, files.write(tmp_path))}) == {"a": expected}


def test_removed_cgroup_is_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = UNIFIED.write(tmp_path)
    monkeypatch.setattr(processes, "usage_by_pid", dict)
    assert usage.read({"a": Target(1, groups)}) == {"a": ProcessUsage(2.5, 4400)}
    for name in UNIFIED:
        (tmp_path / name).unlink()
    assert usage.read({"a": Target(1, groups)}) == {}


LINES = {
    "minutes": (b"   71     1  5120   2:03.50", (71, ProcessStat(1, 123.5, 0.0, 5120 * 1024))),
    "hours": (b"71 1 5120 01:02:03", (71, ProcessStat(1, 3723.0, 0.0, 5120 * 1024))),
    "days": (b"71 1 5120 2-01:02:03", (71, ProcessStat(1, 176523.0, 0.0, 5120 * 1024))),
    "gone": (b"", None),
}


@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES)
def test_usage_from_a_ps_line(line: bytes, expected: tuple[int, ProcessStat] | None) -> None:
    assert processes._usage_from_ps(line) == expected


STATS = {
    "a name like a trap": (
        b"7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 150 50 20 5 20 0 1 0 999 1000 25 18446744073709551615 1 1",
        True,
    ),
    "gone": (b"", False),
    "cut": (b"7 (sh) S 3 7", False),
}


@pytest.mark.parametrize(("text", "is_there"), STATS.values(), ids=STATS)
def test_usage_from_proc_stat(text: bytes, is_there: bool) -> None:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    expected = ProcessStat(3, 200 / ticks, 25 / ticks, 25 * page)
    assert processes._usage_from_stat(text) == (expected if is_there else None)
