"""Upload to a local directory, e.g. a mounted share.

Other users may be able to write to a share. They could redirect an upload by links, or change a partial file of theirs
that is continued. Links below the root are therefore not followed, and partial files of other users not continued.
"""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from windlass.client.errors import RejectedError
from windlass.client.upload.items import Item, part_name
from windlass.client.upload.target import RESUME_HINT, Access, FileState, FileTransfer, PathType, hasher_of

_FOLDER_FLAGS = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""O_PATH requires no read permission. Only Linux has it."""
_SQUASHED_UID = 65534
"""Owner of the files that root creates on an NFS share with root_squash."""


class LocalTarget:
    """A local directory, which must exist."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._created: set[tuple[int, int]] = set()
        """Device and inode of the partial files that this upload created."""

    @property
    def where(self) -> str:
        return str(self._root)

    async def file_states(self, items: Sequence[Item]) -> Sequence[FileState]:
        with self._converting_errors("cannot read the target"):
            return await asyncio.to_thread(lambda: [self._file_state(item) for item in items])

    async def folder_access(self, folders: Sequence[str]) -> Sequence[Access]:
        with self._converting_errors("cannot read the target"):
            return await asyncio.to_thread(lambda: [self._access(folder) for folder in folders])

    async def free_space(self) -> int | None:
        with self._converting_errors("cannot read the target"):
            return (await asyncio.to_thread(shutil.disk_usage, self._root)).free

    async def create_folders(self, folders: Sequence[str]) -> None:
        for folder in folders:
            with (
                self._converting_errors(f"cannot create {folder}"),
                self._parent(folder) as parent,
                contextlib.suppress(FileExistsError),
            ):
                os.mkdir(PurePosixPath(folder).name, dir_fd=parent)

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
            info = target.lstat()
            if stat.S_ISREG(info.st_mode) and info.st_size == item.size:
                digest = hasher_of(str(target)).hexdigest()
        with contextlib.suppress(OSError):
            info = part.lstat()
            part_size = info.st_size if stat.S_ISREG(info.st_mode) and _is_own(info) else 0
            part_digest = hasher_of(str(part)).hexdigest() if 0 < part_size <= item.size else ""
        return FileState(path_type, digest, part_size, part_digest)

    def _finish_file(self, transfer: FileTransfer) -> bool:
        name = PurePosixPath(transfer.item.name).name
        part = PurePosixPath(part_name(transfer.item.name)).name
        with self._locked_part(transfer.item) as file, self._parent(transfer.item.name) as parent:
            if hashlib.file_digest(file, "sha256").hexdigest() != transfer.digest:  # type: ignore[arg-type]
                os.unlink(part, dir_fd=parent)
                return False
            os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # not every share supports permissions
                os.fchmod(file.fileno(), transfer.item.mode)
            os.replace(part, name, src_dir_fd=parent, dst_dir_fd=parent)
            return True

    @contextlib.contextmanager
    def _locked_part(self, item: Item) -> Iterator[IO[bytes]]:
        """Open the partial file, locked against a second upload of the same file.

        The file is unbuffered, so that no received data is lost if the process is killed.
        """
        part = PurePosixPath(part_name(item.name)).name
        with (
            self._converting_errors(f"cannot write {item.name}"),
            self._parent(item.name) as parent,
            os.fdopen(self._open_part(part, parent), "r+b", buffering=0) as file,
        ):
            if not _lock(file) or not _has_name(part, parent, file):
                raise RejectedError(
                    f"{self.where}: another upload is writing {part}. Wait until it is done. {RESUME_HINT}"
                )
            info = os.fstat(file.fileno())
            if not _is_own(info) and (info.st_dev, info.st_ino) not in self._created:
                raise RejectedError(
                    f"{self.where}: {part} belongs to another user (UID {info.st_uid}) or has several hard links. "
                    f"Remove it. {RESUME_HINT}"
                )
            yield file

    def _open_part(self, part: str, parent: int) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(part, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=parent)
        except FileExistsError:
            if not stat.S_ISREG(os.stat(part, dir_fd=parent, follow_symlinks=False).st_mode):
                raise RejectedError(
                    f"{self.where}: {part} is a link or not a regular file. Remove it. {RESUME_HINT}"
                ) from None
            return os.open(part, flags, dir_fd=parent)
        info = os.fstat(descriptor)
        self._created.add((info.st_dev, info.st_ino))
        return descriptor

    @contextlib.contextmanager
    def _parent(self, name: str) -> Iterator[int]:
        """Open the folder of a path without following links below the root."""
        descriptor = os.open(self._root, _FOLDER_FLAGS)
        try:
            for folder in PurePosixPath(name).parent.parts:
                inner = os.open(folder, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _access(self, folder: str) -> Access:
        path = self._root / folder
        if folder and path.is_symlink():
            return Access.LINK
        match _path_type(path):
            case PathType.NOTHING:
                return Access.USABLE
            case PathType.FOLDER:
                return Access.USABLE if os.access(path, os.W_OK | os.X_OK) else Access.NOT_WRITABLE
        return Access.NOT_A_DIRECTORY

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


def _has_name(name: str, folder: int, file: IO[bytes]) -> bool:
    """Return whether the open file still has this name. It is renamed when it is complete."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file.fileno()))


def _is_own(info: os.stat_result) -> bool:
    """Return whether only this user can have written the file: it is the owner, and there are no other hard links."""
    owners = (os.geteuid(), *((_SQUASHED_UID,) if os.geteuid() == 0 else ()))
    return info.st_uid in owners and info.st_nlink == 1


def _write(file: IO[bytes], chunk: bytes) -> None:
    """Write all bytes: a nearly full disk may accept only some of them at first."""
    unwritten = memoryview(chunk)
    while unwritten:
        unwritten = unwritten[file.write(unwritten) :]


def _path_type(path: Path) -> PathType:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return PathType.NOTHING
    if stat.S_ISREG(mode):
        return PathType.FILE
    return PathType.FOLDER if stat.S_ISDIR(mode) else PathType.OTHER
