"""Directories in which pods may have created files: neither their depth nor the length of a path is limited.

Symbolic links are not followed, even if a program replaces a directory with a link during a call.
"""

import contextlib
import itertools
import os
import stat
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

_OWNER_ONLY = 0o700
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


# Reading


def statuses(top: Path) -> Iterator[os.stat_result]:
    """Yield the status of each file and subdirectory in a directory. What cannot be read is left out."""
    try:
        folder = os.open(top, os.O_RDONLY | _FOLDER)
    except OSError:
        return
    try:
        # One descriptor moves through the tree: the number of open files does not depend on the depth.
        yield from _statuses_below(folder)
    finally:
        os.close(folder)


def _statuses_below(folder: int) -> Iterator[os.stat_result]:
    unread = [(yield from _statuses_in(folder))]
    parents: list[os.stat_result] = []
    while unread:
        if unread[-1]:
            parent = os.fstat(folder)
            if _change_folder(folder, unread[-1].pop()):
                parents.append(parent)
                unread.append((yield from _statuses_in(folder)))
            continue
        unread.pop()
        if parents:
            has_returned = _change_folder(folder, "..") and os.path.samestat(os.fstat(folder), parents.pop())
            if not has_returned:
                # A program has moved the directory, maybe out of the tree.
                return


def _statuses_in(folder: int) -> Generator[os.stat_result, None, list[str]]:
    """Yield the status of each file and subdirectory, and return the names of the subdirectories."""
    subfolders: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            yield status
            if stat.S_ISDIR(status.st_mode):
                subfolders.append(entry.name)
    return subfolders


def _change_folder(folder: int, name: str) -> bool:
    """Let the descriptor refer to a subdirectory or the parent directory. Return whether that was possible."""
    try:
        new = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=folder)
    except OSError:
        return False
    try:
        # Without the permission to search the subdirectory, there is no way back.
        if is_searchable := os.access(".", os.X_OK, dir_fd=new):
            os.dup2(new, folder, inheritable=False)
        return is_searchable
    finally:
        os.close(new)


# Removal


def remove(top: Path) -> None:
    """Delete a directory if it exists. After an OSError, another call continues the deletion.

    Each subdirectory is moved to the top before it is emptied, so that one descriptor at a time is enough. A mount
    point cannot be moved, and is not emptied.
    """
    if not top.exists():
        return
    with _opened(top) as folder:
        _empty(folder)
    top.rmdir()


def _empty(top: int) -> None:
    names = _delete_files(top)
    existing = frozenset(names)
    unused = (new for new in map(".removed-{}".format, itertools.count()) if new not in existing)
    remaining = [_move(name, top, next(unused), top) for name in names]
    while remaining:
        name = remaining.pop()
        with _opened(name, top) as folder:
            remaining += [_move(each, folder, next(unused), top) for each in _delete_files(folder)]
        os.rmdir(name, dir_fd=top)


@contextlib.contextmanager
def _opened(name: str | Path, parent: int | None = None) -> Iterator[int]:
    """Open a directory. Programs may leave directories that even their owner may not read or change."""
    try:
        folder = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
    except PermissionError:
        _allow_reading(name, parent)
        folder = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
    try:
        os.fchmod(folder, _OWNER_ONLY)
        yield folder
    finally:
        os.close(folder)


def _allow_reading(name: str | Path, parent: int | None) -> None:
    if sys.platform != "linux":
        os.chmod(name, _OWNER_ONLY, dir_fd=parent, follow_symlinks=False)
        return
    # Linux follows links here, so the directory is opened without the permission to read it.
    handle = os.open(name, os.O_PATH | _FOLDER, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{handle}").chmod(_OWNER_ONLY)
    finally:
        os.close(handle)


def _delete_files(folder: int) -> list[str]:
    """Delete all files in a directory, and return the names of its subdirectories."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]


def _move(name: str, folder: int, new_name: str, top: int) -> str:
    try:
        os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=top)
    except PermissionError:
        # Moving a directory changes its `..` entry, so the directory itself must be writable.
        with _opened(name, folder):
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=top)
    return new_name
