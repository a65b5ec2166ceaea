"""The limits of a container's run, held by the kernel where the machine lets us make cgroups: version 1 or 2, as root
or in a subtree that was handed to us.

All groups of a cluster lie in one folder `windlass-<cluster>` per hierarchy, which goes with the last of them. It is
where the limits that somebody set for us still hold: with version 1 below our own group. With version 2 a group with
processes of its own has no limited groups below it, hence beside our own group, or below it after our processes have
moved into a group of theirs.

Nothing here fails because a limit cannot be had: `Group.enforced` says which ones the kernel holds. Memory that it does
not hold is watched elsewhere.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.process import processes

_CONTROLLERS = frozenset({"memory", "pids", "cpu"})
_CPU_PERIOD_US = 100_000
# The kernel takes no less.
_LEAST_CPU_QUOTA_US = 1_000
_REMOVAL_SECONDS = 2.0
_ATTEMPTS = 10
# Where the processes go that were in a group which is to have limited groups below it.
_REST = "windlass-rest"


class Place(msgspec.Struct, frozen=True):
    """A folder of a hierarchy in which we may make groups."""

    hierarchy: Path
    folder: Path
    controllers: frozenset[str]
    is_unified: bool


class Group(msgspec.Struct, frozen=True):
    """The cgroup of one run, as one folder per hierarchy; none at all for a run without limits."""

    folders: tuple[Path, ...] = ()
    # What the kernel holds of the limits that were asked for; None for the others.
    enforced: messages.Limits = messages.Limits()
    # The file that counts kills for memory, and what it held at the start.
    counters: Path | None = None
    counted: str = ""

    def join(self, pid: int) -> None:
        """What the process forks from now on is in the group too; 0 is the caller. OSError where it cannot be.

        The caller has one thread. In version 1 that thread goes alone, for which the kernel stops nobody else.
        """
        for folder in self.folders:
            alone = folder / "tasks"
            _write(alone if pid == 0 and alone.exists() else folder / "cgroup.procs", str(pid))

    def has_run_out_of_memory(self) -> bool:
        return self.counters is not None and was_killed_for_memory(self.counted, _read(self.counters))

    def pids(self) -> list[int]:
        return sorted({pid for folder in self.folders for pid in _pids_below(folder)})

    def kill(self) -> list[int]:
        """Answers with what would not die."""
        # Version 2 ends all of them at once, the caller not spared.
        is_inside = os.getpid() in self.pids()
        for folder in () if is_inside else self.folders:
            _try_to_write(folder / "cgroup.kill", "1")
        return processes.kill_all(self.pids)

    def remove(self) -> bool:
        """After the last process has ended; waits a moment for the kernel to notice. False where it is still there."""
        are_gone = [_remove(folder) for folder in self.folders]
        for folder in self.folders:
            _try_to_remove(folder.parent)
        return all(are_gone)


class Cgroups(msgspec.Struct, frozen=True):
    """Where the groups of one cluster are made."""

    cluster: str
    places: tuple[Place, ...]

    def create(self, name: str, limits: messages.Limits) -> Group:
        """A group that holds these limits, as far as the machine can."""
        folders: list[Path] = []
        enforced: set[str] = set()
        for place in self.places:
            settings = _settings(limits, place)
            folder = self._make(place, name) if settings else None
            if folder is None:
                continue
            folders.append(folder)
            enforced |= {controller for controller, files in settings.items() if _apply(folder, files)}
        counters = next(filter(Path.exists, _counters(folders)), None)
        return Group(
            folders=tuple(folders),
            enforced=messages.Limits(
                memory_bytes=limits.memory_bytes if "memory" in enforced else None,
                processes=limits.processes if "pids" in enforced else None,
                cpu_milli=limits.cpu_milli if "cpu" in enforced else None,
            ),
            counters=counters,
            counted=_read(counters) if counters else "",
        )

    def remove_all_but(self, known: set[str]) -> None:
        """Ends and removes every group of this cluster but those named."""
        self._remove_where(lambda name: name not in known)

    def remove_those(self, names: set[str]) -> None:
        """Ends and removes the groups of this cluster that are named."""
        self._remove_where(lambda name: name in names)

    def _remove_where(self, is_wanted: Callable[[str], bool]) -> None:
        """Wherever in the hierarchies they are, since an earlier daemon may have started in another place."""
        for place in self.places:
            for parent in _folders_named(_parent_name(self.cluster), place.hierarchy):
                for folder in _subfolders(parent):
                    if is_wanted(folder.name):
                        group = Group(folders=(folder,))
                        group.kill()
                        group.remove()
                _try_to_remove(parent)

    def remove_empty(self, seconds: float) -> None:
        """For a cluster whose pods are all ending: waits until its groups are gone, but no longer than that."""
        deadline = time.monotonic() + seconds
        parents = [place.folder / _parent_name(self.cluster) for place in self.places]
        while time.monotonic() < deadline:
            are_gone = [_try_to_remove_all(parent) for parent in parents]
            if all(are_gone):
                return
            time.sleep(0.02)

    def _make(self, place: Place, name: str) -> Path | None:
        parent = place.folder / _parent_name(self.cluster)
        for _ in range(_ATTEMPTS):
            try:
                parent.mkdir(exist_ok=True)
                if place.is_unified:
                    _enable(parent, place.controllers)
                (parent / name).mkdir(exist_ok=True)
            except FileNotFoundError:
                # Whoever removed the last group has just removed the folder of all of them.
                continue
            except OSError:
                return None
            return parent / name
        return None


def find(
    cluster: str,
    *,
    mounts: Path = Path("/proc/self/mountinfo"),
    membership: Path = Path("/proc/self/cgroup"),
) -> Cgroups | None:
    """None where no limit at all can be had. May move this process and its relatives into a group below their own."""
    own = _own_groups(_read(membership))
    found: list[Place] = []
    for mount in _mounts(_read(mounts)):
        group = own.get("" if mount.is_unified else next(iter(sorted(mount.controllers)), ""))
        folder = mount.folder_of(group) if group is not None else None
        if folder is None or not folder.is_dir():
            continue
        with contextlib.suppress(OSError):
            found += (
                _unified_place(mount, folder, cluster) if mount.is_unified else _place(mount, folder, cluster)
            )
    return Cgroups(cluster, tuple(found)) if found else None


class _Mount(msgspec.Struct, frozen=True):
    point: Path
    # The group that is to be seen at the mount point.
    root: str
    # Empty for the unified hierarchy, which says so itself.
    controllers: frozenset[str]
    is_unified: bool

    def folder_of(self, group: str) -> Path | None:
        is_visible = self.root == "/" or group == self.root or group.startswith(self.root + "/")
        if not is_visible or ".." in group.split("/"):
            return None
        return self.point / group.removeprefix(self.root.rstrip("/")).lstrip("/")


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind = after.partition(" ")[0]
        controllers = _CONTROLLERS & set(after.rpartition(" ")[2].split(","))
        if kind == "cgroup2" or (kind == "cgroup" and controllers):
            # A space in a name is written as \040.
            root, point = (field.encode().decode("unicode_escape") for field in before.split(" ")[3:5])
            yield _Mount(Path(point), root, controllers, kind == "cgroup2")


def _own_groups(text: str) -> dict[str, str]:
    """The group of this process by controller; the unified hierarchy's has the empty name."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {controller: group for _, controllers, group in lines for controller in controllers.split(",")}


