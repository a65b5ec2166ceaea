"""When the disk of the data directory is full, the pod that holds most of it is evicted, as a kubelet does it.

Nothing is watched for this. It is looked at when something could not be stored, for then nothing can be deleted either.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from windlass.localcluster.kubelet import disk_errors
from windlass.localcluster.kubelet.pods.worker import PodWorker

_BLOCK = 512


def relieve(data: Path, workers: Iterable[PodWorker]) -> None:
    """One pod at a time: what it gives back may be enough."""
    free = disk_errors.free_if_short(data)
    known = list(workers)
    if free is None or any(worker.is_being_evicted for worker in known):
        return
    running = [worker for worker in known if worker.record.is_anything_running]
    if not running:
        return
    most = max(running, key=lambda worker: _bytes_below(worker.place.folder.path))
    most.evict(
        "The node was low on resource: ephemeral-storage."
        f" Threshold quantity: {disk_errors.LEAST_FREE_BYTES}, available: {free // 1024}Ki."
    )


def _bytes_below(folder: Path) -> int:
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += Path(path, name).lstat().st_blocks * _BLOCK
    return total
