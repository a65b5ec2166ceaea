"""hostPath volumes: what must be at the path, and what is to be made there if nothing is."""

import stat
from collections.abc import Callable

import msgspec

from windlass.localcluster.kubelet.containers import errors
from windlass.model.base import Json

ModeOf = Callable[[str], int | None]
"""A path → the `st_mode` of what it leads to, links followed; None when nothing is there."""


class Creation(msgspec.Struct, frozen=True):
    """A folder is made with all that is missing above it, a file only in a folder that is there."""

    path: str
    is_folder: bool
    mode: int


def creation(volume: Json, mode_of: ModeOf) -> Creation | None:
    """What to make before this volume can be mounted; refused when something else is in its place."""
    source = volume["hostPath"]
    path, kind = source["path"], source.get("type") or ""
    if ".." in path.split("/"):
        raise errors.failed_mount(volume["name"], f"invalid HostPath `{path}`: must not contain '..'")
    mode = mode_of(path)
    if mode is None and kind in _MADE:
        return _MADE[kind](path)
    if not kind:
        return None
    if kind not in _EXPECTED:
        raise errors.failed_mount(volume["name"], f"{kind} is an invalid volume type")
    is_as_expected, description = _EXPECTED[kind]
    if mode is None or not is_as_expected(mode):
        raise errors.failed_mount(volume["name"], _mismatch(path, description, mode))
    return None


def _mismatch(path: str, expected: str, mode: int | None) -> str:
    """Return the message of the kubelet for a path that has another type."""
    found = next((name for name, is_type in _TYPES.items() if mode is not None and is_type(mode)), None)
    if found:
        return f"hostPath type check failed: {path} is not a {expected}, it's a {found}"
    reason = (
        f'path "{path}" does not exist'
        if mode is None
        else "only recognise file, directory, socket, block device and character device"
    )
    return f"hostPath type check failed, {path} is not a {expected}, unable to determine its type: {reason}"


def _folder(path: str) -> Creation:
    return Creation(path, is_folder=True, mode=0o755)


def _file(path: str) -> Creation:
    return Creation(path, is_folder=False, mode=0o644)


# Without a type the kubelet looks at nothing; it is the container runtime that makes a folder then.
_MADE: dict[str, Callable[[str], Creation]] = {
    "": _folder,
    "DirectoryOrCreate": _folder,
    "FileOrCreate": _file,
}
_TYPES: dict[str, Callable[[int], bool]] = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}
_EXPECTED: dict[str, tuple[Callable[[int], bool], str]] = {
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "Directory": (stat.S_ISDIR, "directory"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
