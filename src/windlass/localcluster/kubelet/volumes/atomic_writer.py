"""Atomic updates of all files of a volume, as the kubelet does for configMap, secret and projected volumes.

The files are in a directory whose name begins with two dots. The link `..data` points to it, and the names that users
see are links through `..data`: replacing this one link updates all files. Incomplete files of an interrupted update are
never visible.
"""

import contextlib
import hashlib
import os
from datetime import datetime
from pathlib import Path

from windlass.localcluster import file_trees
from windlass.localcluster.kubelet.volumes.files import Files

_CURRENT = "..data"
_NEXT = "..data_tmp"
_HIDDEN_PREFIX = ".."


def update(folder: Path, files: Files, now: datetime, group: int | None = None) -> bool:
    """Update the files, and return whether anything changed. Members of `group` (the fsGroup) may read them."""
    name = f"{_HIDDEN_PREFIX}{now:%Y_%m_%d_%H_%M_%S}.{_digest(files, group)}"
    current = _current(folder)
    # Compare the digest in the name: the mode of the files may not allow this process to read them.
    if current and current.rpartition(".")[2] == name.rpartition(".")[2]:
        return False
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    names = {path.partition("/")[0] for path in files}
    try:
        _write_all(folder / name, files, group)
        # New links are created before `..data` is replaced, so that none is missing if this process is killed.
        for new_name in names - _visible_names(folder):
            (folder / new_name).symlink_to(f"{_CURRENT}/{new_name}")
        _replace_link(folder, name)
    except OSError:
        _remove(folder / name)
        raise
    for old_name in _visible_names(folder) - names:
        (folder / old_name).unlink()
    _remove_old(folder, name)
    return True


def _digest(files: Files, group: int | None) -> str:
    digest = hashlib.sha256(repr(group).encode())
    for path, file in sorted(files.items()):
        digest.update(f"{path}\0{file.mode:o}\0{len(file.content)}\0".encode())
        digest.update(file.content)
    return digest.hexdigest()[:16]


def _current(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return str((folder / _CURRENT).readlink())
    return ""


def _write_all(new_folder: Path, files: Files, group: int | None) -> None:
    # The directory may exist because of an interrupted update.
    _remove(new_folder)
    _make_folder(new_folder)
    for path, file in files.items():
        for parent in reversed(Path(path).parents[:-1]):
            _make_folder(new_folder / parent)
        target = new_folder / path
        with target.open("wb") as stream:
            target.chmod(0o600)
            stream.write(file.content)
        if group is not None:
            os.chown(target, -1, group)
        target.chmod(file.mode if group is None else file.mode | 0o440)


def _make_folder(path: Path) -> None:
    path.mkdir(exist_ok=True)
    path.chmod(0o755)


def _replace_link(folder: Path, name: str) -> None:
    link = folder / _NEXT
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.replace(folder / _CURRENT)


def _visible_names(folder: Path) -> set[str]:
    return {
        path.name
        for path in folder.iterdir()
        if path.is_symlink() and not path.name.startswith(_HIDDEN_PREFIX)
    }


def _remove_old(folder: Path, current: str) -> None:
    for path in folder.iterdir():
        if path.name.startswith(_HIDDEN_PREFIX) and path.name not in (current, _CURRENT):
            _remove(path)


def _remove(folder: Path) -> None:
    """Delete a directory if possible. Otherwise, the next update continues."""
    with contextlib.suppress(OSError):
        file_trees.remove(folder)
