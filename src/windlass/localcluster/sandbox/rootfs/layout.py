"""What makes up the root of a container: everything of the host, a local image over it, and the mounts.

The root is an empty folder in memory. Whatever the host has is bound into it, and nothing of the host is ever written
to: where something has to appear that the host does not have, the folder around it is *opened*, which means made anew
in memory with each of its entries bound into it. What is in no need of that is bound whole.

Here it is only decided what is to be done. Paths of operations are those inside the new root, without links.
"""

import collections
import enum
import posixpath
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from windlass.localcluster.sandbox import messages

# As many as Linux itself follows.
_MOST_LINKS = 40
_TERMINALS = "/dev/pts"


class Kind(enum.StrEnum):
    FOLDER = "folder"
    LINK = "link"
    # Whatever is neither of the others: devices and sockets too.
    FILE = "file"


class Host(Protocol):
    """How the host is looked at."""

    def kind(self, path: str) -> Kind | None:
        """Of a link itself; None for what is not there or cannot be seen."""

    def kind_behind(self, path: str) -> Kind | None:
        """The same, of where links lead."""

    def read_link(self, path: str) -> str:
        """Empty for a link that has vanished."""

    def entries(self, folder: str) -> Iterable[tuple[str, Kind]]:
        """Names in a folder; OSError if it cannot be read."""


class MakeFolder(msgspec.Struct, frozen=True, tag=True):
    """Unless it is there. Its mode and owner are those of the host's folder `like`, if that is named."""

    path: str
    like: str = ""


class MakeFile(msgspec.Struct, frozen=True, tag=True):
    """An empty one, unless it is there."""

    path: str


class MakeLink(msgspec.Struct, frozen=True, tag=True):
    path: str
    text: str


class Bind(msgspec.Struct, frozen=True, tag=True):
    """What is at `source` on the host, with all that is mounted in it, over a place that is there. One that is not
    required may be left out, with its place, if the host does not let go of it."""

    source: str
    target: str
    read_only: bool = False
    is_required: bool = True


class MountTerminals(msgspec.Struct, frozen=True, tag=True):
    """A set of pseudo-terminals of the container's own."""

    path: str


Operation = MakeFolder | MakeFile | MakeLink | Bind | MountTerminals


class LayoutError(Exception):
    """The root cannot be as it was asked for; the text says why."""


class _Place(msgspec.Struct, frozen=True):
    """Something in the new root. Without a source it is made in memory, if a link with this text; `mount` is the one
    that it lies in."""

    path: str
    kind: Kind
    source: str
    text: str = ""
    mount: messages.Mount | None = None
    is_image: bool = False


def operations(
    host: Host, mounts: Sequence[messages.Mount], image: str = "", working_directory: str = "/"
) -> tuple[Operation, ...]:
    """`mounts` come sorted, outer before inner. The place for /proc is left to who mounts it. A working directory that
    is not there is made, if it can be."""
    root = _Root(host)
    if image:
        root.add_image(image)
    for mount in mounts:
        root.add_mount(mount)
    root.add_working_directory(working_directory)
    return root.operations()


