"""Write files atomically: after an error, e.g. on a full disk, the old content is unchanged."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

from windlass.cli.errors import CommandError


def write(path: Path, text: str, *, may_replace: bool) -> None:
    """Create a text file, or replace it if `may_replace`. Raises CommandError."""
    try:
        create(path, text.encode(), may_replace=may_replace)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def create(path: Path, data: bytes, *, may_replace: bool = False) -> None:
    """Create a file, or replace it if `may_replace`. Raises `FileExistsError` for a file that may not be replaced, and
    for a broken symbolic link."""
    if may_replace and path.exists():
        replace(path, data)
        return
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary = _write_temporary(path, data)
    try:
        temporary.chmod(0o666 & ~_umask())
        _link_or_rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _link_or_rename(temporary: Path, path: Path) -> None:
    """Give the temporary file its final name. A file created meanwhile is kept if the file system has hard links."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        temporary.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def replace(path: Path, data: bytes) -> None:
    """Replace the content of a file. Its mode, its owner (if permitted) and symbolic links to it are kept."""
    path = path.resolve(strict=True)
    old = path.stat()
    if not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    # For root, `os.access` reports read-only files as writable.
    is_protected = not old.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    if is_protected or not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only")
    temporary = _write_temporary(path, data)
    try:
        with contextlib.suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
        temporary.chmod(stat.S_IMODE(old.st_mode))
        temporary.replace(path)
    except OSError:
        temporary.unlink()
        raise


def _write_temporary(path: Path, data: bytes) -> Path:
    """Write a temporary file in the same directory, from where it can be renamed atomically."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        Path(name).unlink()
        raise
    return Path(name)
