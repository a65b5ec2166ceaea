"""The interface of an upload target, which `local_target` and `pod_target` implement.

Content is written to a partial file next to the final path (`items.part_name`). This file is renamed to the final path
after its checksum was verified.
"""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Protocol

import msgspec

from windlass.client.errors import ClientError
from windlass.client.upload.items import FileVersion, Item

if TYPE_CHECKING:
    from hashlib import _Hash

CHUNK_BYTES = 1 << 20
"""Size of the chunks that are read, sent and counted."""
SMALL_BYTES = 1 << 20
"""Files smaller than this are sent in batches, unless they are resumed."""
RESUME_HINT = "Run the same command again to resume the upload."


class PathType(StrEnum):
    """The type of a path on the target; NOTHING if it does not exist."""

    NOTHING = "nothing"
    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"


class FileState(msgspec.Struct, frozen=True):
    """The state of one file on the target."""

    path_type: PathType = PathType.NOTHING
    digest: str = ""
    """Checksum of the file; empty if it does not exist, cannot be read, or does not have the size of the source."""
    part_size: int = 0
    part_digest: str = ""
    """Checksum of the partial file; empty if there is none, or if it is empty or larger than the source."""


class Access(StrEnum):
    """Whether a directory can be used."""

    USABLE = "usable"
    """It is writable, or does not exist yet."""
    NOT_A_DIRECTORY = "not-a-directory"
    LINK = "link"
    """It is a link, which another user of the share could have created."""
    NOT_WRITABLE = "not-writable"


class FileTransfer:
    """Reads exactly `bytes_to_send` bytes of a file, from an offset on.

    If the file has shrunk, zeros are appended, since the receiver expects that many bytes. `has_changed` is true then.
    """

    def __init__(
        self,
        item: Item,
        on_sent: Callable[[str, int], None],
        offset: int = 0,
        hasher: "_Hash | None" = None,
    ) -> None:
        """`offset` is the number of bytes that the target already has; `hasher` has processed these bytes."""
        self.item = item
        self.offset = offset
        self.has_changed = False
        self._hasher = hasher or hashlib.sha256()
        self._on_sent = on_sent
        self._counted = 0

    @property
    def bytes_to_send(self) -> int:
        """Number of bytes to send."""
        return self.item.size - self.offset

    @property
    def is_sent_alone(self) -> bool:
        return self.bytes_to_send > 0 and (self.item.size >= SMALL_BYTES or self.offset > 0)

    @property
    def digest(self) -> str:
        """Checksum of the complete file, after it was read."""
        return self._hasher.hexdigest()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the content. Raises ClientError.

        A consumer that stops after the last chunk does not resume this generator; `conclude` then counts that chunk.
        """
        remaining = self.bytes_to_send
        with self._converting_errors():
            file = await asyncio.to_thread(self.item.path.open, "rb")
        with file:
            file.seek(self.offset)
            while remaining:
                with self._converting_errors():
                    chunk = await asyncio.to_thread(self._read, file, min(CHUNK_BYTES, remaining))
                remaining -= len(chunk)
                yield chunk
                self._count(len(chunk))

    async def conclude(self) -> None:
        """Check whether the file has changed, and count the bytes that are not counted yet. Raises ClientError.

        Called after everything was written.
        """
        with self._converting_errors():
            version = FileVersion.of(await asyncio.to_thread(self.item.path.stat))
        self.has_changed |= version != self.item.version
        self._count(self.bytes_to_send - self._counted)

    def _count(self, size: int) -> None:
        if size:
            self._counted += size
            self._on_sent(self.item.name, size)

    @contextlib.contextmanager
    def _converting_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ClientError(
                f"cannot read {self.item.path}: {error.strerror or error}. {RESUME_HINT}"
            ) from error

    def _read(self, file: IO[bytes], size: int) -> bytes:
        chunk = file.read(size)
        if len(chunk) < size:
            self.has_changed = True
            chunk = chunk.ljust(size, b"\0")
        self._hasher.update(chunk)
        return chunk


class UploadTarget(Protocol):
    """A directory to upload to. Paths are relative to it. Methods raise ClientError with its location."""

    @property
    def where(self) -> str:
        """The location as the user writes it."""

    async def file_states(self, items: Sequence[Item]) -> Sequence[FileState]:
        """Return the state of each file."""

    async def folder_access(self, folders: Sequence[str]) -> Sequence[Access]:
        """Return whether each directory can be used. "" is the root of the target."""

    async def free_space(self) -> int | None:
        """Return the free space in bytes; None if unknown."""

    async def create_folders(self, folders: Sequence[str]) -> None:
        """Create the directories, parents first."""

    async def write(self, transfer: FileTransfer) -> None:
        """Append to the partial file, or write it from the start if the offset is 0."""

    async def write_batch(self, transfers: Sequence[FileTransfer]) -> None:
        """Write many small files, each from its start."""

    async def finish(self, transfers: Sequence[FileTransfer]) -> Sequence[bool]:
        """Rename partial files with the right checksum to their final names, and delete the others.

        Return for each transfer whether its file was renamed.
        """


def hasher_of(path: str, size: int | None = None) -> "_Hash":
    """Return the hasher of the first `size` bytes (default: of the complete file). Raises OSError."""
    hasher = hashlib.sha256()
    with open(path, "rb") as file:  # noqa: PTH123 — names may contain bytes that are not text
        remaining = sys.maxsize if size is None else size
        while chunk := file.read(min(CHUNK_BYTES, remaining)):
            hasher.update(chunk)
            remaining -= len(chunk)
    return hasher
