"""Split the bytes of a container log into lines with timestamps, and keep the read position, without I/O."""

import re
from datetime import datetime

import msgspec

MAX_PIECE_BYTES = 1024 * 1024
"""Maximum size of an incomplete line that is held back. A longer one is returned in several pieces."""

_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_PART_TIMESTAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d) ")
_PART_BYTES = 16 * 1024
"""Size of the parts in which containerd and Docker store longer lines."""
_NANOSECONDS = 10**9


class Line(msgspec.Struct, frozen=True):
    """One line that a container wrote, or a part of a very long line."""

    task: str
    """Role and index: `worker-1`."""
    container: str
    attempt: int
    """Attempt of the task, counted from 0 within the attempt of the job."""
    data: bytes
    """The bytes that the container wrote, without the line end."""
    time: str = ""
    """Timestamp of the line (RFC 3339); empty if the log was requested without timestamps."""
    is_ended: bool = True
    """Whether the line ends here: False before a further part, or if the log ends in the middle of a line."""
    label: str = ""
    """The task, and the container if several containers of the pod are read."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class LineBuffer:
    """Holds back incomplete lines of a stream. A line that is longer than the buffer is returned in several parts."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the complete lines, and the incomplete last line so far if it is too long to hold back."""
        data = self._rest + chunk
        end = data.rfind(b"\n") + 1
        if len(data) - end > self._max_bytes:
            end = character_boundary(data, len(data))
        self._rest = data[end:]
        return data[:end]

    def end(self) -> bytes:
        """Return the incomplete last line; empty if there is none."""
        rest, self._rest = self._rest, b""
        return rest


def character_boundary(data: bytes, end: int) -> int:
    """Return the last position up to `end` that is not within a character of UTF-8."""
    for at in range(end - 1, max(end - 4, -1), -1):
        is_first_byte = data[at] >= 0xC0
        if is_first_byte:
            length = 2 + (data[at] >= 0xE0) + (data[at] >= 0xF0)
            return at if at + length > end else end
        if data[at] < 0x80:
            break
    return end


class Piece(msgspec.Struct, frozen=True):
    """A line, or a part of a very long line."""

    data: bytes
    is_continuation: bool
    """Whether the piece continues the previous one."""
    is_ended: bool


class Splitter:
    """Splits chunks of any size into lines, including empty ones."""

    def __init__(self, max_bytes: int = MAX_PIECE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest: list[bytes] = []
        """Parts of the incomplete last line. They are joined only once, since a line may have many."""
        self._rest_bytes = 0
        self._is_continuation = False

    def feed(self, chunk: bytes) -> list[Piece]:
        self._rest.append(chunk)
        self._rest_bytes += len(chunk)
        if b"\n" not in chunk and self._rest_bytes <= self._max_bytes:
            return []
        *lines, rest = b"".join(self._rest).split(b"\n")
        pieces = [self._piece(line, is_ended=True) for line in lines]
        while len(rest) > self._max_bytes:
            end = character_boundary(rest, self._max_bytes)
            pieces.append(self._piece(rest[:end], is_ended=False))
            rest = rest[end:]
        self._rest, self._rest_bytes = [rest], len(rest)
        return pieces

    def end(self) -> list[Piece]:
        """Return the incomplete last line, if any."""
        rest, self._rest, self._rest_bytes = b"".join(self._rest), [], 0
        return [self._piece(rest, is_ended=False)] if rest else []

    def _piece(self, data: bytes, *, is_ended: bool) -> Piece:
        piece = Piece(data, self._is_continuation, is_ended)
        self._is_continuation = not is_ended
        return piece


def split_timestamp(data: bytes) -> tuple[bytes, bytes]:
    """Split a line into its timestamp and the rest. The timestamp is empty if there is none."""
    found = _TIMESTAMP.match(data)
    return (data[: found.end() - 1], data[found.end() :]) if found else (b"", data)


def without_part_timestamps(line: bytes) -> bytes:
    """Remove the timestamps that old kubelets put before each part of a long line, not only before the first.

    Only the first piece of a line longer than `MAX_PIECE_BYTES` is corrected.
    """
    if len(line) <= _PART_BYTES:
        return line
    parts, at = [], 0
    while found := _PART_TIMESTAMP.match(line, at + _PART_BYTES):
        parts.append(line[at : at + _PART_BYTES])
        at = found.end()
    return b"".join([*parts, line[at:]]) if parts else line


def nanoseconds(stamp: bytes) -> int:
    """Return the nanoseconds since 1970; 0 without a timestamp.

    A datetime has only microseconds, and Go omits trailing zeros.
    """
    found = _TIMESTAMP.match(stamp + b" ")
    if found is None:
        return 0
    second = datetime.fromisoformat((found[1] + found[3].replace(b"Z", b"+00:00")).decode())
    fraction = (found[2] or b"").ljust(9, b"0")
    return int(second.timestamp()) * _NANOSECONDS + int(fraction)


class Cursor:
    """The read position in a log, for resuming without repeated or missing lines.

    `sinceTime` has a resolution of seconds, and several lines may have the same timestamp. Repeated lines are
    recognized by their timestamps, and those with the last timestamp by counting them.
    """

    def __init__(self) -> None:
        self._stamp = b""
        """Timestamp of the last line that was read."""
        self._count = 0
        """Number of lines that were read with this timestamp."""
        self._repeated = 0
        """Number of these lines that were received again since reading was resumed."""
        self._is_catching_up = False
        self.has_gap = False
        """Whether the last response did not repeat the last line that was read, so that lines may be missing."""

    @property
    def has_started(self) -> bool:
        return bool(self._stamp)

    @property
    def position(self) -> tuple[bytes, int]:
        """A value that changes with each new line."""
        return self._stamp, self._count

    @property
    def since(self) -> str:
        """The value for `sinceTime`."""
        found = _TIMESTAMP.match(self._stamp + b" ")
        return (found[1] + found[3]).decode() if found else ""

    def resume(self) -> None:
        """Expect a response that repeats the lines from `since` on."""
        self._is_catching_up = self.has_started
        self.has_gap = False
        self._repeated = 0

    def advance(self, stamp: bytes) -> bool:
        """Return whether a line with this timestamp is new. If so, move the position after it."""
        if self._is_catching_up and self._is_repeated(stamp):
            return False
        self._is_catching_up = False
        self._count = self._count + 1 if stamp == self._stamp else 1
        self._stamp = stamp
        return True

    def _is_repeated(self, stamp: bytes) -> bool:
        if stamp == self._stamp:
            self._repeated += 1
            return self._repeated <= self._count
        # After all repeated lines, a line with an earlier timestamp is new: the clock was set back.
        is_missing = self._repeated < self._count
        is_earlier = nanoseconds(stamp) < nanoseconds(self._stamp)
        self.has_gap = is_missing and not is_earlier
        return is_missing and is_earlier
