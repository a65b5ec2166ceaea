"""Sub paths of volumes: existing files and directories, or new directories, but never outside of the volume."""

import stat
from pathlib import Path


class SubPathError(Exception):
    """The path is outside of the volume, or not accessible."""


def resolve(volume: Path, path: str) -> Path:
    """Return the resolved path. Missing directories are created with the mode of the volume."""
    try:
        top = volume.resolve(strict=True)
        found = (top / path).resolve()
        if not found.is_relative_to(top):
            raise SubPathError(f"{path} is outside of the volume: {found}")
        _make(found, stat.S_IMODE(top.stat().st_mode) & 0o777)
    except OSError as error:
        raise SubPathError(f"{error.filename or volume}: {error.strerror or error}") from error
    except RuntimeError as error:
        # Raised by Python up to 3.12 for circular links.
        raise SubPathError(f"{path} is a circular link") from error
    return found


def _make(folder: Path, mode: int) -> None:
    if folder.exists():
        return
    _make(folder.parent, mode)
    folder.mkdir()
    folder.chmod(mode)
