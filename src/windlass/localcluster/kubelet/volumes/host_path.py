"""hostPath volumes: check the type of the path, and decide what to create.

A module of its own since it is a policy (the field `type`) with its own tests.
"""

import stat
from collections.abc import Callable

import msgspec

from windlass.localcluster.kubelet.containers import errors
from windlass.model.base import Json

ModeOf = Callable[[str], int | None]
"""Function from a path to the `st_mode` of its target; None if nothing exists there."""


class Creation(msgspec.Struct, frozen=True):
    """A directory (with missing parents) or a file (in an existing directory) to create."""

    path: str
    is_folder: bool
    mode: int


def creation(volume: Json, mode_of: ModeOf) -> Creation | None:
    """Return what to create before the volume can be mounted. Raises SetupError for a path of another type."""
    source = volume["hostPath"]
    path, kind = source["path"], source.get("type") or ""
    if ".." in path.split("/"):
        raise errors.failed_mount(volume["name"], f"invalid HostPath `{path}`: must not contain '..'")
    mode = mode_of(path)
    if mode is None and kind in _CREATED:
        return _CREATED[kind](path)
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


# Without a type the kubelet checks nothing, and the container runtime creates a directory.
_CREATED: dict[str, Callable[[str], Creation]] = {
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
