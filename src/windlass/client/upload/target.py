"""What an upload needs of the place that it goes to: a port, of which a folder here and a pod's volume are two ways.

Content arrives in a part beside its place (`upload_items.part_name`) and gets its name only when its checksum is right:
nothing half-written is ever seen under its name.
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

PIECE = 1 << 20
"""Bytes that are read, sent and counted at once."""
GOES_ON = "The same command, run again, goes on where this one ended."


class Kind(StrEnum):
    """What there is under a name."""

    NOTHING = "nothing"
    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"


class Found(msgspec.Struct, frozen=True):
    """What a place has of one file."""

    kind: Kind = Kind.NOTHING
    digest: str = ""
    """Of the file; empty where its size is another, so that it need not be read."""
    part_size: int = 0
    part_digest: str = ""
    """Of what has arrived of it; empty for nothing."""


class Access(StrEnum):
    """Whether a folder can be had."""

    FINE = "fine"
    """It is there and can be written to, or it is not there yet."""
    TAKEN = "taken"
    """By something that is no folder."""
    CLOSED = "closed"
    """Nothing may be written there."""


def blocking_reason(where: str, folder: str, access: Access) -> str | None:
    """In words. The folder "" is the place itself."""
    path = f"{where}/{folder}".rstrip("/")
    match access:
        case Access.FINE:
            return None
        case Access.TAKEN:
            return f"{path} is no folder, and one is needed there: move it away"
        case Access.CLOSED:
            return f"{path} cannot be written to: ask its owner for the right, or choose another share"


class Checked(msgspec.Struct, frozen=True):
    """What a part must be to become a file."""

    item: Item
    digest: str


class Reading:
    """The bytes of one file from somewhere in it to its end: exactly as many as were promised, whatever happens to it.

    Whoever reads a file that shrinks is given zeros: the other side waits for that many bytes. `has_changed` says then
    that they are worth nothing.
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
        """Of the whole file, once it is read."""
        return self._hasher.hexdigest()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Whoever has taken the last may be gone before the end: see `conclude`. Raises ClientError."""
        left = self.left
        with self._explaining():
            file = await asyncio.to_thread(self.item.path.open, "rb")
        with file:
            file.seek(self.at)
            while left:
                with self._explaining():
                    piece = await asyncio.to_thread(self._next, file, min(PIECE, left))
                left -= len(piece)
                yield piece
                self._count(len(piece))

    async def conclude(self) -> None:
        """When all has been written. Raises ClientError."""
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
            said = error.strerror or error
            raise ClientError(f"{self.item.path} cannot be read: {said}. {GOES_ON}") from error

    def _next(self, file: IO[bytes], size: int) -> bytes:
        piece = file.read(size)
        if len(piece) < size:
            self.has_changed = True
            piece = piece.ljust(size, b"\0")
        self._hasher.update(piece)
        return piece


class Place(Protocol):
    """Names are relative to it. What it refuses is a ClientError that says where it is."""

    @property
    def where(self) -> str:
        """As people write it."""

    async def look(self, items: Sequence[Item]) -> Sequence[Found]:
        """What is there of each. Nothing is written."""

    async def blocking_reasons(self, folders: Sequence[str]) -> Sequence[str]:
        """Why these cannot be had: something else has their name, or nothing may be written there."""

    async def room(self) -> int | None:
        """How many bytes it can take; None where nobody knows."""

    async def make(self, folders: Sequence[str]) -> None:
        """All of them, parents first."""

    async def write(self, reading: Reading) -> None:
        """To the end of the part, which has what comes before; or from its beginning."""

    async def write_together(self, readings: Sequence[Reading]) -> None:
        """Many small ones, each from its beginning."""

    async def settle(self, checked: Sequence[Checked]) -> Sequence[bool]:
        """Parts that are as they should be get their names; the others are removed."""


def digest_of(path: str, size: int | None = None) -> "_Hash":
    """Of so much of a file, or of all of it. Raises OSError. What is not there is not counted."""
    hasher = hashlib.sha256()
    with open(path, "rb") as file:  # noqa: PTH123 — names come as they are, also in bytes that are no text
        left = size
        while piece := file.read(PIECE if left is None else min(PIECE, left)):
            hasher.update(piece)
            left = None if left is None else left - len(piece)
    return hasher
