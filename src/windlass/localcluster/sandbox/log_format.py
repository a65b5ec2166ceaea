"""A container's log: lines of `time stream P|F text`, as every container runtime writes them, and which part is wanted.

`F` ends a line and `P` is a part of one. Times are counted in nanoseconds since 1970, which is more than a datetime can
hold. A container may write as fast as it can, so everything here is done for many lines at once. Files are read and
written elsewhere.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

LONGEST_PART = 16 * 1024
# What stands before the text: `2016-10-06T00:17:09.669794202Z stdout F `.
HEADER_BYTES = 40

# What is no such line, one that a full disk cut, say, is passed over.
_LINE = re.compile(
    rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (?:stdout|stderr) ([PF]) (.*)\n", re.MULTILINE
)
_SECOND = 10**9
_ROTATED_FORMAT = "%Y%m%d-%H%M%S.%f"
_ROTATED = re.compile(r"\.\d{8}-\d{6}\.\d{6}")


class Selection(msgspec.Struct, frozen=True):
    """Which lines are wanted, and how they are shown. The last lines are counted first, then the time is looked at."""

    tail_lines: int | None = None
    since: int | None = None
    timestamps: bool = False


def nanoseconds(moment: datetime) -> int:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (moment - epoch) // timedelta(microseconds=1) * 1000


def since(now: datetime, seconds: int | None, moment: datetime | None) -> int | None:
    """From `sinceSeconds` or `sinceTime`, of which at most one is given. No log is older than 1970."""
    if seconds is not None:
        return max(nanoseconds(now) - seconds * _SECOND, 0)
    return None if moment is None else max(nanoseconds(moment), 0)


def written_time(at: int) -> str:
    """`2016-10-06T00:17:09.669794202Z`, always with nine digits, so that times sort as text."""
    second, rest = divmod(at, _SECOND)
    # Not strftime, which does not write four digits for every year everywhere.
    return f"{datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()}.{rest:09}Z"


def encoded(text: bytes, stream: str, at: int) -> bytes:
    """One line."""
    return _header(stream, at, "F") + text + b"\n"


def encoded_output(rest: bytes, chunk: bytes, stream: str, at: int) -> tuple[bytes, bytes]:
    """The lines that a chunk of a container's output completes, and what remains for the next chunk.

    A line that is too long is written in parts, where it is cut for any chunks that it comes in.
    """
    output = rest + chunk
    pieces: list[bytes] = []
    first = position = 0
    while True:
        line_end = output.rfind(b"\n", position, position + LONGEST_PART + 1)
        if line_end >= 0:
            position = line_end + 1
        elif len(output) - position <= LONGEST_PART:
            break
        else:
            part = output[position : position + LONGEST_PART]
            pieces += (
                _encoded_lines(output[first:position], stream, at),
                _header(stream, at, "P"),
                part,
                b"\n",
            )
            first = position = position + LONGEST_PART
    pieces.append(_encoded_lines(output[first:position], stream, at))
    return b"".join(pieces), output[position:]


def encoded_end(rest: bytes, stream: str, at: int) -> bytes:
    """A last line without a line end stays without one."""
    return _header(stream, at, "P") + rest + b"\n" if rest else b""


def _encoded_lines(lines: bytes, stream: str, at: int) -> bytes:
    """Whole lines, of which none is too long."""
    if not lines:
        return b""
    header = _header(stream, at, "F")
    texts = lines.replace(b"\r\n", b"\n")[:-1]
    return b"".join((header, texts.replace(b"\n", b"\n" + header), b"\n"))


def _header(stream: str, at: int, tag: str) -> bytes:
    return f"{written_time(at)} {stream} {tag} ".encode()


def output_bytes(lines: bytes) -> int:
    """How much output is in these lines of a log, which are whole."""
    return len(lines) - HEADER_BYTES * lines.count(b"\n")


def shown(lines: bytes, wanted: Selection, *, begins_line: bool = True) -> tuple[bytes, bool]:
    """What is wanted of some whole lines of a log, and whether what follows them begins a line."""
    earliest = b"" if wanted.since is None else written_time(wanted.since).encode()
    pieces: list[bytes] = []
    for time, tag, text in _LINE.findall(lines):
        if time < earliest:
            continue
        if wanted.timestamps and begins_line:
            pieces += time, b" "
        pieces.append(text)
        begins_line = tag == b"F"
        if begins_line:
            pieces.append(b"\n")
    return b"".join(pieces), begins_line


def starts(lines: bytes) -> list[tuple[int, bool]]:
    """Where each line of the log, whole or a part of one, starts, and whether it is a part."""
    return [(match.start(), match[2] == b"P") for match in _LINE.finditer(lines)]


def file_name(restart_count: int) -> str:
    return f"{restart_count}.log"


def rotated_name(names: Iterable[str], name: str, now: datetime) -> str:
    """Sorted after all that are there: a clock may be turned back, and be slower than a busy container."""
    before = rotated_names(names, name)
    moment = now.astimezone(UTC)
    if before:
        latest = datetime.strptime(before[-1][len(name) + 1 :], _ROTATED_FORMAT).replace(tzinfo=UTC)
        moment = max(moment, latest + timedelta(microseconds=1))
    return f"{name}.{moment:{_ROTATED_FORMAT}}"


def rotated_names(names: Iterable[str], name: str) -> tuple[str, ...]:
    """The files that a log was moved to, oldest first."""
    found = [each for each in names if each.startswith(name) and _ROTATED.fullmatch(each[len(name) :])]
    return tuple(sorted(found))


def names_to_remove(names: Iterable[str], name: str, most_files: int) -> tuple[str, ...]:
    """The oldest, so that with the current one no more than `most_files` remain."""
    rotated = rotated_names(names, name)
    return rotated[: max(len(rotated) - max(most_files - 1, 0), 0)]
