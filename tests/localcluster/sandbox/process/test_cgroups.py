"""Limits are held by cgroups: by real ones where this machine lets us make them, and by folders that imitate both
versions where it does not."""

import errno
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.localcluster.sandbox.messages import Limits
from windlass.localcluster.sandbox.process import cgroups, processes

ALL = Limits(memory_bytes=20 << 20, processes=20, cpu_milli=500)
LIMIT_FILES = {
    1: {
        "memory": ("memory.limit_in_bytes", "memory.oom_control"),
        "pids": ("pids.max",),
        "cpu": ("cpu.cfs_quota_us",),
    },
    2: {
        "memory": ("memory.max", "memory.swap.max", "memory.oom.group", "memory.events"),
        "pids": ("pids.max",),
        "cpu": ("cpu.max",),
    },
}


class Kernel:
    """Imitate the kernel's handling of directories of a hierarchy."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.mounts: list[str] = []
        self.memberships: list[str] = []
        # Folders in which we may do nothing.
        self.denied: set[Path] = set()
        self._real_mkdir, self._real_rmdir = os.mkdir, os.rmdir
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)
        monkeypatch.setattr(os, "access", lambda path, _: self._is_there_for_us(Path(path)))
        monkeypatch.setattr(cgroups, "_write", self.write)

    def mount(self, options: str, own: str, *, root: str = "/", kind: str = "cgroup") -> Path:
        point = self.folder / options.replace(",", "-").replace(" ", "-")
        written = str(point).replace(" ", "\\040")
        self.mounts.append(f"33 25 0:30 {root} {written} rw,relatime shared:1 - {kind} {kind} rw,{options}")
        self.memberships.append(f"0::{own}" if kind == "cgroup2" else f"4:{options}:{own}")
        self._real_mkdir(point)
        self._fill(point)
        return point

    def find(self, cluster: str = "c") -> cgroups.Cgroups | None:
        mounts, membership = self.folder / "mountinfo", self.folder / "membership"
        others = "25 1 0:22 / / rw - ext4 /dev/vda rw\n26 25 0:23 / /x\\040y rw - tmpfs  rw\n"
        mounts.write_text(others + "\n".join(self.mounts))
        membership.write_text("9:name=systemd:/\n" + "\n".join(self.memberships))
        return cgroups.find(cluster, mounts=mounts, membership=membership)

    def mkdir(self, path: str | Path, mode: int = 0o777) -> None:
        if not self._is_allowed(Path(path)):
            raise PermissionError(path)
        self._real_mkdir(path, mode)
        self._fill(Path(path))

    def rmdir(self, path: str | Path) -> None:
        folder = Path(path)
        if (folder / "cgroup.procs").read_text().split() or any(entry.is_dir() for entry in folder.iterdir()):
            raise OSError(errno.EBUSY, "busy", str(path))
        for file in folder.iterdir():
            file.unlink()
        self._real_rmdir(folder)

    def write(self, file: Path, text: str) -> None:
        if not file.exists():
            raise FileNotFoundError(file)
        if not self._is_allowed(file):
            raise PermissionError(file)
        if file.name == "cgroup.procs":
            self._move(text, file)
        elif file.name == "cgroup.subtree_control":
            self._enable(text.removeprefix("+"), file)
        else:
            file.write_text(text)

    def _move(self, pid: str, file: Path) -> None:
        for other in self.folder.rglob("cgroup.procs"):
            other.write_text("\n".join(word for word in other.read_text().split() if word != pid))
        file.write_text(file.read_text() + f"\n{pid}\n")

    def _enable(self, controller: str, file: Path) -> None:
        has_processes = (file.parent / "cgroup.procs").read_text().split()
        if has_processes and (file.parent / "cgroup.type").exists():
            raise OSError(errno.EBUSY, "busy", str(file))
        if controller not in (file.parent / "cgroup.controllers").read_text().split():
            raise FileNotFoundError(file)
        file.write_text(f"{file.read_text()} {controller}")

    def _fill(self, folder: Path) -> None:
        is_unified = (folder.parent / "cgroup.subtree_control").exists() or folder.name == "nsdelegate"
        if is_unified:
            above = folder.parent / "cgroup.subtree_control"
            controllers = above.read_text().split() if above.exists() else ["memory", "pids", "cpu", "io"]
            self._files(
                folder, "cgroup.subtree_control", "cgroup.kill", *(["cgroup.type"] if above.exists() else [])
            )
            (folder / "cgroup.controllers").write_text(" ".join(controllers))
        else:
            above = next(path for path in (folder, *folder.parents) if path.parent == self.folder)
            controllers = above.name.split("-")
        self._files(folder, "cgroup.procs")
        for controller in controllers:
            self._files(folder, *LIMIT_FILES[2 if is_unified else 1].get(controller, ()))

    def _files(self, folder: Path, *names: str) -> None:
        for name in names:
            (folder / name).write_text("max" if name.endswith(".max") else "")

    def _is_allowed(self, path: Path) -> bool:
        return (path if path.is_dir() else path.parent) not in self.denied

    def _is_there_for_us(self, path: Path) -> bool:
        return path.exists() and self._is_allowed(path)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    folder = tmp_path / "a machine"
    folder.mkdir()
    return Kernel(folder, monkeypatch)


def unified(kernel: Kernel, own: str, *, enabled: str = "memory pids cpu") -> Path:
    """A hierarchy of version 2 down to our own group, with these controllers in all of it, and ourselves in there."""
    point = kernel.mount("nsdelegate", own, kind="cgroup2")
    folder = point
    for name in Path(own).parts[1:]:
        (folder / "cgroup.subtree_control").write_text(enabled)
        folder = folder / name
        kernel.mkdir(folder)
    kernel.write(folder / "cgroup.procs", str(os.getpid()))
    return folder


def texts(folder: Path, *names: str) -> list[str]:
    return [(folder / name).read_text() for name in names]


# Version 1


def test_version_1_creates_a_directory_per_hierarchy(kernel: Kernel) -> None:
    memory, pids, cpu = (
        kernel.mount("memory", "/us"),
        kernel.mount("pids", "/"),
        kernel.mount("cpu,cpuacct", "/"),
    )
    kernel.mkdir(memory / "us")
    found = kernel.find()
    assert found is not None
    group = found.create("run", ALL)
    folders = [memory / "us/windlass-c/run", pids / "windlass-c/run", cpu / "windlass-c/run"]
    assert list(group.folders) == folders
    assert group.enforced == ALL
    assert (folders[0] / "memory.limit_in_bytes").read_text() == str(20 << 20)
    assert (folders[1] / "pids.max").read_text() == "20"
    assert (folders[2] / "cpu.cfs_quota_us").read_text() == "50000"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), []),
        (Limits(memory_bytes=1), ["memory"]),
        (Limits(processes=1), ["pids"]),
        (Limits(cpu_milli=1), ["cpu-cpuacct"]),
        (Limits(processes=1, memory_bytes=1), ["memory", "pids"]),
    ],
)
def test_only_needed_hierarchies_are_used(limits: Limits, expected: list[str], kernel: Kernel) -> None:
    for options in ("memory", "pids", "cpu,cpuacct", "freezer"):
        kernel.mount(options, "/")
    found = kernel.find()
    assert found is not None
    group = found.create("run", limits)
    assert [folder.parents[1].name for folder in group.folders] == expected
    assert sorted(path.parents[1].name for path in kernel.folder.rglob("run")) == expected
    assert group.remove()
    assert not list(kernel.folder.rglob("windlass*"))


def test_impossible_limit_is_not_enforced(kernel: Kernel) -> None:
    kernel.denied = {kernel.mount("memory", "/")}
    kernel.mount("pids", "/")
    found = kernel.find()
    assert found is not None
    assert found.create("run", ALL).enforced == Limits(processes=20)


@pytest.mark.parametrize(
    ("root", "own", "expected"),
    [
        ("/docker/a", "/docker/a", ""),
        ("/docker/a", "/docker/a/b", "b"),
        ("/docker/a", "/docker/ab", None),
        ("/docker/a", "/elsewhere", None),
        ("/", "/../above", None),
        ("/", "/gone", None),
    ],
)
def test_partially_visible_hierarchy(root: str, own: str, expected: str | None, kernel: Kernel) -> None:
    point = kernel.mount("pids", own, root=root)
    kernel.mkdir(point / "b")
    found = kernel.find()
    assert (found and found.places[0].folder) == (None if expected is None else point / expected)


def test_without_cgroups_find_returns_none(kernel: Kernel) -> None:
    assert kernel.find() is None
    assert cgroups.find("c", mounts=Path("/nowhere"), membership=Path("/nowhere")) is None


def test_oom_kills_count_since_the_start(kernel: Kernel) -> None:
    point = kernel.mount("memory", "/")
    found = kernel.find()
    assert found is not None
    folder = point / "windlass-c/run"
    kernel.mkdir(folder.parent)
    kernel.mkdir(folder)
    (folder / "memory.oom_control").write_text("under_oom 0\noom_kill 2\n")
    group = found.create("run", ALL)
    assert not group.has_run_out_of_memory()
    (folder / "memory.oom_control").write_text("under_oom 0\noom_kill 3\n")
    assert group.has_run_out_of_memory()


def test_only_leftovers_of_this_cluster_are_removed(kernel: Kernel) -> None:
    memory, pids = kernel.mount("memory", "/"), kernel.mount("pids", "/")
    ours, theirs = kernel.find("ours"), kernel.find("theirs")
    assert ours is not None
    assert theirs is not None
    for name in ("kept", "left"):
        ours.create(name, ALL)
        theirs.create(name, ALL)
    # Of a daemon that started elsewhere, with a group that the container had made.
    for folder in (
        "session",
        "session/windlass-ours",
        "session/windlass-ours/left",
        "session/windlass-ours/left/own",
    ):
        kernel.mkdir(memory / folder)
    ours.remove_all_except({"kept"})
    for point in (memory, pids):
        groups = {str(path.relative_to(point)) for path in point.rglob("*") if path.is_dir()}
        mine = {
            "windlass-ours",
            "windlass-ours/kept",
            "windlass-theirs",
            "windlass-theirs/kept",
            "windlass-theirs/left",
        }
        assert groups - {"session"} == mine
    ours.remove_all_except(set())
    assert not list(kernel.folder.rglob("windlass-ours"))


def test_cgroup_with_a_process_is_not_removed(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_REMOVAL_SECONDS", 0.0)
    kernel.mount("pids", "/")
    found = kernel.find()
    assert found is not None
    group = found.create("run", ALL)
    group.join(os.getpid())
    assert group.pids() == [os.getpid()]
    assert not group.remove()


def test_parent_removed_concurrently_is_recreated(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = kernel.mount("pids", "/") / "windlass-c"
    found = kernel.find()
    assert found is not None
    removals = iter([True, True])
    make = os.mkdir

    def removed_by_another(path: str | Path, mode: int = 0o777) -> None:
        if Path(path) != parent and next(removals, False):
            kernel.rmdir(parent)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", removed_by_another)
    assert found.create("run", ALL).enforced == Limits(processes=20)


# Version 2


def test_version_2_creates_cgroups_next_to_the_own_one(kernel: Kernel) -> None:
    own = unified(kernel, "/user.slice/app.slice/terminal.scope")
    kernel.denied = {own.parents[2], own.parents[1]}
    found = kernel.find()
    assert found is not None
    group = found.create("run", ALL)
    assert list(group.folders) == [own.parent / "windlass-c/run"]
    assert group.enforced == ALL
    assert texts(
        group.folders[0], "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"
    ) == [
        str(20 << 20),
        "0",
        "0",
        "20",
        "50000 100000",
    ]
    assert group.counters_file == group.folders[0] / "memory.events"
    assert cgroups._pids_of(own) == [os.getpid()]
    assert group.remove()
    assert not list(kernel.folder.rglob("windlass*"))


@pytest.mark.parametrize("enabled", ["pids", "memory pids"])
def test_controllers_that_are_not_delegated_are_not_enforced(enabled: str, kernel: Kernel) -> None:
    own = unified(kernel, "/a.slice/b.scope", enabled=enabled)
    kernel.denied = {own.parents[1]}
    found = kernel.find()
    assert found is not None
    expected = Limits(processes=20, memory_bytes=ALL.memory_bytes if "memory" in enabled else None)
    assert found.create("run", ALL).enforced == expected


def test_controllers_are_enabled_where_permitted(kernel: Kernel) -> None:
    own = unified(kernel, "/a.slice/b.scope")
    (own.parent / "cgroup.subtree_control").write_text("")
    found = kernel.find()
    assert found is not None
    assert found.create("run", ALL).enforced == ALL


def test_root_cgroup_may_have_processes_and_children(kernel: Kernel) -> None:
    point = unified(kernel, "/")
    found = kernel.find()
    assert found is not None
    assert found.places[0].folder == point
    assert cgroups._pids_of(point) == [os.getpid()]


@pytest.mark.parametrize("limit", ["memory.max", "cpu.max"])
def test_cgroup_with_limits_is_not_left(limit: str, kernel: Kernel) -> None:
    """The own processes are moved, and a later call finds the place next to them."""
    own = unified(kernel, "/a.slice/b.scope")
    (own / limit).write_text("5000000 100000")
    found = kernel.find()
    assert found is not None
    assert found.places[0].folder == own
    assert cgroups._pids_of(own) == []
    assert cgroups._pids_of(own / "windlass-rest") == [os.getpid()]
    assert found.create("run", ALL).enforced == ALL
    kernel.memberships = ["0::/a.slice/b.scope/windlass-rest"]
    again = kernel.find("other")
    assert again is not None
    assert again.places[0].folder == own


def test_delegated_cgroup_moves_processes_to_a_child(kernel: Kernel) -> None:
    own = unified(kernel, "/system.slice/ours.service")
    kernel.denied = {own.parents[0], own.parents[1]}
    found = kernel.find()
    assert found is not None
    assert found.places[0].folder == own


def deny_all_but_our_own(kernel: Kernel, own: Path) -> None:
    kernel.denied = {own.parent, own.parent.parent}


def put_a_stranger_into_it(kernel: Kernel, own: Path) -> None:
    deny_all_but_our_own(kernel, own)
    # No process has this number.
    kernel.write(own / "cgroup.procs", str(2**22 + 1))


def deny_our_own_too(kernel: Kernel, own: Path) -> None:
    kernel.denied = {own, own.parent, own.parent.parent}


def take_all_controllers(kernel: Kernel, own: Path) -> None:
    for file in kernel.folder.rglob("cgroup.controllers"):
        file.write_text("io")


@pytest.mark.parametrize("obstacle", [put_a_stranger_into_it, deny_our_own_too, take_all_controllers])
def test_cgroup_with_foreign_processes_is_left_unchanged(
    obstacle: Callable[[Kernel, Path], None], kernel: Kernel
) -> None:
    own = unified(kernel, "/a.slice/b.scope")
    obstacle(kernel, own)
    assert kernel.find() is None
    assert os.getpid() in cgroups._pids_of(own)
    assert not list(kernel.folder.rglob("windlass*"))


def test_version_1_is_used_next_to_a_unified_hierarchy_without_controllers(kernel: Kernel) -> None:
    own = unified(kernel, "/")
    (own / "cgroup.controllers").write_text("")
    kernel.mount("pids", "/")
    found = kernel.find()
    assert found is not None
    assert [place.is_unified for place in found.places] == [False]


# Real ones


@pytest.fixture
def real() -> Iterator[cgroups.Cgroups]:
    found = cgroups.find(f"test-{uuid.uuid4().hex}")
    if found is None:
        pytest.skip("this machine lets us make no cgroups")
    yield found
    found.remove_all_except(set())
    for place in found.places:
        assert not list(place.hierarchy.rglob(f"windlass-{found.cluster}"))


Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a script that continues on request."""
    started: list[subprocess.Popen[str]] = []

    def run(script: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", f"import os, signal; input()\n{script}"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def needs(enforced: int | None) -> None:
    if enforced is None:
        pytest.skip("this machine lets us have no such limit")


def test_real_memory_limit(real: cgroups.Cgroups, start: Start) -> None:
    group = real.create("run", Limits(memory_bytes=20 << 20))
    needs(group.enforced.memory_bytes)
    process = start("held = b'x' * (100 << 20)")
    group.join(process.pid)
    assert not group.has_run_out_of_memory()
    go(process)
    assert process.wait() == -signal.SIGKILL
    assert group.has_run_out_of_memory()
    assert group.remove()


FORKS_AS_OFTEN_AS_IT_MAY = """
blocked, unblocks = os.pipe()
count = 0
try:
    while count < 100:
        if not os.fork():
            os.close(unblocks)
            os.read(blocked, 1)
            os._exit(0)
        count += 1
except BlockingIOError:
    pass
os.write(1, b'%d\\n' % count)
"""


def test_real_process_limit(real: cgroups.Cgroups, start: Start) -> None:
    group = real.create("run", Limits(processes=20))
    needs(group.enforced.processes)
    process = start(FORKS_AS_OFTEN_AS_IT_MAY)
    group.join(process.pid)
    go(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "19\n"
    assert group.kill() == []
    assert group.remove()


def test_real_cpu_limit(real: cgroups.Cgroups) -> None:
    group = real.create("run", Limits(cpu_milli=1500))
    needs(group.enforced.cpu_milli)
    (file,) = (
        path
        for path in (group.folders[0] / name for name in ("cpu.max", "cpu.cfs_quota_us"))
        if path.exists()
    )
    assert file.read_text().split()[0] == "150000"
    assert group.remove()


def test_kill_ends_every_process_of_a_real_cgroup(real: cgroups.Cgroups, start: Start) -> None:
    group = real.create("run", ALL)
    process = start("[os.fork() for _ in range(3)]\nos.write(1, b'there\\n')\nsignal.pause()")
    group.join(process.pid)
    go(process)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(8)] == ["there\n"] * 8
    assert len(group.pids()) == 8
    assert group.kill() == []
    assert group.pids() == []
    assert process.wait() == -signal.SIGKILL
    assert group.remove()
    assert not any(folder.exists() for folder in group.folders)


def test_leftover_processes_of_an_earlier_daemon_are_killed(real: cgroups.Cgroups, start: Start) -> None:
    process = start("signal.pause()")
    other = start("signal.pause()")
    real.create("left", ALL).join(process.pid)
    kept = real.create("kept", ALL)
    kept.join(other.pid)
    real.remove_all_except({"kept"})
    assert process.wait() == -signal.SIGKILL
    assert kept.pids() == [other.pid]
    assert other.poll() is None


def test_named_cgroup_is_removed(real: cgroups.Cgroups, start: Start) -> None:
    process, other = start("signal.pause()"), start("signal.pause()")
    real.create("left", ALL).join(process.pid)
    others = real.create("others", ALL)
    others.join(other.pid)
    real.remove_named({"left", "gone"})
    assert process.wait() == -signal.SIGKILL
    assert others.pids() == [other.pid]
    assert other.poll() is None


def test_process_joins_by_itself(real: cgroups.Cgroups) -> None:
    group = real.create("run", Limits(processes=20))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            group.join(0)
            os.write(writing, b"joined")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert answer.read() == b"joined"
    os.waitpid(child, 0)
    assert group.remove()


def test_without_limits_no_cgroup_is_created(real: cgroups.Cgroups, start: Start) -> None:
    group = real.create("run", Limits())
    process = start("signal.pause()")
    group.join(process.pid)
    assert group == cgroups.Group()
    assert group.kill() == group.pids() == []
    assert group.remove()
    assert process.poll() is None
    assert processes.identity(process.pid) is not None


V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (V2.format(0), V2.format(1), True),
        (V2.format(1), V2.format(1), False),
        (V1.format(0), V1.format(2), True),
        ("oom_kill_disable 0\nunder_oom 1\n", "oom_kill_disable 0\nunder_oom 1\n", False),
        ("", V2.format(1), True),
        ("", "", False),
    ],
)
def test_was_killed_for_memory(before: str, after: str, expected: bool) -> None:
    assert cgroups.was_killed_for_memory(before, after) is expected
