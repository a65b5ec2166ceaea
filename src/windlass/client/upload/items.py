"""What is uploaded: files and folders of this machine, each with the path that it is to have there.

All of it is looked at before anything is sent: what cannot be sent is refused here.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from windlass.client.errors import ClientError, FaultyJobError

PART_SUFFIX = ".windlass-part"
"""What has not arrived as a whole lies beside its place under a name that ends so."""


class Stamp(msgspec.Struct, frozen=True):
    """A file that has another one has changed."""

    size: int
    modified: int
    """In nanoseconds."""
    number: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


class Item(msgspec.Struct, frozen=True):
    """One file."""

    name: str
    """Where it goes: relative, with slashes."""
    path: Path
    stamp: Stamp
    mode: int
    """Its permissions."""

    @property
    def size(self) -> int:
        return self.stamp.size

    def looked_at_again(self) -> "Item":
        """Raises OSError."""
        found = self.path.stat()
        return Item(self.name, self.path, Stamp.of(found), stat.S_IMODE(found.st_mode))


class Cargo(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    """Sorted by name."""
    folders: tuple[str, ...]
    """All that are needed, parents first."""

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)


def gather(sources: Mapping[str, Sequence[Path]]) -> Cargo:
    """What is in each folder, or the file itself, under the path that the sources are listed by ("" for none).

    Raises FaultyJobError for what cannot be sent, and ClientError for what cannot be read.
    """
    found: dict[str, Item] = {}
    folders: set[str] = set()
    for place, paths in sources.items():
        folders.update(_with_parents(place))
        for path in paths:
            for entry in _entries(place, path):
                if isinstance(entry, str):
                    folders.update(_with_parents(entry))
                else:
                    _add(found, entry)
                    folders.update(_with_parents(entry.name.rpartition("/")[0]))
    for name in sorted(folders & found.keys()):
        raise FaultyJobError(
            f"{found[name].path} would lie at {name}, where another source has a folder: rename one of them"
        )
    return Cargo(tuple(found[name] for name in sorted(found)), tuple(sorted(folders)))


def part_name(name: str) -> str:
    """Where the content of this file arrives. A name may have 255 bytes, and that of a part must differ by file."""
    folder, _, last = name.rpartition("/")
    encoded = os.fsencode(last)
    room = 255 - len(PART_SUFFIX) - 1
    if len(encoded) > room:
        import hashlib

        mark = "~" + hashlib.sha256(encoded).hexdigest()[:16]
        last = os.fsdecode(encoded[: room - len(mark)].decode("utf-8", "ignore").encode()) + mark
    return f"{folder}/.{last}{PART_SUFFIX}" if folder else f".{last}{PART_SUFFIX}"


def _add(found: dict[str, Item], item: Item) -> None:
    other = found.setdefault(item.name, item)
    if other.path != item.path:
        raise FaultyJobError(
            f"{other.path} and {item.path} would both become {item.name}: rename one, or upload it to another place"
        )


def _with_parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _entries(place: str, source: Path) -> Iterator[Item | str]:
    """Items, and the names of folders."""
    try:
        found = source.stat()
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(source, place, source.resolve(), ())
        else:
            yield _item(
                source, _joined(place, source.resolve().name if not source.name else source.name), found
            )
    except FileNotFoundError as error:
        raise FaultyJobError(
            f"there is no {error.filename or source}: expected a file, or a folder"
        ) from error
    except OSError as error:
        raise ClientError(
            f"{error.filename or source} cannot be read: {error.strerror or error}. "
            "Change its rights: nothing was sent."
        ) from error


def _walk(folder: Path, place: str, top: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Item | str]:
    """`above` are the folders that this one lies in, so that a link which leads back to one of them is noticed."""
    own = folder.stat()
    identity = (own.st_dev, own.st_ino)
    if identity in above:
        raise FaultyJobError(f"{folder} is a link that leads back to a folder it lies in: take it away")
    yield place
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        path, name = folder / entry.name, _joined(place, entry.name)
        if entry.is_symlink():
            _insist_on_staying(path, top)
        found = entry.stat()
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(path, name, top, (*above, identity))
        else:
            yield _item(path, name, found)


def _insist_on_staying(link: Path, top: Path) -> None:
    target = link.resolve()
    if not target.exists():
        raise FaultyJobError(f"{link} is a link to {target}, where nothing is: mend it, or take it away")
    if not target.is_relative_to(top):
        raise FaultyJobError(
            f"{link} is a link to {target}, outside of {top}: put a copy there, or upload {target} by itself"
        )


def _item(path: Path, name: str, found: os.stat_result) -> Item:
    if not stat.S_ISREG(found.st_mode):
        raise FaultyJobError(
            f"{path} is {_kind(found.st_mode)}, which cannot be sent: expected files and folders"
        )
    if path.name.startswith(".") and path.name.endswith(PART_SUFFIX):
        raise FaultyJobError(f"{path} is a rest of an upload that was cut: delete it")
    # Opened once: rights are better asked for before something is sent than in the middle of it.
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    return Item(name, path, Stamp.of(found), stat.S_IMODE(found.st_mode))


def _kind(mode: int) -> str:
    kinds: Iterable[tuple[bool, str]] = (
        (stat.S_ISSOCK(mode), "a socket"),
        (stat.S_ISFIFO(mode), "a pipe"),
        (stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
    )
    return next((said for is_so, said in kinds if is_so), "no file")


def _joined(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name
