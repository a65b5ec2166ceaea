"""Watch directories for changes of their files by other processes.

On Linux this uses inotify (through ctypes). On other systems, if no inotify instance is available, or while the
directory does not exist, waiting tasks are woken five times a second.
"""

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
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
_ALL_FOLDERS = -1
# Watch descriptor, mask, cookie, and the length of the name that follows.
_EVENT = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


class DirectoryWatcher:
    """One inotify instance for all waiting tasks, since the number per user is limited. It belongs to one event loop."""

    def __init__(self) -> None:
        self._watches: set[DirectoryWatch] = set()
        self._kernel = _new_inotify()
        if self._kernel is not None:
            asyncio.get_running_loop().add_reader(self._kernel, self._pass_on, self._kernel)

    def close(self) -> None:
        """Release the inotify instance. Tasks that still wait poll from now on."""
        if self._kernel is None:
            return
        asyncio.get_running_loop().remove_reader(self._kernel)
        os.close(self._kernel)
        self._kernel = None
        for watch in self._watches:
            watch.number = None
            watch.has_changed.set()

    @contextlib.contextmanager
    def watching(self, folder: Path) -> Iterator["DirectoryWatch"]:
        watch = DirectoryWatch(self, folder)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.remove(watch)
            self._forget(watch.number)

    def notify(self, folder: Path) -> None:
        """Wake the tasks that wait for the directory."""
        for watch in self._watches:
            if watch.folder == folder:
                watch.has_changed.set()

    def number(self, folder: Path) -> int | None:
        """Return the watch descriptor of the directory, the same for all callers; None if it cannot be watched."""
        if self._kernel is None:
            return None
        number: int = _libc.inotify_add_watch(self._kernel, os.fsencode(folder), _WATCHED)
        return None if number < 0 else number

    def _forget(self, number: int | None) -> None:
        is_used = any(watch.number == number for watch in self._watches)
        if self._kernel is not None and number is not None and not is_used:
            _libc.inotify_rm_watch(self._kernel, number)

    def _pass_on(self, kernel: int) -> None:
        events = dict(_events(os.read(kernel, _BUFFER_BYTES)))
        for watch in self._watches:
            if watch.number in events or _ALL_FOLDERS in events:
                watch.has_changed.set()
            # The last event of a deleted directory.
            if watch.number is not None and events.get(watch.number, 0) & _IN_IGNORED:
                watch.number = None


class DirectoryWatch:
    def __init__(self, source: DirectoryWatcher, folder: Path) -> None:
        self.folder = folder
        self.number: int | None = None
        self.has_changed = asyncio.Event()
        self._source = source

    async def wait(self) -> None:
        """Wait until something may have changed since the last call."""
        if self.number is None:
            self.number = self._source.number(self.folder)
            if self.number is not None:
                # Changes before the watch began are unknown.
                return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS if self.number is None else None):
                await self.has_changed.wait()
        self.has_changed.clear()


def _new_inotify() -> int | None:
    if not hasattr(_libc, "inotify_init1"):
        return None
    kernel: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return None if kernel < 0 else kernel


def _events(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield watch descriptors and event masks."""
    position = 0
    while position < len(data):
        number, happened, _, name_bytes = _EVENT.unpack_from(data, position)
        yield number, happened
        position += _EVENT.size + name_bytes
