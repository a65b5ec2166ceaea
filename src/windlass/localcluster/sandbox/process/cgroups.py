"""Cgroups that enforce the limits of containers: version 1 or 2, as root or in a delegated subtree.

All cgroups of a cluster are in one directory `windlass-<cluster>` per hierarchy, which is removed with its last cgroup.
The limits of the daemon's cgroup must also apply to this directory. With version 1, the directory is below the daemon's
cgroup. With version 2, a cgroup with processes, except the root, cannot have children with limits. The directory is
therefore below an ancestor of the daemon's cgroup, or below that cgroup itself after its processes have been moved to
another child.

A limit that cannot be enforced is not an error: `Group.enforced` contains the limits that the kernel enforces. If
the memory limit is not one of them, the supervisor polls the memory usage.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import kernel, messages
from windlass.localcluster.sandbox.process import processes

_CONTROLLERS = frozenset({"memory", "pids", "cpu"})
_CPU_PERIOD_US = 100_000
# Minimum that the kernel accepts.
_MIN_CPU_QUOTA_US = 1_000
_REMOVAL_SECONDS = 2.0
_ATTEMPTS = 10
# Child cgroup for the processes of a cgroup that gets children with limits.
_PROCESSES = "windlass-rest"


class Place(msgspec.Struct, frozen=True):
    """A directory of a hierarchy in which cgroups can be created."""

    hierarchy: Path
    folder: Path
    controllers: frozenset[str]
    is_unified: bool


class Group(msgspec.Struct, frozen=True):
    """The cgroup of one run: one directory in each hierarchy that can enforce one of its limits."""

    folders: tuple[Path, ...] = ()
    # The limits that the kernel enforces; None for others.
    enforced: messages.Limits = messages.Limits()
    # The file that counts OOM kills, and its content at the start.
    counters_file: Path | None = None
    counters_at_start: str = ""

    def join(self, pid: int) -> None:
        """Move a process into the cgroup; 0 is the caller, which must have one thread. Raises OSError.

        With version 1 the caller moves only its thread: that is faster, since the kernel stops no other process.
        """
        for folder in self.folders:
            tasks = folder / "tasks"
            _write(tasks if pid == 0 and tasks.exists() else folder / "cgroup.procs", str(pid))

    def has_run_out_of_memory(self) -> bool:
        return self.counters_file is not None and was_killed_for_memory(
            self.counters_at_start, kernel.read_text(self.counters_file)
        )

    def pids(self) -> list[int]:
        return sorted({pid for folder in self.folders for pid in _pids_below(folder)})

    def kill(self) -> list[int]:
        """Kill all processes, and return those that did not end."""
        # The file `cgroup.kill` (version 2) kills all processes at once, including the caller.
        is_inside = os.getpid() in self.pids()
        for folder in () if is_inside else self.folders:
            _try_to_write(folder / "cgroup.kill", "1")
        return processes.kill_all(self.pids)

    def remove(self) -> bool:
        """Remove the empty cgroup, and return whether it has been removed. Waits a moment for the kernel."""
        are_removed = [_remove(folder) for folder in self.folders]
        for folder in self.folders:
            _try_to_remove(folder.parent)
        return all(are_removed)


class Cgroups(msgspec.Struct, frozen=True):
    """The cgroups of one cluster, and the places in which they are created."""

    cluster: str
    places: tuple[Place, ...]

    def create(self, name: str, limits: messages.Limits) -> Group:
        """Create a cgroup with these limits, as far as the machine can enforce them."""
        folders: list[Path] = []
        enforced: set[str] = set()
        for place in self.places:
            settings = _settings(limits, place)
            folder = self._make(place, name) if settings else None
            if folder is None:
                continue
            folders.append(folder)
            enforced |= {controller for controller, files in settings.items() if _apply(folder, files)}
        files = (folder / name for folder in folders for name in ("memory.events", "memory.oom_control"))
        counters = next(filter(Path.exists, files), None)
        return Group(
            folders=tuple(folders),
            enforced=messages.Limits(
                memory_bytes=limits.memory_bytes if "memory" in enforced else None,
                processes=limits.processes if "pids" in enforced else None,
                cpu_milli=limits.cpu_milli if "cpu" in enforced else None,
            ),
            counters_file=counters,
            counters_at_start=kernel.read_text(counters) if counters else "",
        )

    def remove_all_except(self, kept_names: set[str]) -> None:
        """Kill and remove all cgroups of this cluster except these."""
        self._remove_where(lambda name: name not in kept_names)

    def remove_named(self, names: set[str]) -> None:
        """Kill and remove the given cgroups of this cluster."""
        self._remove_where(lambda name: name in names)

    def _remove_where(self, is_selected: Callable[[str], bool]) -> None:
        """Kill and remove the selected cgroups.

        Whole hierarchies are searched, since an earlier daemon may have run in another cgroup.
        """
        for place in self.places:
            name = _parent_name(self.cluster)
            parents = [
                Path(path) / name for path, children, _ in os.walk(place.hierarchy) if name in children
            ]
            for parent in parents:
                for folder in _subfolders(parent):
                    if is_selected(folder.name):
                        group = Group(folders=(folder,))
                        group.kill()
                        group.remove()
                _try_to_remove(parent)

    def remove_empty(self, seconds: float) -> None:
        """Remove all cgroups of this cluster as soon as they are empty. Waits at most `seconds`."""
        deadline = time.monotonic() + seconds
        parents = [place.folder / _parent_name(self.cluster) for place in self.places]
        while time.monotonic() < deadline:
            are_removed = [_try_to_remove_all(parent) for parent in parents]
            if all(are_removed):
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
                # The parent was removed together with the last cgroup in it.
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
    """Return the cgroups of a cluster; None if no limit can be enforced. May move processes to a new cgroup."""
    own = _own_groups(kernel.read_text(membership))
    found: list[Place] = []
    for mount in _mounts(kernel.read_text(mounts)):
        group = own.get("" if mount.is_unified else next(iter(sorted(mount.controllers)), ""))
        folder = mount.folder_of(group) if group is not None else None
        if folder is None or not folder.is_dir():
            continue
        with contextlib.suppress(OSError):
            parent = _unified_parent(mount.point, folder) if mount.is_unified else folder
            if parent is None:
                continue
            controllers = _enable(parent, _CONTROLLERS) if mount.is_unified else mount.controllers
            trial = parent / _parent_name(cluster)
            usable = frozenset(_usable_controllers(trial, controllers, is_unified=mount.is_unified))
            if usable:
                found.append(Place(mount.point, parent, usable, mount.is_unified))
    return Cgroups(cluster, tuple(found)) if found else None


class _Mount(msgspec.Struct, frozen=True):
    point: Path
    # The cgroup that is visible at the mount point.
    root: str
    # Empty for the unified hierarchy, which lists its controllers in a file.
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
        filesystem = after.partition(" ")[0]
        controllers = _CONTROLLERS & set(after.rpartition(" ")[2].split(","))
        if filesystem == "cgroup2" or (filesystem == "cgroup" and controllers):
            # Spaces in names are written as \040.
            root, point = (field.encode().decode("unicode_escape") for field in before.split(" ")[3:5])
            yield _Mount(Path(point), root, controllers, filesystem == "cgroup2")


def _own_groups(text: str) -> dict[str, str]:
    """Return the cgroup of this process by controller; the unified hierarchy has the empty name."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {controller: group for _, controllers, group in lines for controller in controllers.split(",")}


