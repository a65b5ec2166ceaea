"""Upload to a local directory, e.g. a mounted share."""

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from windlass.client.errors import RejectedError
from windlass.client.upload.items import Item, part_name
from windlass.client.upload.target import RESUME_HINT, Access, FileState, FileTransfer, PathType, hasher_of


class LocalTarget:
    """A local directory, which must exist."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def where(self) -> str:
        return str(self._root)

    async def file_states(self, items: Sequence[Item]) -> Sequence[FileState]:
        with self._converting_errors("cannot read the target"):
            return await asyncio.to_thread(lambda: [self._file_state(item) for item in items])

    async def folder_access(self, folders: Sequence[str]) -> Sequence[Access]:
        with self._converting_errors("cannot read the target"):
            return await asyncio.to_thread(lambda: [_access(self._root / folder) for folder in folders])

    async def free_space(self) -> int | None:
        with self._converting_errors("cannot read the target"):
            return (await asyncio.to_thread(shutil.disk_usage, self._root)).free

    async def create_folders(self, folders: Sequence[str]) -> None:
        for folder in folders:
            with self._converting_errors(f"cannot create {folder}"):
                (self._root / folder).mkdir(exist_ok=True)

    async def write(self, transfer: FileTransfer) -> None:
        with self._locked_part(transfer.item) as file:
            if os.fstat(file.fileno()).st_size > transfer.offset:
                file.truncate(transfer.offset)
            file.seek(transfer.offset)
            async for chunk in transfer.chunks():
                await asyncio.to_thread(_write, file, chunk)

    async def write_batch(self, transfers: Sequence[FileTransfer]) -> None:
        for transfer in transfers:
            await self.write(transfer)

    async def finish(self, transfers: Sequence[FileTransfer]) -> Sequence[bool]:
        return await asyncio.to_thread(lambda: [self._finish_file(each) for each in transfers])

    def _file_state(self, item: Item) -> FileState:
        target, part = self._root / item.name, self._root / part_name(item.name)
        path_type, digest, part_size, part_digest = _path_type(target), "", 0, ""
        with contextlib.suppress(OSError):
            if path_type is PathType.FILE and target.stat().st_size == item.size:
                digest = hasher_of(str(target)).hexdigest()
        with contextlib.suppress(OSError):
            part_size = part.stat().st_size
            part_digest = hasher_of(str(part)).hexdigest() if 0 < part_size <= item.size else ""
        return FileState(path_type, digest, part_size, part_digest)

    def _finish_file(self, transfer: FileTransfer) -> bool:
        part = self._root / part_name(transfer.item.name)
        with self._locked_part(transfer.item) as file:
            if hasher_of(str(part)).hexdigest() != transfer.digest:
                part.unlink()
                return False
            os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # not every share supports permissions
                part.chmod(transfer.item.mode)
            part.replace(self._root / transfer.item.name)
            return True

    @contextlib.contextmanager
    def _locked_part(self, item: Item) -> Iterator[IO[bytes]]:
        """Open the partial file, locked against a second upload of the same file.

        The file is unbuffered, so that no received data is lost if the process is killed.
        """
        part = self._root / part_name(item.name)
        with (
            self._converting_errors(f"cannot write {item.name}"),
            os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0) as file,
        ):
            if not _lock(file) or not _has_name(part, file):
                raise RejectedError(
                    f"{self.where}: another upload is writing {part.name}. Wait until it is done. {RESUME_HINT}"
                )
            yield file

    @contextlib.contextmanager
    def _converting_errors(self, message: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise RejectedError(
                    f"{self.where}: {message}: no space left. Partial files are kept. Free some space. {RESUME_HINT}"
                ) from error
            raise RejectedError(
                f"{self.where}: {message}: {error.strerror or error}. {RESUME_HINT}"
            ) from error


def _lock(file: IO[bytes]) -> bool:
    """Lock the file until it is closed. Return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # the share does not support locks
    return True


def _has_name(path: Path, file: IO[bytes]) -> bool:
    """Return whether the open file still has this name. It is renamed when it is complete."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _write(file: IO[bytes], chunk: bytes) -> None:
    """Write all bytes: a nearly full disk may accept only some of them at first."""
    unwritten = memoryview(chunk)
    while unwritten:
        unwritten = unwritten[file.write(unwritten) :]


def _access(folder: Path) -> Access:
    match _path_type(folder):
        case PathType.NOTHING:
            return Access.USABLE
        case PathType.FOLDER:
            return Access.USABLE if os.access(folder, os.W_OK | os.X_OK) else Access.NOT_WRITABLE
    return Access.NOT_A_DIRECTORY


def _path_type(path: Path) -> PathType:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return PathType.NOTHING
    if stat.S_ISREG(mode):
        return PathType.FILE
    return PathType.FOLDER if stat.S_ISDIR(mode) else PathType.OTHER
