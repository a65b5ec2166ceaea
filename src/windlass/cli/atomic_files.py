"""Files that are written as a whole or not at all: where the disk is full, what was there before is there still."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

from windlass.cli.errors import CommandError


def write(path: Path, text: str, *, may_replace: bool) -> None:
    """As `create`. Raises CommandError."""
    try:
        create(path, text.encode(), may_replace=may_replace)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}") from error


def create(path: Path, data: bytes, *, may_replace: bool = False) -> None:
    """Raises `FileExistsError` if something is there, unless that may be replaced."""
    if may_replace and path.exists():
        replace(path, data)
        return
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    written = _beside(path, data)
    try:
        written.chmod(0o666 & ~_umask())
        _name(written, path)
    finally:
        written.unlink(missing_ok=True)


def _name(written: Path, path: Path) -> None:
    """At once, and never in the place of another that has come meanwhile, where a disk can do that."""
    try:
        path.hardlink_to(written)
    except FileExistsError:
        raise
    except OSError:
        written.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def replace(path: Path, data: bytes) -> None:
    """Its mode and, where that can be had, its owner stay. A link goes on pointing at the file."""
    path = path.resolve(strict=True)
    known = path.stat()
    if not stat.S_ISREG(known.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    # Root may write everything, also what somebody has protected from it.
    is_protected = not known.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    if is_protected or not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    written = _beside(path, data)
    try:
        with contextlib.suppress(PermissionError):
            os.chown(written, known.st_uid, known.st_gid)
        written.chmod(stat.S_IMODE(known.st_mode))
        written.replace(path)
    except OSError:
        written.unlink()
        raise


def _beside(path: Path, data: bytes) -> Path:
    """A file in the same folder, for only there it can take the place of another at once."""
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
