"""The logs of deleted pods, by the UID of the pod, within a limit of bytes. They survive a restart of the daemon.

Each archived pod has a directory, named after its UID, with the logs of its containers and a file with its namespace,
name and containers. When a namespace is deleted, the logs of its pods are deleted too, so that they cannot be read from
a later namespace of the same name.
"""

import contextlib
import logging
import os
import threading
from pathlib import Path

import msgspec

from windlass.localcluster import file_trees
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.sandbox import log_format, state_file

logger = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024 * 1024
"""Total size of the logs of deleted pods. The oldest ones are deleted."""
_OWNER_FILE = "pod.json"
_OWNER_ONLY = 0o700


class LogOwner(msgspec.Struct, frozen=True):
    """The pod whose logs a directory contains."""

    namespace: str
    name: str
    containers: tuple[str, ...]
    """Names of the containers; first the default one."""


class LogArchive:
    def __init__(self, path: Path, pods: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """`pods` has the directories of existing pods, and in an ephemeral cluster those of deleted ones."""
        self.path = path
        self._pods = pods
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def describe(self, folder: PodDirectory, owner: LogOwner) -> None:
        """Write the owner of the logs into the directory of a pod, so that it is known after the pod is deleted."""
        with contextlib.suppress(OSError):
            state_file.write(folder.path / _OWNER_FILE, owner)

    def keep(self, folder: PodDirectory) -> None:
        """Move the logs of a pod that is being deleted into the archive. Without a log or after an error, keep none."""
        owner_file = folder.path / _OWNER_FILE
        target = PodDirectory(self.path / folder.uid)
        with self._lock, contextlib.suppress(OSError):
            if not owner_file.is_file() or not any(folder.all_logs.glob("*/*")):
                return
            self.path.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            target.path.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            owner_file.rename(target.path / _OWNER_FILE)
            folder.all_logs.rename(target.all_logs)
            os.utime(target.path)
            self._delete_oldest()

    def find(self, uid: str) -> tuple[LogOwner, PodDirectory] | None:
        """Return the owner and the directory of the logs of a pod; None if there are no logs."""
        if uid != Path(uid).name or uid.startswith("."):
            return None
        for folder in (PodDirectory(self.path / uid), PodDirectory(self._pods / uid)):
            owner = state_file.read(folder.path / _OWNER_FILE, LogOwner)
            if owner is not None and folder.all_logs.is_dir():
                return owner, folder
        return None

    def folders(self) -> list[PodDirectory]:
        """Return the archived directories, the oldest first."""

        def age(path: Path) -> float:
            try:
                return path.stat().st_mtime
            except OSError:
                return 0.0

        found = self.path.iterdir() if self.path.is_dir() else ()
        return [PodDirectory(path) for path in sorted(found, key=lambda path: (age(path), path.name))]

    def remove_namespace(self, namespace: str) -> None:
        """Delete the logs of the pods of a namespace."""
        with self._lock:
            for folder in self.folders():
                owner = state_file.read(folder.path / _OWNER_FILE, LogOwner)
                if owner is None or owner.namespace == namespace:
                    self._remove(folder)

    def _delete_oldest(self) -> None:
        folders = self.folders()
        sizes = {folder.uid: _size(folder) for folder in folders}
        total = sum(sizes.values())
        for folder in folders:
            if total <= self._max_bytes:
                return
            self._remove(folder)
            total -= sizes[folder.uid]

    def _remove(self, folder: PodDirectory) -> None:
        try:
            file_trees.remove(folder.path)
        except OSError as error:
            logger.warning("cannot delete the logs in %s: %s", folder.path, error)


def _size(folder: PodDirectory) -> int:
    return sum(status.st_blocks * 512 for status in file_trees.statuses(folder.path))


def newest_file(folder: PodDirectory, container: str, *, previous: bool) -> str | None:
    """Return the name of the log of the container's last run, or of the run before it; None if there is none."""
    with contextlib.suppress(OSError):
        counts = {
            int(number)
            for path in folder.logs(container).iterdir()
            if (number := path.name.partition(".")[0]).isdecimal()
        }
        if counts:
            count = max(counts) - (1 if previous else 0)
            return log_format.file_name(count) if count in counts else None
    return None
