"""Collect the local files and directories to upload, with their target paths.

All files are checked before anything is sent.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from windlass.client.errors import ClientError, InvalidJobError

PART_SUFFIX = ".windlass-part"
"""Suffix of a partial file, which is in the same directory as the complete one."""
MAX_VISITS = 100
"""Maximum number of paths to the same directory. Links between a few directories can create any number of paths."""
_SPECIAL_FILES = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileVersion(msgspec.Struct, frozen=True):
    """Identifies the version of a file: a changed file has a different version."""

    size: int
    modified: int
    """Modification time in nanoseconds."""
    inode: int

    @classmethod
    def of(cls, info: os.stat_result) -> "FileVersion":
        return cls(info.st_size, info.st_mtime_ns, info.st_ino)


class Item(msgspec.Struct, frozen=True):
    """A file to upload."""

    name: str
    """Target path: relative, with slashes."""
    path: Path
    version: FileVersion
    mode: int
    """Permission bits."""

    @property
    def size(self) -> int:
        return self.version.size

    def refreshed(self) -> "Item":
        """Return the item with the current version of the file. Raises OSError."""
        info = self.path.stat()
        return Item(self.name, self.path, FileVersion.of(info), stat.S_IMODE(info.st_mode))


class UploadItems(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    """Sorted by name."""
    folders: tuple[str, ...]
    """The target directories, parents first."""

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)


def gather(sources: Mapping[str, Sequence[Path]]) -> UploadItems:
    """Return the files to upload and their directories. `sources` maps target directories ("": root) to local paths.

    Raises InvalidJobError for files that cannot be sent, and ClientError for files that cannot be read.
    """
    found: dict[str, Item] = {}
    folders: set[str] = set()
    for target, paths in sources.items():
        folders.update(_with_parents(target))
        for path in paths:
            for entry in _entries(target, path):
                if isinstance(entry, str):
                    folders.update(_with_parents(entry))
                else:
                    other = found.setdefault(entry.name, entry)
                    if other.path != entry.path:
                        raise InvalidJobError(
                            f"{other.path} and {entry.path} would both become {entry.name}. "
                            "Rename one, or upload it elsewhere."
                        )
                    folders.update(_with_parents(entry.name.rpartition("/")[0]))
    for name in sorted(folders & found.keys()):
        raise InvalidJobError(
            f"{found[name].path} conflicts with the directory {name} of another source. Rename one of them."
        )
    return UploadItems(tuple(found[name] for name in sorted(found)), tuple(sorted(folders)))


def part_name(name: str) -> str:
    """Return the path of the partial file. Its name is unique and has at most 255 bytes."""
    folder, _, last = name.rpartition("/")
    encoded = os.fsencode(last)
    max_length = 255 - len(PART_SUFFIX) - 1
    if len(encoded) > max_length:
        import hashlib

        ending = "~" + hashlib.sha256(encoded).hexdigest()[:16]
        last = os.fsdecode(encoded[: max_length - len(ending)].decode("utf-8", "ignore").encode()) + ending
    return f"{folder}/.{last}{PART_SUFFIX}" if folder else f".{last}{PART_SUFFIX}"


def _with_parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _entries(target: str, source: Path) -> Iterator[Item | str]:
    """Yield the items, and the target paths of the directories."""
    try:
        info = source.stat()
        if stat.S_ISDIR(info.st_mode):
            yield from _walk(source, target, source.resolve(), (), Counter())
        else:
            yield _item(source, _joined(target, source.name or source.resolve().name), info)
    except FileNotFoundError as error:
        raise InvalidJobError(
            f"{error.filename or source} does not exist: expected a file or a directory"
        ) from error
    except OSError as error:
        raise ClientError(
            f"cannot read {error.filename or source}: {error.strerror or error}. Nothing was sent."
        ) from error


def _walk(
    folder: Path,
    target: str,
    top: Path,
    parents: tuple[tuple[int, int], ...],
    visits: Counter[tuple[int, int]],
) -> Iterator[Item | str]:
    """Yield the entries of a directory.

    `parents` has the devices and inodes of its parents, to detect links to them. `visits` counts the paths to each
    directory.
    """
    info = folder.stat()
    identity = (info.st_dev, info.st_ino)
    if identity in parents:
        raise InvalidJobError(f"{folder} is a link to one of its parent directories. Remove it.")
    visits[identity] += 1
    if visits[identity] > MAX_VISITS:
        raise InvalidJobError(
            f"more than {MAX_VISITS} paths lead to the directory {folder} through links. Remove some of the links."
        )
    yield target
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        path, name = folder / entry.name, _joined(target, entry.name)
        if entry.is_symlink():
            _require_inside(path, top)
        info = entry.stat()
        if stat.S_ISDIR(info.st_mode):
            yield from _walk(path, name, top, (*parents, identity), visits)
        else:
            yield _item(path, name, info)


def _require_inside(link: Path, top: Path) -> None:
    target = link.resolve()
    if not target.exists():
        raise InvalidJobError(f"{link} is a broken link to {target}. Fix or remove it.")
    if not target.is_relative_to(top):
        raise InvalidJobError(
            f"{link} is a link to {target}, outside of {top}. Replace it with a copy, or upload {target} separately."
        )


def _item(path: Path, name: str, info: os.stat_result) -> Item:
    if not stat.S_ISREG(info.st_mode):
        kind = _SPECIAL_FILES.get(stat.S_IFMT(info.st_mode), "not a regular file")
        raise InvalidJobError(f"cannot upload {path}: it is {kind}, expected files and directories")
    if path.name.startswith(".") and path.name.endswith(PART_SUFFIX):
        raise InvalidJobError(f"{path} is a partial file of an interrupted upload. Delete it.")
    # Open the file once to check permissions before anything is sent.
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    return Item(name, path, FileVersion.of(info), stat.S_IMODE(info.st_mode))


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
