"""The layout of a container's root: the files of the host, a local image over them, and the mounts.

The root is a tmpfs into which the directories of the host are bind-mounted. Outside of volumes, nothing is written to
the host: where a path must appear that the host does not have, the directory around it is *opened*, i.e. created in the
tmpfs with each of its entries bind-mounted. All other directories are bind-mounted as a whole.

This module only computes the operations. The paths that they create or mount on are those in the new root, with links
resolved.
"""

import collections
import enum
import fnmatch
import posixpath
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from windlass.localcluster.sandbox import messages

# The limit of Linux.
_MAX_LINKS = 40
_TERMINALS = "/dev/pts"
# Patterns for the entries of /dev in a container with restrictions: those of container runtimes, and accelerators.
_DEVICES = (
    *("fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty"),
    *("urandom", "zero", "dri", "fuse", "infiniband", "kfd", "nvidia*"),
)


class Kind(enum.StrEnum):
    FOLDER = "folder"
    LINK = "link"
    # Everything else, including devices and sockets.
    FILE = "file"


class Host(Protocol):
    """Access to the file system of the host."""

    def kind(self, path: str) -> Kind | None:
        """Return the kind of a path without following links; None if it does not exist or is not accessible."""

    def kind_following_links(self, path: str) -> Kind | None:
        """Return the kind of a path, following links."""

    def read_link(self, path: str) -> str:
        """Return the target of a link; empty if it cannot be read."""

    def entries(self, folder: str) -> Iterable[tuple[str, Kind]]:
        """Return the entries of a directory. Raises OSError."""


class MakeFolder(msgspec.Struct, frozen=True, tag=True):
    """Create a directory unless it exists, with mode and owner of the host's directory `like` if set."""

    path: str
    like: str = ""


class MakeFile(msgspec.Struct, frozen=True, tag=True):
    """Create an empty file unless it exists."""

    path: str


class MakeLink(msgspec.Struct, frozen=True, tag=True):
    path: str
    target: str


class Bind(msgspec.Struct, frozen=True, tag=True):
    """Bind-mount `source` of the host with its submounts on an existing path.

    If the mount is not required and `source` is not available, the path is removed instead.
    """

    source: str
    target: str
    read_only: bool = False
    is_required: bool = True


class MountTerminals(msgspec.Struct, frozen=True, tag=True):
    """Mount a new instance of devpts."""

    path: str


Operation = MakeFolder | MakeFile | MakeLink | Bind | MountTerminals


class LayoutError(Exception):
    """The requested root is not possible."""


class _Place(msgspec.Struct, frozen=True):
    """A path in the new root. A path without a source is created in the tmpfs.

    `link_target` is the target of a link without a source. `mount` is the mount that contains the path.
    """

    path: str
    kind: Kind
    source: str
    link_target: str = ""
    mount: messages.Mount | None = None
    is_image: bool = False


def operations(
    host: Host,
    mounts: Sequence[messages.Mount],
    image: str = "",
    working_directory: str = "/",
    *,
    is_read_only: bool = False,
    is_restricted: bool = False,
    hidden_devices: Iterable[str] = (),
) -> tuple[Operation, ...]:
    """Return the operations that create the root. `mounts` are sorted, outer before inner.

    A missing working directory is created if possible. /proc is not included. With `is_read_only`, files of the host
    and of the image are read-only, except in /dev; the caller must make the tmpfs read-only. With `is_restricted`, /dev
    contains no disks, and /sys is read-only. `hidden_devices` are device files that do not appear.
    """
    root = _Root(host, is_read_only, is_restricted)
    for path in hidden_devices:
        root.hide(path)
    if image:
        root.add_image(image)
    for mount in mounts:
        root.add_mount(mount)
    root.add_working_directory(working_directory)
    return root.operations()


