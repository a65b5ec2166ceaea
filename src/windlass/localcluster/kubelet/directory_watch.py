"""Watch directories for changes of their files by other processes.

On Linux this uses inotify (through ctypes). On other systems, and while inotify cannot watch a directory
(e.g. because it does not exist), waiting tasks are woken five times a second.
"""

import asyncio
import contextlib
import ctypes
import itertools
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

_POLL_SECONDS = 0.2
_BUFFER_BYTES = 64 * 1024

# From <sys/inotify.h>.
_IN_MODIFY = 0x2
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x1000000
_WATCHED = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE | _IN_ONLYDIR
# The watch descriptor in events that report an overflow of the queue: any directory may have changed.
_QUEUE_OVERFLOW = -1
# Watch descriptor, mask, cookie, and the length of the name that follows.
_EVENT = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


class DirectoryWatcher:
    """One inotify instance for all waiting tasks, since the number of instances is limited.

    It belongs to one event loop.
    """

    def __init__(self) -> None:
        self._watches: dict[Path, set[DirectoryWatch]] = {}
        self._inotify = _new_inotify()
        if self._inotify is not None:
            asyncio.get_running_loop().add_reader(self._inotify, self._on_inotify_events, self._inotify)

    def close(self) -> None:
        """Release the inotify instance. Tasks that are still waiting will poll from now on."""
        if self._inotify is None:
            return
        asyncio.get_running_loop().remove_reader(self._inotify)
        os.close(self._inotify)
        self._inotify = None
        for watch in self._all_watches():
            watch.descriptor = None
            watch.has_changed.set()

    @contextlib.contextmanager
    def watching(
        self, folder: Path, before_removal: Callable[[], None] = lambda: None
    ) -> Iterator["DirectoryWatch"]:
        """Watch a directory. `before_removal` is called before this process deletes files in it."""
        watch = DirectoryWatch(self, folder, before_removal)
        self._watches.setdefault(folder, set()).add(watch)
        try:
            yield watch
        finally:
            self._watches[folder].remove(watch)
            if not self._watches[folder]:
                del self._watches[folder]
            self._remove_watch(watch.descriptor)

    def notify(self, folder: Path) -> None:
        """Wake the tasks that wait for the directory."""
        for watch in self._watches.get(folder, ()):
            watch.has_changed.set()

    def prepare_removal(self, folder: Path) -> None:
        """Notify the tasks that watch the directory that its files are about to be deleted."""
        for watch in self._watches.get(folder, ()):
            watch.before_removal()

    def add_watch(self, folder: Path) -> int | None:
        """Watch a directory and return its watch descriptor, the same for all callers; None if that is impossible."""
        if self._inotify is None:
            return None
        descriptor: int = _libc.inotify_add_watch(self._inotify, os.fsencode(folder), _WATCHED)
        return None if descriptor < 0 else descriptor

    def _remove_watch(self, descriptor: int | None) -> None:
        is_used = any(watch.descriptor == descriptor for watch in self._all_watches())
        if self._inotify is not None and descriptor is not None and not is_used:
            _libc.inotify_rm_watch(self._inotify, descriptor)

    def _all_watches(self) -> "Iterator[DirectoryWatch]":
        return itertools.chain.from_iterable(self._watches.values())

    def _on_inotify_events(self, inotify: int) -> None:
        events = dict(_events(os.read(inotify, _BUFFER_BYTES)))
        for watch in self._all_watches():
            if watch.descriptor in events or _QUEUE_OVERFLOW in events:
                watch.has_changed.set()
            # The last event of a deleted directory.
            if watch.descriptor is not None and events.get(watch.descriptor, 0) & _IN_IGNORED:
                watch.descriptor = None


class DirectoryWatch:
    def __init__(self, watcher: DirectoryWatcher, folder: Path, before_removal: Callable[[], None]) -> None:
        self.folder = folder
        self.before_removal = before_removal
        self.descriptor: int | None = None
        self.has_changed = asyncio.Event()
        self._watcher = watcher

    async def wait(self) -> None:
        """Wait until something may have changed since the last call."""
        if self.descriptor is None:
            self.descriptor = self._watcher.add_watch(self.folder)
            if self.descriptor is not None:
                # Changes before the watch began are unknown.
                return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS if self.descriptor is None else None):
                await self.has_changed.wait()
        self.has_changed.clear()


def _new_inotify() -> int | None:
    if not hasattr(_libc, "inotify_init1"):
        return None
    inotify: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return None if inotify < 0 else inotify


def _events(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield watch descriptors and event masks."""
    position = 0
    while position < len(data):
        descriptor, mask, _, name_bytes = _EVENT.unpack_from(data, position)
        yield descriptor, mask
        position += _EVENT.size + name_bytes
