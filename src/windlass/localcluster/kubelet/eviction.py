"""The eviction manager: frees disk space and inodes if the disk of the data directory is full.

As in the kubelet of Kubernetes, it first deletes files of pods that have ended, then evicts the largest unfinished pod.
It skips a step if all these files or pods together use too little to end the shortage: something else fills the disk.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from windlass.localcluster import file_trees
from windlass.localcluster.kubelet.pods import disk
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.kubelet.pods.disk import Shortage, Usage
from windlass.localcluster.kubelet.pods.pod_sandbox import PodDirectories
from windlass.localcluster.kubelet.pods.worker import PodWorker

logger = logging.getLogger(__name__)

# The period of the kubelet of Kubernetes.
CHECK_SECONDS = 10.0
_MIN_SECONDS_BETWEEN_CHECKS = 0.5


class EvictionManager:
    def __init__(
        self,
        directories: PodDirectories,
        workers: Mapping[str, PodWorker],
        prepare_removal: Callable[[Path], None],
    ) -> None:
        self._directories = directories
        self._workers = workers
        self._prepare_removal = prepare_removal
        self._is_due = asyncio.Event()

    def check_soon(self) -> None:
        """Check the disk now instead of at the end of the period, e.g. because a write to the store has failed."""
        self._is_due.set()

    async def run(self) -> None:
        """Check the disk periodically: on a full disk, writes to the store may succeed while its files have free
        space."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._is_due.wait()
            self._is_due.clear()
            try:
                await self.check()
            except Exception:
                logger.exception("cannot check the disk of %s", self._directories.path)
            await asyncio.sleep(_MIN_SECONDS_BETWEEN_CHECKS)

    async def check(self) -> None:
        """End a shortage of the disk. One pod is evicted at a time, since the space that it frees may be enough."""
        shortage = await self._shortage()
        if shortage is None or any(worker.is_being_evicted for worker in self._workers.values()):
            return
        # List directories before workers: a worker creates its directory, so each directory of a new pod has a worker.
        folders = await asyncio.to_thread(self._directories.all)
        unfinished = {uid: worker for uid, worker in self._workers.items() if not worker.is_finished}
        ended = [folder for folder in folders if folder.uid not in unfinished]
        if self._directories.archive is not None:
            ended += await asyncio.to_thread(self._directories.archive.folders)
        await self._delete_files(ended, shortage)
        shortage = await self._shortage()
        if shortage is not None:
            await self._evict_largest(unfinished, shortage)

    async def _shortage(self) -> Shortage | None:
        return await asyncio.to_thread(disk.shortage, self._directories.path)

    async def _delete_files(self, ended: list[PodDirectory], shortage: Shortage) -> None:
        """Delete volumes and then, if necessary, logs of pods that have ended, the largest first."""
        volumes = await _by_usage([folder.volumes for folder in ended], shortage)
        logs = await _by_usage([folder.all_logs for folder in ended], shortage)
        total = sum((usage for _, usage in (*volumes, *logs)), Usage())
        if not shortage.is_covered_by(total):
            return
        for path, usage in (*volumes, *logs):
            if shortage.used(usage) == 0:
                continue
            logger.warning("deleting %s, whose pod has ended. %s", path, shortage.message)
            with contextlib.suppress(OSError):
                for folder in path.iterdir():
                    self._prepare_removal(folder)
                await asyncio.to_thread(file_trees.remove, path)
            if await self._shortage() is None:
                return

    async def _evict_largest(self, workers: Mapping[str, PodWorker], shortage: Shortage) -> None:
        by_path = {worker.sandbox.folder.path: worker for worker in workers.values()}
        usages = await _by_usage(list(by_path), shortage)
        if shortage.is_covered_by(sum((usage for _, usage in usages), Usage())):
            by_path[usages[0][0]].evict(shortage.message)


async def _by_usage(folders: list[Path], shortage: Shortage) -> list[tuple[Path, Usage]]:
    """Return directories and their usage, the largest first."""

    def measure() -> list[tuple[Path, Usage]]:
        found = [(folder, disk.usage(folder)) for folder in folders]
        return sorted(found, key=lambda each: shortage.used(each[1]), reverse=True)

    return await asyncio.to_thread(measure)
