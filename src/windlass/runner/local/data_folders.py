"""Where clusters keep their data, whose folder is whose, and who uses it now. Nothing here starts or stops anything.

    $XDG_STATE_HOME/windlass/local        what `windlass local up` runs, unless --data-dir says otherwise
    $XDG_STATE_HOME/windlass/runs/<id>    one `windlass run`, until it ends; with --keep, until somebody deletes it

A folder is ours if it holds our lock file, and in use as long as somebody has that file locked: the kernel lets go of a
lock when its process ends, however it ends.
"""

import contextlib
import fcntl
import math
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

LOCK = "daemon.lock"
LOOK_AGAIN_SECONDS = 0.02
_KEPT = "kept"


class ForeignFolderError(Exception):
    """There is something in the folder, and it is not ours."""


class InUseError(Exception):
    """Another process works on the folder."""


def state_folder(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_STATE_HOME", "")
    # The specification says that a relative path is to be ignored.
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return base / "windlass"


def default_data(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / "local"


def is_ours(folder: Path) -> bool:
    return (folder / LOCK).is_file()


def claim(folder: Path) -> None:
    """Make the folder ours, if it is not yet. Raises ForeignFolderError, and OSError where it cannot be made."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_ours(folder):
        return
    if any(folder.iterdir()):
        raise ForeignFolderError(
            f"{folder} is not empty and is not a data directory of Windlass: choose another directory"
        )
    (folder / LOCK).touch(mode=0o600)


class Lock:
    """Held until it is released or the process ends. The file says who holds it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path, seconds: float = math.inf) -> "Lock":
        """Waits for its turn, for so long. Raises InUseError."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + seconds
        try:
            while not _is_locked(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    raise InUseError(f"{path.parent} is in use")
                time.sleep(LOOK_AGAIN_SECONDS)
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(path: Path) -> int | None:
    """The process that has the file locked, if there is one."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _is_locked(descriptor, fcntl.LOCK_SH):
            return None
        text = os.pread(descriptor, 32, 0).strip()
        # Between taking the lock and writing its number there is a moment; nobody has the number 0.
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, how: int) -> bool:
    """Whether we got it. Whoever only looks if it is taken has a share of it for a moment."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def for_one_run(runs: Path) -> Iterator[Path]:
    """A folder of its own, gone at the end; and what killed runs left behind is gone too."""
    with _made(runs) as folder:
        lock = Lock.take(folder / LOCK)
    try:
        yield folder
    finally:
        lock.release()
        with contextlib.suppress(OSError):  # the next run tries again
            remove(folder)


def to_keep(runs: Path) -> Path:
    """A folder for a cluster that outlives its run. No later run removes it."""
    with _made(runs) as folder:
        (folder / _KEPT).touch()
        (folder / LOCK).touch(mode=0o600)
    return folder


@contextlib.contextmanager
def _made(runs: Path) -> Iterator[Path]:
    """One at a time: a folder that is being made has no lock yet, and must not be taken for one that was left."""
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    with Lock.take(runs / ".lock"):
        _remove_abandoned(runs)
        folder = runs / secrets.token_hex(4)
        folder.mkdir(mode=0o700)
        yield folder


def _remove_abandoned(runs: Path) -> None:
    for folder in runs.iterdir():
        if not is_ours(folder) or (folder / _KEPT).exists():
            continue
        if holder(folder / LOCK) is None:
            with contextlib.suppress(OSError):
                # Imported here: there is seldom anything left, and it takes a while.
                from windlass.localcluster import cluster

                cluster.remove_traces(folder)
                remove(folder)


def remove(folder: Path) -> None:
    """All of it, also what a pod has made read-only. Raises OSError."""
    try:
        shutil.rmtree(folder)
    except PermissionError:
        for path, folders, _ in os.walk(folder):
            for name in (".", *folders):
                inner = Path(path, name)
                if not inner.is_symlink():
                    inner.chmod(stat.S_IRWXU)
        shutil.rmtree(folder)
