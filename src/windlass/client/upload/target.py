"""The interface of an upload target, which `local_target` and `pod_target` implement.

Content is written to a partial file next to its target (`items.part_name`) and renamed after its checksum was verified.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Protocol

import msgspec

from windlass.client.errors import ClientError
from windlass.client.upload.items import Item, Stamp

if TYPE_CHECKING:
    from hashlib import _Hash

CHUNK_BYTES = 1 << 20
"""Size of the chunks that are read, sent and counted."""
RESUME_HINT = "Run the same command again to resume the upload."


class Kind(StrEnum):
    """The type of an existing path."""

    NOTHING = "nothing"
    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"


class Found(msgspec.Struct, frozen=True):
    """The state of one file on the target."""

    kind: Kind = Kind.NOTHING
    digest: str = ""
    """Checksum of the file; empty if its size differs, so that it need not be read."""
    part_size: int = 0
    part_digest: str = ""
    """Checksum of the partial file; empty without one."""


class Access(StrEnum):
    """Whether a directory can be used."""

    FINE = "fine"
    """It is writable, or does not exist yet."""
    TAKEN = "taken"
    """Something else has its name."""
    CLOSED = "closed"
    """It is not writable."""


def blocking_reason(where: str, folder: str, access: Access) -> str | None:
    """Return why a directory cannot be used; None if it can. The folder "" is the root of the target."""
    path = f"{where}/{folder}".rstrip("/")
    match access:
        case Access.FINE:
            return None
        case Access.TAKEN:
            return f"{path} must be a directory, but it is not. Move it away."
        case Access.CLOSED:
            return f"{path} is not writable. Ask its owner for permission, or choose another share."


class Checked(msgspec.Struct, frozen=True):
    """A partial file with its expected checksum."""

    item: Item
    digest: str


class Reading:
    """Reads a file from an offset to its end, always exactly the announced number of bytes.

    A file that shrinks meanwhile is padded with zeros, since the receiver expects that many bytes. `has_changed` is
    true then.
    """

    def __init__(
        self, item: Item, at: int, hasher: "_Hash | None", moved: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        self.item = item
        self.at = at
        self.has_changed = False
        self._hasher = hashlib.sha256() if hasher is None else hasher.copy()
        self._moved = moved
        self._counted = 0

    @property
    def left(self) -> int:
        return self.item.size - self.at

    @property
    def digest(self) -> str:
        """Checksum of the whole file, after it was read."""
        return self._hasher.hexdigest()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the content. The consumer may stop after the last chunk: see `conclude`. Raises ClientError."""
        left = self.left
        with self._explaining():
            file = await asyncio.to_thread(self.item.path.open, "rb")
        with file:
            file.seek(self.at)
            while left:
                with self._explaining():
                    piece = await asyncio.to_thread(self._next, file, min(CHUNK_BYTES, left))
                left -= len(piece)
                yield piece
                self._count(len(piece))

    async def conclude(self) -> None:
        """Check for changes after everything was written. Raises ClientError."""
        with self._explaining():
            stamp = Stamp.of(await asyncio.to_thread(self.item.path.stat))
        self.has_changed |= stamp != self.item.stamp
        self._count(self.left - self._counted)

    def _count(self, size: int) -> None:
        if size:
            self._counted += size
            self._moved(self.item.name, size)

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ClientError(
                f"cannot read {self.item.path}: {error.strerror or error}. {RESUME_HINT}"
            ) from error

    def _next(self, file: IO[bytes], size: int) -> bytes:
        piece = file.read(size)
        if len(piece) < size:
            self.has_changed = True
            piece = piece.ljust(size, b"\0")
        self._hasher.update(piece)
        return piece


class UploadTarget(Protocol):
    """Paths are relative to the target. Methods raise ClientError with its location."""

    @property
    def where(self) -> str:
        """The location as the user writes it."""

    async def file_states(self, items: Sequence[Item]) -> Sequence[Found]:
        """Return the state of each file."""

    async def blocking_reasons(self, folders: Sequence[str]) -> Sequence[str]:
        """Return why these directories cannot be used."""

    async def free_space(self) -> int | None:
        """Return the free space in bytes; None if unknown."""

    async def create_folders(self, folders: Sequence[str]) -> None:
        """Create the directories, parents first."""

    async def write(self, reading: Reading) -> None:
        """Append to the partial file, or write it from the start."""

    async def write_batch(self, readings: Sequence[Reading]) -> None:
        """Write many small files, each from its start."""

    async def finish(self, checked: Sequence[Checked]) -> Sequence[bool]:
        """Rename partial files with the right checksum to their targets, and delete the others."""


def digest_of(path: str, size: int | None = None) -> "_Hash":
    """Return the checksum of the first `size` bytes, or of the whole file. Raises OSError."""
    hasher = hashlib.sha256()
    with open(path, "rb") as file:  # noqa: PTH123 — names may contain bytes that are not text
        left = size
        while piece := file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
            hasher.update(piece)
            left = None if left is None else left - len(piece)
    return hasher