def _unified_parent(hierarchy: Path, own: Path) -> Path | None:
    """Return the cgroup in which to create cgroups (version 2); None if there is none.

    Search upwards from the cgroup of this process for the first one that can have children with limits. The search ends
    at a cgroup that has limits itself, because they must also apply to the new cgroups. If no such cgroup is
    found, use the cgroup of this process, after its processes have been moved to a child.
    """
    folder = own
    while not _can_have_limited_children(folder):
        if folder != hierarchy and not _is_limited(folder):
            folder = folder.parent
        elif _is_delegated(own) and _move_processes_to_child(own):
            return own
        else:
            return None
    return folder


def _can_have_limited_children(folder: Path) -> bool:
    is_root_cgroup = not (folder / "cgroup.type").exists()
    has_processes = bool(kernel.read_text(folder / "cgroup.procs").split())
    return _is_delegated(folder) and (is_root_cgroup or not has_processes)


def _is_delegated(folder: Path) -> bool:
    """Return whether this user may create children with limits, and move processes between them.

    Moving needs write permission to the process list of the common parent.
    """
    has_controllers = bool(_CONTROLLERS & set(kernel.read_text(folder / "cgroup.controllers").split()))
    return has_controllers and all(
        os.access(file, os.W_OK)
        for file in (folder, folder / "cgroup.procs", folder / "cgroup.subtree_control")
    )