def _place(mount: _Mount, folder: Path, cluster: str) -> list[Place]:
    """In version 1: below our own group."""
    held = frozenset(_controllers_held(folder / _parent_name(cluster), mount.controllers, is_unified=False))
    return [Place(mount.point, folder, held, is_unified=False)] if held else []


def _unified_place(mount: _Mount, own: Path, cluster: str) -> list[Place]:
    """In version 2: beside our own group, or as near to it as may be, but not where a limit set for us ends."""
    folder = own
    while not _takes_groups(folder):
        if folder != mount.point and not _is_limited(folder):
            folder = folder.parent
        elif _is_ours(own) and _split(own):
            folder = own
            break
        else:
            return []
    controllers = _enable(folder, _CONTROLLERS)
    held = frozenset(_controllers_held(folder / _parent_name(cluster), controllers, is_unified=True))
    return [Place(mount.point, folder, held, is_unified=True)] if held else []


def _takes_groups(folder: Path) -> bool:
    """Whether limited groups can be below this one as it is."""
    is_root_of_all = not (folder / "cgroup.type").exists()
    has_processes = bool(_read(folder / "cgroup.procs").split())
    return _is_ours(folder) and (is_root_of_all or not has_processes)


def _is_ours(folder: Path) -> bool:
    """Whether we may make limited groups below this one, and move processes between them: which takes the right to
    write to the list of processes of the group that both have in common."""
    has_controllers = bool(_CONTROLLERS & set(_read(folder / "cgroup.controllers").split()))
    return has_controllers and all(
        os.access(file, os.W_OK)
        for file in (folder, folder / "cgroup.procs", folder / "cgroup.subtree_control")
    )


