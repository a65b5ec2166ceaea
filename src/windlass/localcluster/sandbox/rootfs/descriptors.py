"""Descriptors of files and directories whose names other processes can change at any time.

A path that was checked can be replaced by a link before it is used; a descriptor cannot.
"""

import errno
import os
import stat

# macOS has no O_PATH, so opening requires read permission. Volumes grant it, because pods on macOS run as the user of
# the cluster.
FLAGS = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)


def open_entry(folder: int, name: str) -> int:
    """Return a descriptor of an entry of a directory. Raises OSError, with ELOOP for a link."""
    try:
        # With O_DIRECTORY, the kernel mounts the file system of an autofs directory.
        return os.open(name, FLAGS | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=folder)
    except NotADirectoryError:
        entry = os.open(name, FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(entry).st_mode):
        os.close(entry)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return entry


def open_without_links(top: int, path: str) -> int:
    """Return a descriptor of a path below the directory `top`. Raises OSError, with ELOOP if it contains a link."""
    opened = os.dup(top)
    for name in filter(None, path.split("/")):
        try:
            entry = open_entry(opened, name)
        finally:
            os.close(opened)
        opened = entry
    return opened
