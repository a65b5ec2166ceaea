"""Read and follow the logs of containers while supervisors write them.

A log consists of rotated files, oldest first, and the current file; `log_format` defines their lines. A reader holds
files open, since their names change on rotation, and closes a file when it has read all of it and a successor exists.
It locks them, so that the supervisor does not delete them or their successors, however slowly they are read.
"""

import asyncio
import contextlib
import fcntl
import io
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from windlass.localcluster.apiserver.streams.requests import LogOptions
from windlass.localcluster.kubelet.directory_watch import DirectoryWatcher
from windlass.localcluster.sandbox import log_format

_PIECE_BYTES = 64 * 1024
_TEXT_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def selection(options: LogOptions, now: datetime) -> log_format.Selection:
    """Return the Selection that the options request. The API server enforces `limit_bytes`."""
    return log_format.Selection(
        tail_lines=options.tail_lines,
        since=log_format.since(now, options.since_seconds, options.since_time),
        timestamps=options.timestamps,
    )


async def read(
    folder: Path,
    file: str,
    wanted: log_format.Selection,
    *,
    follow: bool,
    is_over: Callable[[], bool],
    watcher: DirectoryWatcher,
) -> AsyncGenerator[bytes, None]:
    """Yield the selected text in pieces. A log that does not exist yet is empty.

    With `follow`, continue until `is_over` returns True. `is_over` must not return True before the last line has been
    written, and the caller must call `watcher.notify(folder)` when the result of `is_over` changes, and
    `watcher.prepare_removal(folder)` before it deletes files.
    """
    begins_line = True
    with (
        contextlib.closing(_OpenLog(folder, file, follow=follow)) as log,
        watcher.watching(folder, log.open_remaining) as watch,
    ):
        if wanted.tail_lines is not None:
            await log.skip_to_tail(wanted.tail_lines)
        while True:
            # `is_over` is called before the last read, so that lines written in between are not lost.
            is_complete = not follow or is_over()
            while lines := log.next_lines():
                text, begins_line = log_format.selected_text(lines, wanted, begins_line=begins_line)
                if text:
                    yield text
                await asyncio.sleep(0)
            if is_complete:
                return
            await watch.wait()


def ended_log(folder: Path, file: str) -> Iterator[bytes]:
    """Yield the text of a finished log in pieces; nothing if there is no log."""
    with contextlib.closing(_OpenLog(folder, file, follow=False)) as log:
        while lines := log.next_lines():
            yield log_format.selected_text(lines, log_format.Selection())[0]


def last_lines(folder: Path, file: str, count: int, max_bytes: int) -> list[bytes]:
    """Return the last lines of a log, at most `count` lines and `max_bytes` bytes: the first line may be truncated."""
    # The first line that is read may be incomplete and is then ignored; the other lines suffice.
    remaining_bytes = max_bytes + (count + 2) * (log_format.HEADER_BYTES + 1) + log_format.MAX_PART_BYTES
    lines = b""
    with contextlib.closing(_OpenLog(folder, file, follow=False)) as log:
        for each in reversed(log.files):
            start = max(each.end - remaining_bytes, 0)
            piece = each.bytes_at(start, each.end - start)
            lines, remaining_bytes = piece + lines, remaining_bytes - len(piece)
    text, _ = log_format.selected_text(lines, log_format.Selection())
    found = _TEXT_LINE.findall(text[max(len(text) - max_bytes, 0) :])
    return found[max(len(found) - count, 0) :]


class _OpenFile(msgspec.Struct, frozen=True):
    """`end` is the size of the file when it was opened."""

    raw: io.FileIO
    inode: int
    end: int

    def bytes_at(self, offset: int, count: int) -> bytes:
        return os.pread(self.raw.fileno(), count, offset)

    def close(self) -> None:
        self.raw.close()