class _Root:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._top = _Place("/", Kind.FOLDER, "/")
        # What is in each folder that is made in memory.
        self._opened: dict[str, dict[str, _Place]] = {}
        # What lies over something else, or was made in a volume; it comes last, in this order.
        self._covers: dict[str, _Place] = {}
        self._last: list[Operation] = []
        self._open(self._top)
        self._opened["/"].pop("proc", None)

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
            made.append(Bind(place.source, place.path, is_required=place.is_image))

    def _make_link(self, place: _Place, made: list[Operation]) -> None:
        text = self._text(place)
        if text:
            made.append(MakeLink(place.path, text))

    # Mounts

    def add_mount(self, mount: messages.Mount) -> None:
        try:
            self._add_mount(mount)
        except LayoutError as error:
            raise LayoutError(f"mounting {mount.source} at {mount.target}: {error}") from error

    def _add_mount(self, mount: messages.Mount) -> None:
        kind = self._host.kind_behind(mount.source)
        if kind is None:
            raise LayoutError(f"{mount.source} does not exist")
        place = self._place_for(mount.target, kind)
        if place.path == "/":
            raise LayoutError("nothing can be mounted over the whole root")
        if kind is Kind.FOLDER and place.kind is not Kind.FOLDER:
            raise LayoutError(
                f"not a directory: {place.path} is a file, and a folder cannot be mounted on it"
            )
        if kind is not Kind.FOLDER and place.kind is Kind.FOLDER:
            raise LayoutError(f"not a directory: {mount.source} is a file, and {place.path} is a folder")
        self._last.append(Bind(mount.source, place.path, mount.read_only))
        self._cover(_Place(place.path, kind, mount.source, mount=mount))

    def add_working_directory(self, path: str) -> None:
        try:
            self._place_for(path, Kind.FOLDER)
        except LayoutError:
            # Whoever goes there finds the same, and has the words for it.
            return

    def _place_for(self, path: str, kind: Kind) -> _Place:
        place, missing = self._walk(path)
        way = "/".join((place.path.rstrip("/"), *missing))
        if way == "/proc" or way.startswith("/proc/"):
            raise LayoutError(f"{way} is inside /proc, where nothing can be put")
        return self._make(place, missing, kind) if missing else place

    def _make(self, place: _Place, missing: Sequence[str], kind: Kind) -> _Place:
        """`missing` inside `place`, all of it folders but for the last."""
        if place.kind is not Kind.FOLDER:
            raise LayoutError(f"not a directory: {place.path} is a file")
        if place.mount and place.mount.read_only:
            raise LayoutError(f"{place.path} has no {missing[0]}, and is mounted read-only")
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
        if self._host.kind_behind(folder) is not Kind.FOLDER:
            raise LayoutError(f"the local image {folder}: there is no such folder")
        try:
            self._merge(folder, self._top)
        except LayoutError as error:
            raise LayoutError(f"the local image {folder}: {error}") from error

    def _merge(self, folder: str, place: _Place) -> None:
        for name, kind in self._entries(folder):
            path = _join(place.path, name)
            source = _join(folder, name)
            if path == "/proc":
                continue
            there = self._folder_at(path) if kind is Kind.FOLDER else None
            if there is not None:
                self._merge(source, there)
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
            self._last.append(Bind(new.source, new.path))
            self._covers[new.path] = new
            return
        self._open(folder)
        self._opened[folder.path][name] = new

    def _is_same_link(self, old: _Place, new: _Place) -> bool:
        are_links = old.kind is new.kind is Kind.LINK
        return are_links and self._text(old) == self._text(new)

    # Looking

    def _walk(self, path: str) -> tuple[_Place, list[str]]:
        """As far as there is something, and the names of what is not there. Links lead to places in the new root."""
        ways, missing, links = [self._top], list[str](), 0
        names = collections.deque(path.split("/"))
        while names:
            name = names.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                _step_back(ways, missing)
                continue
            child = None if missing else self._child(ways[-1], name)
            if child is None:
                missing.append(name)
                continue
            if child.kind is not Kind.LINK:
                ways.append(child)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise LayoutError(f"too many links on the way to {path}")
            text = self._text(child)
            if text.startswith("/"):
                del ways[1:]
            names.extendleft(reversed(text.split("/")))
        return ways[-1], missing

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

    def _text(self, link: _Place) -> str:
        return link.text or self._host.read_link(link.source)

    def _open(self, folder: _Place) -> None:
        """And every folder around it, since one that is bound whole has no room for another."""
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
            self._give_own_terminals(self._opened["/dev"])

    def _give_own_terminals(self, devices: dict[str, _Place]) -> None:
        # The kernel looks for terminals beside the device that makes them, and finds none if that is bound by itself.
        if "pts" not in devices:
            return
        devices["pts"] = _Place(_TERMINALS, Kind.FOLDER, "")
        devices["ptmx"] = _Place("/dev/ptmx", Kind.LINK, "", text="pts/ptmx")
        self._opened[_TERMINALS] = {}

    def _entries(self, folder: str) -> list[tuple[str, Kind]]:
        try:
            return sorted(self._host.entries(folder))
        except OSError as error:
            raise LayoutError(
                f"{folder} cannot be read, so nothing can be added to what is in it: {error.strerror}"
            ) from error


def _join(folder: str, name: str) -> str:
    return f"/{name}" if folder == "/" else f"{folder}/{name}"


def _step_back(ways: list[_Place], missing: list[str]) -> None:
    if missing:
        missing.pop()
    elif len(ways) > 1:
        ways.pop()