class _Root:
    def __init__(self, host: Host, is_read_only: bool, is_restricted: bool) -> None:
        self._host = host
        self._is_read_only = is_read_only
        self._is_restricted = is_restricted
        self._top = _Place("/", Kind.FOLDER, "/")
        # Path of an opened directory → its entries.
        self._opened: dict[str, dict[str, _Place]] = {}
        # Path → mount, file of the image over a file of the host, or path created in a volume.
        self._covers: dict[str, _Place] = {}
        # The operations for `_covers`. They come last, in this order.
        self._last: list[Operation] = []
        self._open(self._top)
        self._opened["/"].pop("proc", None)
        if is_restricted and "dev" in self._opened["/"]:
            self._open(self._opened["/"]["dev"])

    def operations(self) -> tuple[Operation, ...]:
        made: list[Operation] = []
        self._make_entries("/", made)
        if _TERMINALS in self._opened:
            made.append(MountTerminals(_TERMINALS))
        return (*made, *self._last)

    def _make_entries(self, folder: str, made: list[Operation]) -> None:
        for place in self._opened[folder].values():
            is_whole = place.path not in self._opened
            match place.kind:
                case Kind.LINK:
                    self._make_link(place, made)
                case Kind.FILE:
                    made.append(MakeFile(place.path))
                    self._bind_whole(place, made)
                case Kind.FOLDER if is_whole:
                    made.append(MakeFolder(place.path))
                    self._bind_whole(place, made)
                case Kind.FOLDER:
                    made.append(MakeFolder(place.path, place.source))
                    self._make_entries(place.path, made)

    def _bind_whole(self, place: _Place, made: list[Operation]) -> None:
        if place.source:
            made.append(self._bind(place.source, place.path, is_required=place.is_image))

    def _bind(self, source: str, target: str, *, is_required: bool = True) -> Bind:
        # Programs write to shared memory in /dev/shm, which container runtimes also leave writable.
        is_device = f"{target}/".startswith("/dev/")
        is_kernel = self._is_restricted and f"{target}/".startswith("/sys/")
        return Bind(source, target, is_kernel or (self._is_read_only and not is_device), is_required)

    def _make_link(self, place: _Place, made: list[Operation]) -> None:
        target = self._link_target(place)
        if target:
            made.append(MakeLink(place.path, target))

    def hide(self, path: str) -> None:
        """Leave out a file of the host, unless it does not exist."""
        folder, missing = self._walk(posixpath.dirname(path))
        if not missing and self._child(folder, posixpath.basename(path)) is not None:
            self._open(folder)
            del self._opened[folder.path][posixpath.basename(path)]

    # Mounts

    def add_mount(self, mount: messages.Mount) -> None:
        try:
            self._add_mount(mount)
        except LayoutError as error:
            raise LayoutError(f"mounting {mount.source} at {mount.target}: {error}") from error

    def _add_mount(self, mount: messages.Mount) -> None:
        if mount.hides and not self._is_on_host(mount.target):
            return
        kind = self._host.kind_following_links(mount.source)
        if kind is None:
            raise LayoutError(f"{mount.source} does not exist")
        place = self._place_for(mount.target, kind)
        if place.path == "/":
            raise LayoutError("cannot mount over /")
        if kind is Kind.FOLDER and place.kind is not Kind.FOLDER:
            raise LayoutError(f"not a directory: cannot mount a directory on the file {place.path}")
        if kind is not Kind.FOLDER and place.kind is Kind.FOLDER:
            raise LayoutError(
                f"not a directory: cannot mount the file {mount.source} on the directory {place.path}"
            )
        self._last.append(Bind(mount.source, place.path, mount.read_only))
        self._cover(_Place(place.path, kind, mount.source, mount=mount))

    def _is_on_host(self, path: str) -> bool:
        place, missing = self._walk(path)
        return not missing and place.mount is None

    def add_working_directory(self, path: str) -> None:
        try:
            self._place_for(path, Kind.FOLDER)
        except LayoutError:
            # The container's start reports the error.
            return

    def _place_for(self, path: str, kind: Kind) -> _Place:
        place, missing = self._walk(path)
        full_path = "/".join((place.path.rstrip("/"), *missing))
        if full_path == "/proc" or full_path.startswith("/proc/"):
            raise LayoutError(f"cannot mount in /proc: {full_path}")
        return self._make(place, missing, kind) if missing else place

    def _make(self, place: _Place, missing: Sequence[str], kind: Kind) -> _Place:
        """Create the path `missing` inside `place`: directories, and the last component of the given kind."""
        if place.kind is not Kind.FOLDER:
            raise LayoutError(f"not a directory: {place.path} is a file")
        if place.mount and place.mount.read_only:
            raise LayoutError(f"{place.path} is mounted read-only and does not contain {missing[0]}")
        for number, name in enumerate(missing, start=1):
            is_last = number == len(missing)
            place = self._make_one(place, name, kind if is_last else Kind.FOLDER)
        return place

    def _make_one(self, place: _Place, name: str, kind: Kind) -> _Place:
        path = _join(place.path, name)
        if place.mount:
            made = _Place(path, kind, _join(place.source, name), mount=place.mount)
            self._last.append(MakeFolder(path) if kind is Kind.FOLDER else MakeFile(path))
            self._covers[path] = made
            return made
        made = _Place(path, kind, "")
        self._open(place)
        self._opened[place.path][name] = made
        if kind is Kind.FOLDER:
            self._opened[path] = {}
        return made

    def _cover(self, place: _Place) -> None:
        inside = place.path + "/"
        self._covers = {path: cover for path, cover in self._covers.items() if not path.startswith(inside)}
        self._covers[place.path] = place

    # The image

    def add_image(self, folder: str) -> None:
        if self._host.kind_following_links(folder) is not Kind.FOLDER:
            raise LayoutError(f"local image {folder}: no such directory")
        try:
            self._merge(folder, self._top)
        except LayoutError as error:
            raise LayoutError(f"local image {folder}: {error}") from error

    def _merge(self, folder: str, place: _Place) -> None:
        for name, kind in self._entries(folder):
            path = _join(place.path, name)
            source = _join(folder, name)
            if path == "/proc":
                continue
            existing = self._folder_at(path) if kind is Kind.FOLDER else None
            if existing is not None:
                self._merge(source, existing)
            else:
                self._put(place, name, _Place(path, kind, source, is_image=True))

    def _folder_at(self, path: str) -> _Place | None:
        place, missing = self._walk(path)
        return None if missing or place.kind is not Kind.FOLDER else place

    def _put(self, folder: _Place, name: str, new: _Place) -> None:
        old = self._child(folder, name)
        if old is not None and self._is_same_link(old, new):
            return
        is_file_over_file = old is not None and old.kind is new.kind is Kind.FILE
        if is_file_over_file and folder.path not in self._opened:
            self._last.append(self._bind(new.source, new.path))
            self._covers[new.path] = new
            return
        self._open(folder)
        self._opened[folder.path][name] = new

    def _is_same_link(self, old: _Place, new: _Place) -> bool:
        are_links = old.kind is new.kind is Kind.LINK
        return are_links and self._link_target(old) == self._link_target(new)

    # Lookup

    def _walk(self, path: str) -> tuple[_Place, list[str]]:
        """Resolve a path in the new root, and return the last existing place and the missing components."""
        places, missing, links = [self._top], list[str](), 0
        names = collections.deque(path.split("/"))
        while names:
            name = names.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                _step_back(places, missing)
                continue
            child = None if missing else self._child(places[-1], name)
            if child is None:
                missing.append(name)
                continue
            if child.kind is not Kind.LINK:
                places.append(child)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise LayoutError(f"too many levels of symbolic links: {path}")
            target = self._link_target(child)
            if target.startswith("/"):
                del places[1:]
            names.extendleft(reversed(target.split("/")))
        return places[-1], missing

    def _child(self, folder: _Place, name: str) -> _Place | None:
        path = _join(folder.path, name)
        if path in self._covers:
            return self._covers[path]
        if folder.mount is None and folder.path in self._opened:
            return self._opened[folder.path].get(name)
        source = _join(folder.source, name)
        kind = self._host.kind(source)
        return (
            None if kind is None else _Place(path, kind, source, mount=folder.mount, is_image=folder.is_image)
        )

    def _link_target(self, link: _Place) -> str:
        return link.link_target or self._host.read_link(link.source)

    def _open(self, folder: _Place) -> None:
        """Open a directory and its parents, since nothing can be added to a bind-mounted directory."""
        if folder.path in self._opened:
            return
        if folder.path != "/":
            above, _ = self._walk(posixpath.dirname(folder.path))
            self._open(above)
        self._opened[folder.path] = {
            name: _Place(_join(folder.path, name), kind, _join(folder.source, name), is_image=folder.is_image)
            for name, kind in self._entries(folder.source)
        }
        if folder.path == "/dev":
            if self._is_restricted:
                devices = self._opened["/dev"]
                self._opened["/dev"] = {name: devices[name] for name in filter(_is_allowed_device, devices)}
            self._replace_terminals(self._opened["/dev"])

    def _replace_terminals(self, devices: dict[str, _Place]) -> None:
        # The kernel looks for devpts next to the device ptmx, so a bind-mounted ptmx cannot be opened.
        if "pts" not in devices:
            return
        devices["pts"] = _Place(_TERMINALS, Kind.FOLDER, "")
        devices["ptmx"] = _Place("/dev/ptmx", Kind.LINK, "", link_target="pts/ptmx")
        self._opened[_TERMINALS] = {}

    def _entries(self, folder: str) -> list[tuple[str, Kind]]:
        try:
            return sorted(self._host.entries(folder))
        except OSError as error:
            raise LayoutError(f"cannot read {folder}: {error.strerror}") from error


def _is_allowed_device(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _DEVICES)


def _join(folder: str, name: str) -> str:
    return f"/{name}" if folder == "/" else f"{folder}/{name}"


def _step_back(places: list[_Place], missing: list[str]) -> None:
    if missing:
        missing.pop()
    elif len(places) > 1:
        places.pop()