class _OpenLog:
    """The files of a log that are not read completely. They are held open, since they may be renamed or deleted."""

    def __init__(self, folder: Path, file: str, *, follow: bool) -> None:
        self._folder = folder
        self._name = file
        self._follow = follow
        self._offset = 0
        self.files = self._all_files()

    def close(self) -> None:
        while self.files:
            self.files.pop().close()

    def next_lines(self) -> bytes:
        """Return the next complete lines; empty at the end. Without `follow`, ignore lines written after `__init__`."""
        if self._follow and not self.files:
            self.files = self._all_files()
        while self.files:
            # A file with a successor does not grow any more, so this check must come before the read.
            has_successor = len(self.files) > 1 or (self._follow and self._open_successor())
            if lines := self._read():
                return lines
            if not has_successor:
                break
            self.files.pop(0).close()
            self._offset = 0
        return b""

    def open_remaining(self) -> None:
        """Open all files that are not read yet, because they are about to be deleted."""
        if self._follow and not self.files:
            self.files = self._all_files()
        while self._follow and self.files and self._open_successor():
            pass

    async def skip_to_tail(self, count: int) -> None:
        """Skip to the beginning of the last `count` lines. A line may consist of several parts."""
        if not self.files:
            return
        index, self._offset = await self._tail(count)
        for passed in self.files[:index]:
            passed.close()
        del self.files[:index]

    async def _tail(self, count: int) -> tuple[int, int]:
        if count == 0:
            return len(self.files) - 1, _end_of_whole_lines(self.files[-1])
        for found in _line_starts_backwards(self.files):
            if len(found) >= count:
                return found[count - 1]
            count -= len(found)
            await asyncio.sleep(0)
        return 0, 0

    def _read(self) -> bytes:
        file = self.files[0]
        max_bytes = _PIECE_BYTES if self._follow else min(_PIECE_BYTES, file.end - self._offset)
        data = file.bytes_at(self._offset, max_bytes)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == _PIECE_BYTES:
            # No valid line is this long: `log_format` ignores it.
            end = len(data)
        self._offset += end
        return data[:end]

    def _all_files(self) -> list[_OpenFile]:
        """Open all files and return them, oldest first.

        The current file is opened before the others, so that a rotation in between cannot lead to a missing file.
        """
        current = self._open(self._name)
        files = []
        for name in self._rotated_names():
            file = self._open(name)
            if file is None:
                continue
            if current is not None and file.inode == current.inode:
                # The current file was rotated in between. `_open_successor` finds its successor.
                file.close()
                break
            files.append(file)
        return files if current is None else [*files, current]

    def _open_successor(self) -> bool:
        held = self.files[-1]
        with contextlib.suppress(FileNotFoundError):
            if (self._folder / self._name).stat().st_ino == held.inode:
                return False
        successor = self._successor_of(held)
        if successor is not None:
            self.files.append(successor)
        return successor is not None

    def _successor_of(self, held: _OpenFile) -> _OpenFile | None:
        # `current` is opened before the names are read: if they show no rotation after `held`, `current` is
        # `held` or its successor.
        current = self._open(self._name)
        later = self._rotated_after(held)
        is_held = current is not None and current.inode == held.inode
        if not later and not is_held:
            return current
        if current is not None:
            current.close()
        return next(filter(None, map(self._open, later)), None)

    def _rotated_after(self, held: _OpenFile) -> tuple[str, ...]:
        """Return the names of the files rotated after the held one; all names if none of them is the held one."""
        names = self._rotated_names()
        for index, name in enumerate(names):
            with contextlib.suppress(FileNotFoundError):
                if (self._folder / name).stat().st_ino == held.inode:
                    return names[index + 1 :]
        return names

    def _rotated_names(self) -> tuple[str, ...]:
        try:
            return log_format.rotated_names([each.name for each in self._folder.iterdir()], self._name)
        except FileNotFoundError:
            return ()

    def _open(self, name: str) -> _OpenFile | None:
        try:
            raw = io.FileIO(self._folder / name)
        except FileNotFoundError:
            return None
        with contextlib.suppress(OSError):  # e.g. the file system has no locks
            fcntl.flock(raw, fcntl.LOCK_SH | fcntl.LOCK_NB)
        status = os.fstat(raw.fileno())
        return _OpenFile(raw, status.st_ino, status.st_size)


def _line_starts_backwards(files: list[_OpenFile]) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of line starts (file index and offset), last first. Each list covers about 64 KiB."""
    later: tuple[int, int] | None = None
    for index, file in reversed(list(enumerate(files))):
        for offset, lines in _blocks_backwards(file):
            found = []
            for start, is_part in reversed(log_format.log_line_offsets(lines)):
                if later is not None and not is_part:
                    found.append(later)
                later = index, offset + start
            yield found
    if later is not None:
        yield [later]


def _blocks_backwards(file: _OpenFile) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of lines, each with its offset, last first. The last line of the file may be incomplete."""
    end, rest = file.end, b""
    while end > 0:
        start = max(end - _PIECE_BYTES, 0)
        data = file.bytes_at(start, end - start) + rest
        first = 0 if start == 0 else data.find(b"\n") + 1
        if start == 0 or first > 0:
            yield start + first, data[first:]
            data = data[:first]
        end, rest = start, data


def _end_of_whole_lines(file: _OpenFile) -> int:
    start = max(file.end - _PIECE_BYTES, 0)
    return start + file.bytes_at(start, file.end - start).rfind(b"\n") + 1