def _is_limited(folder: Path) -> bool:
    """Return whether memory or CPU is limited. A limit on processes is ignored: nearly every cgroup has one."""
    return any(
        kernel.read_text(folder / file).split()[:1] not in ([], ["max"]) for file in ("memory.max", "cpu.max")
    )


def _move_processes_to_child(own: Path) -> bool:
    """Move all processes in the cgroup of this process into a child, and return whether that succeeded.

    Nothing is moved if one of them is neither an ancestor nor a descendant of this process.
    """
    child = own / _PROCESSES
    pid = os.getpid()
    for _ in range(_ATTEMPTS):
        inside = set(_pids_of(own))
        if inside - {pid, *processes.ancestors(pid), *processes.descendants(pid)}:
            return False
        child.mkdir(exist_ok=True)
        for each in inside:
            with contextlib.suppress(ProcessLookupError):
                _write(child / "cgroup.procs", str(each))
        if not _pids_of(own):
            return True
    return False


def _enable(folder: Path, controllers: frozenset[str]) -> frozenset[str]:
    """Enable controllers for children, and return those that are enabled."""
    file = folder / "cgroup.subtree_control"
    for controller in sorted(controllers - set(kernel.read_text(file).split())):
        _try_to_write(file, f"+{controller}")
    return controllers & set(kernel.read_text(file).split())


def _usable_controllers(trial: Path, controllers: frozenset[str], *, is_unified: bool) -> Iterator[str]:
    """Yield the controllers whose limits can be set. This creates a trial cgroup."""
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
    """Return files and values by controller: first the limit, then related settings, whose files may be missing."""
    settings: dict[str, tuple[tuple[str, int | str], ...]] = {}
    memory, count, cpu = limits.memory_bytes, limits.processes, limits.cpu_milli
    if memory is not None and place.is_unified:
        settings["memory"] = (("memory.max", memory), ("memory.swap.max", 0), ("memory.oom.group", 0))
    elif memory is not None:
        settings["memory"] = (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory))
    if count is not None:
        settings["pids"] = (("pids.max", count),)
    if cpu is not None:
        quota = max(cpu * _CPU_PERIOD_US // 1000, _MIN_CPU_QUOTA_US)
        settings["cpu"] = (
            ("cpu.max", f"{quota} {_CPU_PERIOD_US}") if place.is_unified else ("cpu.cfs_quota_us", quota),
        )
    return {controller: files for controller, files in settings.items() if controller in place.controllers}


def _apply(folder: Path, files: tuple[tuple[str, int | str], ...]) -> bool:
    """Write the settings, and return whether the first one, the limit, could be written."""
    are_written = [_try_to_write(folder / file, str(value)) for file, value in files]
    return are_written[0]


def was_killed_for_memory(before: str, after: str) -> bool:
    """Return whether the OOM-kill counter has increased between two contents of its file.

    The file is `memory.events` (v2) or `memory.oom_control` (v1, since Linux 4.13).
    """
    return (counter(after, "oom_kill") or 0) > (counter(before, "oom_kill") or 0)


def counter(text: str, name: str) -> int | None:
    """Return a value of a file with lines of name and value, e.g. `cpu.stat`; None if the name is missing."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return None


def _parent_name(cluster: str) -> str:
    return f"windlass-{cluster}"


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _pids_of(folder: Path) -> list[int]:
    # Processes of other PID namespaces are listed as 0.
    return [int(pid) for pid in kernel.read_text(folder / "cgroup.procs").split() if pid != "0"]


def _pids_below(folder: Path) -> Iterator[int]:
    """Yield the processes of a cgroup and its descendants, which a privileged container may have created."""
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


def _write(file: Path, text: str) -> None:
    # Do not create the file: a missing controller must be an error.
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
