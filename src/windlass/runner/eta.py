"""Progress of tasks: the estimated remaining time, and the files that tasks write their progress to."""

import contextlib
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath

from windlass.client.pods import Container, Pod
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.wire import progress
from windlass.wire.progress import Progress

VARIABLE = "WINDLASS_PROGRESS"
_MAX_SAMPLES = 20
MAX_REMAINING_SECONDS = 10 * 365 * 86400.0
"""Longer estimates are not shown."""


class Pace:
    """The pace of one task, from its last steps."""

    def __init__(self) -> None:
        self._samples: deque[tuple[datetime, int]] = deque(maxlen=_MAX_SAMPLES)

    def remaining(self, found: Progress, now: datetime) -> float | None:
        """Record the progress and return the estimated remaining seconds, or None if they are not known."""
        if self._samples and found.step < self._samples[-1][1]:
            # The task has restarted.
            self._samples.clear()
        if not self._samples or found.step > self._samples[-1][1]:
            self._samples.append((now, found.step))
        start, first_step = self._samples[0]
        seconds, steps = (now - start).total_seconds(), found.step - first_step
        if not found.total or steps <= 0 or seconds <= 0:
            return None
        remaining = max(found.total - found.step, 0) * seconds / steps
        return round(remaining, 1) if remaining <= MAX_REMAINING_SECONDS else None


def progress_file(pod: Pod, folder: PodDirectory) -> Path | None:
    """Return the path of a pod's progress file on this machine, if it is in an emptyDir or hostPath volume."""
    for container in pod.spec.containers:
        for variable in container.env:
            if variable.name == VARIABLE and variable.value:
                return _local_path(pod, container, PurePosixPath(variable.value), folder)
    return None


def _local_path(pod: Pod, container: Container, file: PurePosixPath, folder: PodDirectory) -> Path | None:
    volumes = {volume.name: volume for volume in pod.spec.volumes}
    mounts = [mount for mount in container.volume_mounts if file.is_relative_to(mount.mount_path)]
    if not mounts:
        return None
    mount = max(mounts, key=lambda each: len(each.mount_path))
    volume = volumes.get(mount.name)
    if volume is None or ".." in file.parts:
        return None
    inner = PurePosixPath(mount.sub_path, file.relative_to(mount.mount_path))
    if volume.empty_dir is not None:
        return folder.volume(volume.name) / inner
    return Path(volume.host_path.path, inner) if volume.host_path is not None else None


class ProgressFiles:
    """The progress files of running pods. A file that has not changed is not read again."""

    def __init__(self) -> None:
        self._versions: dict[Path, tuple[int, int, int]] = {}
        """Inode, size and modification time when the file was last read."""

    def changes(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Progress]]:
        """Yield each file with new progress, and the progress."""
        for path in paths:
            with contextlib.suppress(OSError):
                found = self._read(path)
                if found is not None:
                    yield path, found

    def _read(self, path: Path) -> Progress | None:
        # A pod created the file, so it may be a link, or a pipe without a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            if not stat.S_ISREG(status.st_mode) or self._versions.get(path) == version:
                return None
            self._versions[path] = version
            start = max(status.st_size - progress.TAIL_BYTES, 0)
            return progress.parse_file(os.pread(descriptor, progress.TAIL_BYTES, start))
        finally:
            os.close(descriptor)
