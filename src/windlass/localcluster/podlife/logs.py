"""A container's log: lines of `time stream P|F text`, as every container runtime writes them, and which part is wanted.

`F` ends a line and `P` is a part of one. Times are counted in nanoseconds since 1970, which is more than a datetime can
hold. Files are read and written elsewhere.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

LONGEST_PART = 16 * 1024

_LINE = re.compile(rb"(\S+) (stdout|stderr) ([PF])(?::\S*)? ([^\n]*)\n?")
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_SECOND = 10**9
_ROTATED = re.compile(r"\.\d{8}-\d{6}\.\d{6}")


class LogLine(msgspec.Struct, frozen=True):
    at: int
    stream: str
    text: bytes
    is_partial: bool = False


class Selection(msgspec.Struct, frozen=True):
    """Which lines are wanted, and how they are shown. `since` is a time as in `LogLine.at`."""

    tail_lines: int | None = None
    since: int | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


def nanoseconds(moment: datetime) -> int:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (moment - epoch) // timedelta(microseconds=1) * 1000


def since(now: datetime, seconds: int | None, moment: datetime | None) -> int | None:
    """From `sinceSeconds` or `sinceTime`, of which at most one is given."""
    if seconds is not None:
        return nanoseconds(now) - seconds * _SECOND
    return None if moment is None else nanoseconds(moment)


def written_time(at: int) -> str:
    """`2016-10-06T00:17:09.669794202Z`, always with nine digits, so that times sort as text."""
    second, rest = divmod(at, _SECOND)
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def read_time(text: bytes) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat((match[1] + match[3]).decode())
    except ValueError:
        return None
    return nanoseconds(moment) + int((match[2] or b"").ljust(9, b"0"))


def encoded(line: LogLine) -> bytes:
    tag = "P" if line.is_partial else "F"
    return f"{written_time(line.at)} {line.stream} {tag} ".encode() + line.text + b"\n"


def decoded(line: bytes) -> LogLine | None:
    """None for what is no such line: a line that a full disk cut, say, is passed over."""
    match = _LINE.fullmatch(line)
    at = read_time(match[1]) if match else None
    if match is None or at is None:
        return None
    return LogLine(at, match[2].decode(), match[4], is_partial=match[3] == b"P")


def from_output(rest: bytes, chunk: bytes, stream: str, at: int) -> tuple[tuple[LogLine, ...], bytes]:
    """The lines that a chunk of a container's output completes, and what remains for the next chunk."""
    *complete, rest = (rest + chunk).split(b"\n")
    lines = [part for text in complete for part in _parts(text.removesuffix(b"\r"), stream, at)]
    while len(rest) > LONGEST_PART:
        lines.append(LogLine(at, stream, rest[:LONGEST_PART], is_partial=True))
        rest = rest[LONGEST_PART:]
    return tuple(lines), rest


def at_end_of_output(rest: bytes, stream: str, at: int) -> tuple[LogLine, ...]:
    """A last line without a line end stays without one."""
    return (LogLine(at, stream, rest, is_partial=True),) if rest else ()


def _parts(text: bytes, stream: str, at: int) -> Iterator[LogLine]:
    while len(text) > LONGEST_PART:
        yield LogLine(at, stream, text[:LONGEST_PART], is_partial=True)
        text = text[LONGEST_PART:]
    yield LogLine(at, stream, text)


def from_chunk(rest: bytes, chunk: bytes) -> tuple[tuple[LogLine, ...], bytes]:
    """The lines that a chunk of a log file completes, and what remains for the next chunk."""
    *complete, rest = (rest + chunk).split(b"\n")
    lines = (decoded(line) for line in complete)
    return tuple(line for line in lines if line is not None), rest


def selected(lines: Iterable[LogLine], wanted: Selection) -> Iterator[bytes]:
    """The text that is wanted, piece by piece. The last lines are counted first, then the time is looked at."""
    chosen = lines if wanted.tail_lines is None else _tail(lines, wanted.tail_lines)
    left = wanted.limit_bytes
    for text in _shown(chosen, wanted):
        piece = text if left is None else text[:left]
        if piece:
            yield piece
        left = None if left is None else left - len(piece)
        if left == 0:
            return


def _shown(lines: Iterable[LogLine], wanted: Selection) -> Iterator[bytes]:
    begins_line = True
    for line in lines:
        if wanted.since is not None and line.at < wanted.since:
            continue
        prefix = written_time(line.at).encode() + b" " if wanted.timestamps and begins_line else b""
        yield prefix + line.text + (b"" if line.is_partial else b"\n")
        begins_line = not line.is_partial


def _tail(lines: Iterable[LogLine], count: int) -> Iterator[LogLine]:
    """The last lines, each with all its parts."""
    if count == 0:
        return
    kept: deque[list[LogLine]] = deque(maxlen=count)
    ended = True
    for line in lines:
        if ended:
            kept.append([])
        kept[-1].append(line)
        ended = not line.is_partial
    for parts in kept:
        yield from parts


def file_name(restart_count: int) -> str:
    return f"{restart_count}.log"


def rotated_name(name: str, now: datetime) -> str:
    """Down to the microsecond: a busy container fills more than one file in a second."""
    return f"{name}.{now.astimezone(UTC):%Y%m%d-%H%M%S.%f}"


def rotated_names(names: Iterable[str], name: str) -> tuple[str, ...]:
    """The files that a log was moved to, oldest first."""
    found = [each for each in names if each.startswith(name) and _ROTATED.fullmatch(each[len(name) :])]
    return tuple(sorted(found))


def names_to_remove(names: Iterable[str], name: str, most_files: int) -> tuple[str, ...]:
    """The oldest, so that with the current one no more than `most_files` remain."""
    rotated = rotated_names(names, name)
    return rotated[: max(len(rotated) - max(most_files - 1, 0), 0)]