def _is_limited(folder: Path) -> bool:
    """By a number of processes nearly every group is, as a precaution of the system's and not for our sake."""
    return any(_read(folder / file).split()[:1] not in ([], ["max"]) for file in ("memory.max", "cpu.max"))


def _split(own: Path) -> bool:
    """Moves all processes of our group into one below it, unless some are no relatives of ours."""
    rest = own / _REST
    us = os.getpid()
    for _ in range(_ATTEMPTS):
        inside = set(_pids_of(own))
        if inside - {us, *processes.ancestors(us), *processes.descendants(us)}:
            return False
        rest.mkdir(exist_ok=True)
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                _write(rest / "cgroup.procs", str(pid))
        if not _pids_of(own):
            return True
    return False


def _enable(folder: Path, controllers: frozenset[str]) -> frozenset[str]:
    """For the groups below; answers with those that are."""
    file = folder / "cgroup.subtree_control"
    for controller in sorted(controllers - set(_read(file).split())):
        _try_to_write(file, f"+{controller}")
    return controllers & set(_read(file).split())


def _controllers_held(trial: Path, controllers: frozenset[str], *, is_unified: bool) -> Iterator[str]:
    """Those whose limits can be set in a group that is made for this question."""
    files = {
        "memory": "memory.max" if is_unified else "memory.limit_in_bytes",
        "pids": "pids.max",
        "cpu": "cpu.max" if is_unified else "cpu.cfs_quota_us",
    }
    trial.mkdir(exist_ok=True)
    try:
        if os.access(trial / "cgroup.procs", os.W_OK):
            yield from (
                controller for controller in controllers if os.access(trial / files[controller], os.W_OK)
            )
    finally:
        _try_to_remove(trial)


def _settings(limits: messages.Limits, place: Place) -> dict[str, tuple[tuple[str, int | str], ...]]:
    """By controller, what to write into which file: the limit first, then what belongs to it and may be missing."""
    settings: dict[str, tuple[tuple[str, int | str], ...]] = {}
    memory, count, cpu = limits.memory_bytes, limits.processes, limits.cpu_milli
    if memory is not None and place.is_unified:
        settings["memory"] = (("memory.max", memory), ("memory.swap.max", 0), ("memory.oom.group", 0))
    elif memory is not None:
        settings["memory"] = (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory))
    if count is not None:
        settings["pids"] = (("pids.max", count),)
    if cpu is not None:
        quota = max(cpu * _CPU_PERIOD_US // 1000, _LEAST_CPU_QUOTA_US)
        settings["cpu"] = (
            ("cpu.max", f"{quota} {_CPU_PERIOD_US}") if place.is_unified else ("cpu.cfs_quota_us", quota),
        )
    return {controller: files for controller, files in settings.items() if controller in place.controllers}


def _apply(folder: Path, files: tuple[tuple[str, int | str], ...]) -> bool:
    done = [_try_to_write(folder / file, str(value)) for file, value in files]
    return done[0]


def _counters(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        yield folder / "memory.events"
        yield folder / "memory.oom_control"


def was_killed_for_memory(before: str, after: str) -> bool:
    """Compare the counters at the start and at the end of a run. A cgroup may outlive a run."""
    return _oom_kills(after) > _oom_kills(before)


def _oom_kills(counters: str) -> int:
    """Return the number of OOM kills in `memory.events` (v2) or `memory.oom_control` (v1, since Linux 4.13)."""
    for line in counters.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return 0


def _parent_name(cluster: str) -> str:
    return f"windlass-{cluster}"


def _folders_named(name: str, root: Path) -> list[Path]:
    return [Path(folder) / name for folder, subfolders, _ in os.walk(root) if name in subfolders]


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _pids_of(folder: Path) -> list[int]:
    # A process that our PID namespace does not show is listed as 0.
    return [int(pid) for pid in _read(folder / "cgroup.procs").split() if pid != "0"]


def _pids_below(folder: Path) -> Iterator[int]:
    """A container with enough rights may have made groups of its own."""
    yield from _pids_of(folder)
    for subfolder in _subfolders(folder):
        yield from _pids_below(subfolder)


def _remove(folder: Path) -> bool:
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while not _try_to_remove_all(folder):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


def _try_to_remove_all(folder: Path) -> bool:
    for subfolder in _subfolders(folder):
        _try_to_remove_all(subfolder)
    return _try_to_remove(folder)


def _try_to_remove(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def _read(file: Path) -> str:
    """Nothing, where there is nothing to be read."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _write(file: Path, text: str) -> None:
    # Not made where it is missing: a controller that is not there must be noticed.
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _try_to_write(file: Path, text: str) -> bool:
    try:
        _write(file, text)
    except OSError:
        return False
    return True
