"""Sub paths of volumes: existing files and directories, or new directories, but never outside of the volume.

The containers of a pod can change the volume at any time. Therefore the result is a descriptor, and each component is
opened relative to its directory, without following links. Links are resolved here, inside the volume.
"""

import collections
import errno
import os
import stat
from pathlib import PurePath

from windlass.localcluster.sandbox.rootfs import descriptors

# The limit of Linux.
_MAX_LINKS = 40


class SubPathError(Exception):
    """The path is outside of the volume, or not accessible."""


def open_path(volume: str, path: str) -> int:
    """Return a descriptor of the path. Missing directories are created with the mode of the volume."""
    opened = list[int]()
    try:
        opened.append(os.open(volume, descriptors.FLAGS | os.O_DIRECTORY))
        _walk(opened, os.path.realpath(volume), path)
        return os.dup(opened[-1])
    except OSError as error:
        raise SubPathError(f"{path}: {error.strerror or error}") from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


def prepare(volume: str, path: str) -> None:
    """Create the missing directories of the path. Raises SubPathError."""
    os.close(open_path(volume, path))


def _walk(opened: list[int], volume: str, path: str) -> None:
    """Open the components of the path. `opened` has the descriptors of the volume and of the directories below it."""
    mode = stat.S_IMODE(os.fstat(opened[0]).st_mode) & 0o777
    names, links = collections.deque(path.split("/")), 0
    while names:
        name = names.popleft()
        if name in ("", "."):
            continue
        if name == "..":
            if len(opened) == 1:
                raise SubPathError(f"{path} is outside of the volume")
            os.close(opened.pop())
            continue
        target = _link_target(opened[-1], name)
        if target is None:
            opened.append(_open_or_make(opened[-1], name, mode))
            continue
        links += 1
        if links > _MAX_LINKS:
            raise SubPathError(f"{path} is a circular link")
        if target.startswith("/"):
            if not PurePath(target).is_relative_to(volume):
                raise SubPathError(f"{path} is outside of the volume: {target}")
            target = str(PurePath(target).relative_to(volume))
            while len(opened) > 1:
                os.close(opened.pop())
        names.extendleft(reversed(target.split("/")))


def _link_target(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _open_or_make(folder: int, name: str, mode: int) -> int:
    try:
        return descriptors.open_entry(folder, name)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        # Another container of the pod has created it.
        return descriptors.open_entry(folder, name)
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    os.fchmod(made, mode)
    return made
