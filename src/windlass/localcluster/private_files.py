"""Files that only this user may write: the data directory of a cluster, its token, keys, sockets and locks.

Another user who can write them gets the rights of the user who runs the cluster: the token authorises every request,
pods run as that user, and the lock files name processes that `windlass local down` stops.
"""

import contextlib
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from windlass import file_owners

_OTHERS_CAN_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_CAN_READ = stat.S_IRGRP | stat.S_IROTH
_ALL_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_ANOTHER_DIRECTORY = "choose another directory with XDG_STATE_HOME or --data-dir"
# Files whose content gives full access to the cluster.
_SECRET_FILES = frozenset({"token", "server.key", "kubeconfig"})


class ForeignFileError(PermissionError):
    """Another user owns a file or can write it. The message contains the owner and the mode."""


def check(folder: Path) -> None:
    """Raise ForeignFileError if another user except root owns or can write the folder, a file in it or a parent folder,
    or can read a secret.

    A missing folder is valid. Files in subfolders, which are created private, are not checked. If other users have no
    access to the folder, modes of our own files are corrected instead: an earlier release created some files with the
    modes of the umask.
    """
    problems = [*_parent_problems(folder), *_problems(folder)]
    if not problems:
        with contextlib.suppress(FileNotFoundError):
            _correct_modes(folder)
            problems = [problem for path in folder.iterdir() for problem in _problems(path)]
    if problems:
        raise ForeignFileError("\n".join(problems))


def _correct_modes(folder: Path) -> None:
    """Remove the permissions of other users from our own files, if these users have no access to the folder."""
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & _ALL_OF_OTHERS:
        return
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            is_ours = status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
            removed = _ALL_OF_OTHERS if path.name in _SECRET_FILES else _OTHERS_CAN_WRITE
            if is_ours and status.st_mode & removed:
                path.chmod(stat.S_IMODE(status.st_mode) & ~removed)


def _problems(path: Path) -> Iterator[str]:
    # Temporary files may disappear at any time.
    with contextlib.suppress(FileNotFoundError):
        for status in (path.lstat(), path.stat()):
            if status.st_uid not in (file_owners.ROOT, os.geteuid()):
                yield _prepared_by_another_user(path, status)
                return
            is_link, quoted = stat.S_ISLNK(status.st_mode), shlex.quote(str(path))
            if status.st_mode & _OTHERS_CAN_WRITE and not is_link:
                remedy = f"Run `chmod go-w {quoted}` or {_ANOTHER_DIRECTORY}."
                yield f"{_description(path, status)}. Other users can write it. {remedy}"
                return
            if path.name in _SECRET_FILES and status.st_mode & _OTHERS_CAN_READ and not is_link:
                remedy = f"Run `rm {quoted}`: the next start creates another one."
                yield f"{_description(path, status)}. Other users can read it. {remedy}"
                return


def _parent_problems(folder: Path) -> Iterator[str]:
    """Yield the parent folders in which another user can replace the folder, or a link on the way to it."""
    # In a user namespace, root may have another ID. The owner of `/` can replace everything.
    trusted = file_owners.trusted() | {Path("/").stat().st_uid}
    for parent in _all_parents(folder):
        with contextlib.suppress(FileNotFoundError):
            for status in (parent.lstat(), parent.stat()):
                if status.st_uid not in trusted:
                    yield _prepared_by_another_user(parent, status)
                    return
            if file_owners.others_can_replace_files(status):
                yield (
                    f"{_description(parent, status)}. Other users can replace the files in it."
                    f" Run `chmod go-w {shlex.quote(str(parent))}` or {_ANOTHER_DIRECTORY}."
                )
                return


def _all_parents(folder: Path) -> Iterator[Path]:
    """Yield the parent folders of the path and of the targets of all links in it."""
    paths = [folder.absolute()]
    seen: set[Path] = set()
    while paths:
        path = paths.pop()
        for parent in (path, *path.parents):
            if parent in seen:
                continue
            seen.add(parent)
            if parent != folder.absolute():
                yield parent
            if parent.is_symlink():
                paths.append(parent.parent / parent.readlink())


def _prepared_by_another_user(path: Path, status: os.stat_result) -> str:
    return f"{_description(path, status)}. Another user may have prepared it: {_ANOTHER_DIRECTORY}."


def _description(path: Path, status: os.stat_result) -> str:
    return f"{path} belongs to {_name(status.st_uid)} and has mode {stat.S_IMODE(status.st_mode):04o}"


def _name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user ID {uid}"


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, with mode 0700."""
    for path in reversed((folder, *folder.parents)):
        if not path.exists():
            path.mkdir(exist_ok=True, mode=0o700)
    # Raises an error if it is a file.
    folder.mkdir(exist_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file atomically. It has mode 0600 from its creation."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
