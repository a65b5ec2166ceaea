"""Data directories of clusters, and their locks. This module starts and stops no processes.

    $XDG_STATE_HOME/windlass/local        `windlass local up` (default of --data-dir)
    $XDG_STATE_HOME/windlass/runs/<id>    a `windlass run`, until it ends; with --keep, until it is deleted

A folder belongs to Windlass if it contains the lock file, and is in use while that file is locked. The kernel releases
the lock when the process that holds it ends, even if that process is killed.
"""

import contextlib
import fcntl
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from windlass.kubeapi import local_cluster
from windlass.kubeapi.local_cluster import default_data as default_data
from windlass.kubeapi.local_cluster import state_folder as state_folder
from windlass.localcluster.file_trees import remove as remove
from windlass.localcluster.private_files import ForeignFileError as ForeignFileError
from windlass.localcluster.private_files import check as check
from windlass.localcluster.private_files import make_folder
from windlass.localcluster.private_files import write as write_file
from windlass.runner import interrupts

LOCK = "daemon.lock"
POLL_SECONDS = 0.02
_KEPT_MARKER = "kept"
"""File that marks the folder of a cluster that outlives its run."""


class LocalClusterError(Exception):
    """Base class of the errors of `windlass local`. The message is for users."""


class ForeignFolderError(LocalClusterError):
    """The folder is not empty and does not belong to Windlass."""


class InUseError(LocalClusterError):
    """Another process uses the folder."""


def chosen_data(environment: Mapping[str, str]) -> Path:
    """Return the data directory that `use` has chosen, else the default."""
    kubeconfig = local_cluster.chosen_kubeconfig(environment)
    return kubeconfig.parent if kubeconfig is not None else default_data(environment)


def use(data: Path, environment: Mapping[str, str]) -> None:
    """Let all commands use the cluster with this data directory. Raises LocalClusterError and OSError."""
    kubeconfig = data / local_cluster.KUBECONFIG
    if not kubeconfig.exists():
        raise LocalClusterError(f"there is no cluster in {data}: start it with `windlass local up`")
    choice = local_cluster.choice_file(environment)
    make_folder(choice.parent)
    check(choice.parent)
    write_file(choice, str(kubeconfig).encode())


def stop_using(environment: Mapping[str, str]) -> None:
    local_cluster.choice_file(environment).unlink(missing_ok=True)


def hidden_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders with the credentials of the user's clusters, which pods must not see."""
    try:
        return (state_folder(environment),)
    except RuntimeError:
        # The user has no home directory.
        return ()


def is_ours(folder: Path) -> bool:
    return (folder / LOCK).is_file()


def claim(folder: Path) -> None:
    """Create the folder and its lock file, unless they exist. Raises ForeignFolderError or OSError."""
    make_folder(folder)
    check(folder)
    if is_ours(folder):
        return
    if any(folder.iterdir()):
        raise ForeignFolderError(
            f"{folder} is not empty and is not a data directory of Windlass: choose another directory"
        )
    (folder / LOCK).touch(mode=0o600)


class Lock:
    """A lock that is held until it is released or the process ends. The file contains the process ID."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path, seconds: float = math.inf) -> "Lock":
        """Acquire the lock within `seconds`. Raises InUseError."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + seconds
        try:
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    raise InUseError(f"{path.parent} is in use")
                time.sleep(POLL_SECONDS)
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
    """Return the ID of the process that holds the lock, or None. 0 if it has not written its ID yet."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _try_lock(descriptor, fcntl.LOCK_SH):
            return None
        text = os.pread(descriptor, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, operation: int) -> bool:
    """Return whether the file could be locked. An exclusive lock fails for a moment while `holder` has a shared one."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def temporary_run_folder(runs: Path) -> Iterator[Path]:
    """Create a folder for a run and remove it at the end. Folders of killed runs are removed first."""
    with _created(runs) as folder:
        lock = Lock.take(folder / LOCK)
    try:
        yield folder
    finally:
        # A signal must not interrupt the removal. After an OSError, the next run retries it.
        with interrupts.deferred(), contextlib.suppress(OSError):
            lock.release()
            remove(folder)


def create_kept_folder(runs: Path) -> Path:
    """Create a folder for a cluster that outlives its run. Later runs do not remove it."""
    with _created(runs) as folder:
        (folder / _KEPT_MARKER).touch(mode=0o600)
        (folder / LOCK).touch(mode=0o600)
    return folder


@contextlib.contextmanager
def _created(runs: Path) -> Iterator[Path]:
    """Create a folder under a lock: another run must not remove the folder before the folder has its own lock."""
    make_folder(runs)
    check(runs)
    with Lock.take(runs / ".lock"):
        _remove_abandoned(runs)
        folder = runs / secrets.token_hex(4)
        folder.mkdir(mode=0o700)
        yield folder


def _remove_abandoned(runs: Path) -> None:
    for folder in runs.iterdir():
        if not is_ours(folder) or (folder / _KEPT_MARKER).exists():
            continue
        if holder(folder / LOCK) is None:
            with contextlib.suppress(OSError):
                # Imported here: the import is slow and rarely needed.
                from windlass.localcluster import cluster

                cluster.remove_cgroups(folder)
                remove(folder)
