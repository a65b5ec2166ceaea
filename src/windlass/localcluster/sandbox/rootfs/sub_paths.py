"""A part of a volume that is mounted by itself: a file or folder that is there, or a new folder; never outside."""

import stat
from pathlib import Path


class OutsideError(Exception):
    """The path cannot be had. The message says why."""


def inside(volume: Path, path: str) -> Path:
    """Where `path` is, links followed. What is missing is made, as open as the volume itself is."""
    try:
        top = volume.resolve(strict=True)
        found = (top / path).resolve()
        if not found.is_relative_to(top):
            raise OutsideError(f"{path} leads out of the volume, to {found}")
        _make(found, stat.S_IMODE(top.stat().st_mode) & 0o777)
    except OSError as error:
        raise OutsideError(f"{error.filename or volume}: {error.strerror or error}") from error
    except RuntimeError as error:
        # So does Python up to 3.12 call links that lead to each other.
        raise OutsideError(f"{path} is a link that leads nowhere") from error
    return found


def _make(folder: Path, mode: int) -> None:
    if folder.exists():
        return
    _make(folder.parent, mode)
    folder.mkdir()
    folder.chmod(mode)
