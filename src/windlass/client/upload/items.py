"""Collect the local files and directories to upload, with their target paths.

All files are checked before anything is sent.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from windlass.client.errors import ClientError, InvalidJobError

PART_SUFFIX = ".windlass-part"
"""Suffix of a partially uploaded file, which lies next to its target."""


class Stamp(msgspec.Struct, frozen=True):
    """Identifies the version of a file: a changed file has another stamp."""

    size: int
    modified: int
    """Modification time in nanoseconds."""
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


class Item(msgspec.Struct, frozen=True):
    """One file."""

    name: str
    """Target path: relative, with slashes."""
    path: Path
    stamp: Stamp
    mode: int
    """Permission bits."""

    @property
    def size(self) -> int:
        return self.stamp.size

    def refreshed(self) -> "Item":
        """Return the item with the current stamp of the file. Raises OSError."""
        found = self.path.stat()
        return Item(self.name, self.path, Stamp.of(found), stat.S_IMODE(found.st_mode))


class UploadItems(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    """Sorted by name."""
    folders: tuple[str, ...]
    """The target directories, parents first."""

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)


def gather(sources: Mapping[str, Sequence[Path]]) -> UploadItems:
    """Return the files below each source, by target directory ("" for the root of the share).

    Raises InvalidJobError for files that cannot be sent, and ClientError for files that cannot be read.
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
        raise InvalidJobError(
            f"{found[name].path} conflicts with the directory {name} of another source. Rename one of them."
        )
    return UploadItems(tuple(found[name] for name in sorted(found)), tuple(sorted(folders)))


def part_name(name: str) -> str:
    """Return the path of the partial file. A name has at most 255 bytes, and each file needs a different one."""
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
        raise InvalidJobError(
            f"{other.path} and {item.path} would both become {item.name}. Rename one, or upload it elsewhere."
        )


def _with_parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _entries(place: str, source: Path) -> Iterator[Item | str]:
    """Yield items, and the names of directories."""
    try:
        found = source.stat()
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(source, place, source.resolve(), ())
        else:
            yield _item(
                source, _joined(place, source.resolve().name if not source.name else source.name), found
            )
    except FileNotFoundError as error:
        raise InvalidJobError(
            f"{error.filename or source} does not exist: expected a file or a directory"
        ) from error
    except OSError as error:
        raise ClientError(
            f"cannot read {error.filename or source}: {error.strerror or error}. Nothing was sent."
        ) from error


def _walk(folder: Path, place: str, top: Path, above: tuple[tuple[int, int], ...]) -> Iterator[Item | str]:
    """Yield the entries of a directory. `above` identifies its parents, to detect links to one of them."""
    own = folder.stat()
    identity = (own.st_dev, own.st_ino)
    if identity in above:
        raise InvalidJobError(f"{folder} is a link to one of its parent directories. Remove it.")
    yield place
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        path, name = folder / entry.name, _joined(place, entry.name)
        if entry.is_symlink():
            _require_inside(path, top)
        found = entry.stat()
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(path, name, top, (*above, identity))
        else:
            yield _item(path, name, found)


def _require_inside(link: Path, top: Path) -> None:
    target = link.resolve()
    if not target.exists():
        raise InvalidJobError(f"{link} is a broken link to {target}. Fix or remove it.")
    if not target.is_relative_to(top):
        raise InvalidJobError(
            f"{link} is a link to {target}, outside of {top}. Replace it with a copy, or upload {target} separately."
        )


def _item(path: Path, name: str, found: os.stat_result) -> Item:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidJobError(
            f"cannot upload {path}: it is {_kind(found.st_mode)}, expected files and directories"
        )
    if path.name.startswith(".") and path.name.endswith(PART_SUFFIX):
        raise InvalidJobError(f"{path} is a partial file of an interrupted upload. Delete it.")
    # Open the file once to check permissions before anything is sent.
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    return Item(name, path, Stamp.of(found), stat.S_IMODE(found.st_mode))


def _kind(mode: int) -> str:
    kinds: Iterable[tuple[bool, str]] = (
        (stat.S_ISSOCK(mode), "a socket"),
        (stat.S_ISFIFO(mode), "a pipe"),
        (stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
    )
    return next((said for is_so, said in kinds if is_so), "not a regular file")


def _joined(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name
