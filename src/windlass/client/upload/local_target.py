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

from windlass.client.errors import ObjectNotFoundError, RejectedError
from windlass.client.upload.items import Item, part_name
from windlass.client.upload.target import (
    RESUME_HINT,
    Access,
    Checked,
    Found,
    Kind,
    Reading,
    blocking_reason,
    digest_of,
)


class LocalTarget:
    """The root directory must exist: otherwise an unmounted share would be written to the local disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def where(self) -> str:
        return str(self._root)

    def check(self) -> None:
        """Raises ClientError."""
        if not self._root.exists():
            raise ObjectNotFoundError(
                f"{self._root} does not exist. Mount the share there, or create the directory if it is a local one."
            )

    async def file_states(self, items: Sequence[Item]) -> Sequence[Found]:
        with self._explaining("cannot read the target"):
            return await asyncio.to_thread(lambda: [self._found(item) for item in items])

    async def blocking_reasons(self, folders: Sequence[str]) -> Sequence[str]:
        with self._explaining("cannot read the target"):
            found = await asyncio.to_thread(lambda: [self._access(folder) for folder in folders])
        said = (
            blocking_reason(self.where, folder, access) for folder, access in zip(folders, found, strict=True)
        )
        return [each for each in said if each is not None]

    async def free_space(self) -> int | None:
        return (await asyncio.to_thread(shutil.disk_usage, self._root)).free

    async def create_folders(self, folders: Sequence[str]) -> None:
        for folder in folders:
            with self._explaining(f"cannot create {folder}"):
                (self._root / folder).mkdir(exist_ok=True)

    async def write(self, reading: Reading) -> None:
        part = self._root / part_name(reading.item.name)
        explaining = self._explaining(f"cannot write {reading.item.name}")
        with explaining, self._locked_part(part) as file:
            if os.fstat(file.fileno()).st_size > reading.at:
                file.truncate(reading.at)
            file.seek(reading.at)
            async for piece in reading.pieces():
                await asyncio.to_thread(_write, file, piece)

    async def write_batch(self, readings: Sequence[Reading]) -> None:
        for reading in readings:
            await self.write(reading)

    async def finish(self, checked: Sequence[Checked]) -> Sequence[bool]:
        return await asyncio.to_thread(lambda: [self._finish_file(each) for each in checked])

    def _found(self, item: Item) -> Found:
        target, part = self._root / item.name, self._root / part_name(item.name)
        kind, size, digest, part_size, part_digest = _kind(target), -1, "", 0, ""
        if kind is Kind.FILE:
            size = target.stat().st_size
        with contextlib.suppress(OSError):
            if size == item.size:
                digest = digest_of(str(target)).hexdigest()
        with contextlib.suppress(OSError):
            part_size = part.stat().st_size
            part_digest = digest_of(str(part)).hexdigest() if 0 < part_size <= item.size else ""
        return Found(kind, digest, part_size, part_digest)

    def _finish_file(self, checked: Checked) -> bool:
        name = checked.item.name
        part = self._root / part_name(name)
        with self._explaining(f"cannot write {name}"), self._locked_part(part) as file:
            is_right = digest_of(str(part)).hexdigest() == checked.digest
            if not is_right:
                part.unlink()
                return False
            os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # not every share has permissions
                part.chmod(checked.item.mode)
            part.replace(self._root / name)
            return True

    def _access(self, folder: str) -> Access:
        path = self._root / folder
        match _kind(path):
            case Kind.NOTHING:
                return Access.FINE
            case Kind.FOLDER:
                return Access.FINE if os.access(path, os.W_OK | os.X_OK) else Access.CLOSED
            case Kind.FILE | Kind.OTHER:
                return Access.TAKEN

    @contextlib.contextmanager
    def _locked_part(self, part: Path) -> Iterator[IO[bytes]]:
        """Open the partial file, locked against a second upload of the same file.

        It is unbuffered, so that everything received is on disk if the process is killed.
        """
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0) as file:
            is_ours = _locked(file) and _has_name(part, file)
            if not is_ours:
                raise RejectedError(
                    f"{self.where}: another upload is writing {part.name}. Wait until it is done. {RESUME_HINT}"
                )
            yield file

    @contextlib.contextmanager
    def _explaining(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise RejectedError(
                    f"{self.where}: {what}: no space left. Partial files are kept. Free some space. {RESUME_HINT}"
                ) from error
            raise RejectedError(f"{self.where}: {what}: {error.strerror or error}. {RESUME_HINT}") from error


def _locked(file: IO[bytes]) -> bool:
    """Lock the file until it is closed. A share without locks counts as locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _has_name(path: Path, file: IO[bytes]) -> bool:
    """Return whether the open file still has this name. It is renamed when it is complete."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _write(file: IO[bytes], piece: bytes) -> None:
    """Write all bytes: a nearly full disk may accept only some of them at first."""
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


def _kind(path: Path) -> Kind:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return Kind.NOTHING
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER
