"""What comes of a container's log: pieces of any size → lines with their times; and how far it was read. Pure."""

import re
from datetime import datetime

import msgspec

LONGEST_PIECE = 1024 * 1024
"""Bytes of a line that are waited for; what is longer is told in pieces."""

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_INNER_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d) ")
_PART = 16 * 1024
"""containerd and Docker keep a longer line in parts of so many bytes."""
_NANOSECONDS = 10**9


class Line(msgspec.Struct, frozen=True):
    """One line that a container wrote."""

    task: str
    """Role and index: `worker-1`."""
    container: str
    attempt: int
    """Of the task: how often it was tried before, in its attempt of the job."""
    data: bytes
    """As the container wrote it, without the end of the line."""
    time: str = ""
    """When the node read it, as the API server says it (RFC 3339); empty where nobody asked."""
    is_ended: bool = True
    """Whether the end of the line follows. A container may stop in the middle of one."""
    label: str = ""
    """Who wrote it, for people: the task, and the container where its pod has several."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class Piece(msgspec.Struct, frozen=True):
    """A line, or a part of one that is very long."""

    data: bytes
    is_begun: bool
    """It continues what came before."""
    is_ended: bool


class Splitter:
    """Pieces of any size → lines, empty ones included."""

    def __init__(self, longest: int = LONGEST_PIECE) -> None:
        """`longest`: so many bytes of a line are waited for."""
        self._longest = longest
        self._rest = b""
        self._is_begun = False

    def feed(self, chunk: bytes) -> list[Piece]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        pieces = [self._piece(line, is_ended=True) for line in lines]
        while len(self._rest) > self._longest:
            pieces.append(self._piece(self._rest[: self._longest], is_ended=False))
            self._rest = self._rest[self._longest :]
        return pieces

    def end(self) -> list[Piece]:
        """What comes after the last line's end."""
        rest, self._rest = self._rest, b""
        return [self._piece(rest, is_ended=False)] if rest else []

    def _piece(self, data: bytes, *, is_ended: bool) -> Piece:
        piece = Piece(data, self._is_begun, is_ended)
        self._is_begun = not is_ended
        return piece


def stamped(data: bytes) -> tuple[bytes, bytes]:
    """The time that stands before a line, and the line; no time where there is none."""
    found = _STAMP.match(data)
    return (data[: found.end() - 1], data[found.end() :]) if found else (b"", data)


def joined(line: bytes) -> bytes:
    """As the container wrote it: old kubelets put the time before each part of a long line, not only before the first.

    Where a line is longer than `LONGEST_PIECE`, this is known of its first piece only.
    """
    parts, at = [], 0
    while found := _INNER_STAMP.match(line, at + _PART):
        parts.append(line[at : at + _PART])
        at = found.end()
    return b"".join([*parts, line[at:]]) if parts else line


def nanoseconds(stamp: bytes) -> int:
    """Since 1970. A datetime could not hold them, and Go leaves zeros at the end out."""
    found = _STAMP.match(stamp + b" ")
    if found is None:
        return 0
    second = datetime.fromisoformat((found[1] + found[3].replace(b"Z", b"+00:00")).decode())
    fraction = (found[2] or b"").ljust(9, b"0")
    return int(second.timestamp()) * _NANOSECONDS + int(fraction)


class Cursor:
    """How far a log was read, so that who goes on from there repeats nothing and leaves nothing out.

    The API asks by the second, and several lines may have the same time: lines that come again are told by their times,
    and those of the last time by their number.
    """

    def __init__(self) -> None:
        self._stamp = b""
        self._count = 0
        """How many lines of that time were read."""
        self._repeated = 0
        """How many of them came again."""
        self._is_behind = False

    @property
    def has_begun(self) -> bool:
        return bool(self._stamp)

    @property
    def position(self) -> tuple[bytes, int]:
        """Changes when something is read."""
        return self._stamp, self._count

    @property
    def since(self) -> str:
        """From where to ask, for `sinceTime`."""
        found = _STAMP.match(self._stamp + b" ")
        return (found[1] + found[3]).decode() if found else ""

    def resume(self) -> None:
        """What comes next is an answer to `since`."""
        self._is_behind = self.has_begun
        self._repeated = 0

    def takes(self, stamp: bytes) -> bool:
        """Whether a line with that time is new."""
        if self._is_behind and self._is_repeated(stamp):
            return False
        self._is_behind = False
        self._count = self._count + 1 if stamp == self._stamp else 1
        self._stamp = stamp
        return True

    def _is_repeated(self, stamp: bytes) -> bool:
        if stamp == self._stamp:
            self._repeated += 1
            return self._repeated <= self._count
        # After the last one that was read, an earlier time is that of a clock that was set back.
        return self._repeated < self._count and nanoseconds(stamp) < nanoseconds(self._stamp)
