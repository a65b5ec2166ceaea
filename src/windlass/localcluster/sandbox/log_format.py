"""The format of container logs (CRI): lines of `time stream P|F text`, and the selection of lines.

The tag `F` (full) marks a complete line, or the last part of a line that was split. `P` (partial) marks every other
part, and a last line without a newline. Times are nanoseconds since 1970, because a datetime has only microseconds.
Functions process many lines at once, because containers may write fast.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

MAX_PART_BYTES = 16 * 1024
MAX_STATE_BYTES = 4096
"""Maximum length of the state of an incomplete line."""
# Length of the prefix `2016-10-06T00:17:09.669794202Z stdout F `.
HEADER_BYTES = 40

# Other lines, e.g. truncated by a full disk, are skipped.
_LINE = re.compile(
    rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (?:stdout|stderr) ([PF]) (.*)\n", re.MULTILINE
)
_SECOND = 10**9
_ROTATED_FORMAT = "%Y%m%d-%H%M%S.%f"
_ROTATED = re.compile(r"\.\d{8}-\d{6}\.\d{6}")


class Selection(msgspec.Struct, frozen=True):
    """The requested lines and their presentation. `tail_lines` applies before `since`."""

    tail_lines: int | None = None
    since: int | None = None
    timestamps: bool = False


def nanoseconds(moment: datetime) -> int:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (moment - epoch) // timedelta(microseconds=1) * 1000


def since(now: datetime, seconds: int | None, moment: datetime | None) -> int | None:
    """Return the time given by `sinceSeconds` or `sinceTime`, but not before 1970; None if neither is given."""
    if seconds is not None:
        return max(nanoseconds(now) - seconds * _SECOND, 0)
    return None if moment is None else max(nanoseconds(moment), 0)


def format_timestamp(at: int) -> str:
    """Return a time like `2016-10-06T00:17:09.669794202Z`, always with nine digits, so that times sort as text."""
    second, rest = divmod(at, _SECOND)
    # strftime does not write four-digit years on all systems.
    return f"{datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()}.{rest:09}Z"


def encoded(text: bytes, stream: str, at: int) -> bytes:
    """Return one log line."""
    return _header(stream, at, "F") + text + b"\n"


def encoded_output(rest: bytes, chunk: bytes, stream: str, at: int) -> tuple[bytes, bytes]:
    """Return the log lines that a chunk of output completes, and the rest for the next chunk.

    A long line is split into parts at positions that do not depend on the chunks.
    """
    output = rest + chunk
    pieces: list[bytes] = []
    first = position = 0
    while True:
        line_end = output.rfind(b"\n", position, position + MAX_PART_BYTES + 1)
        if line_end >= 0:
            position = line_end + 1
        elif len(output) - position <= MAX_PART_BYTES:
            break
        else:
            part = output[position : position + MAX_PART_BYTES]
            pieces += (
                _encoded_lines(output[first:position], stream, at),
                _header(stream, at, "P"),
                part,
                b"\n",
            )
            first = position = position + MAX_PART_BYTES
    pieces.append(_encoded_lines(output[first:position], stream, at))
    return b"".join(pieces), output[position:]


def encoded_end(rest: bytes, stream: str, at: int) -> bytes:
    """Return the last log line, for output without a final newline."""
    return _header(stream, at, "P") + rest + b"\n" if rest else b""


def _encoded_lines(lines: bytes, stream: str, at: int) -> bytes:
    """Encode complete lines, none of which exceeds the maximum length. A line end `\\r\\n` becomes `\\n`."""
    if not lines:
        return b""
    header = _header(stream, at, "F")
    texts = lines.replace(b"\r\n", b"\n")[:-1]
    return b"".join((header, texts.replace(b"\n", b"\n" + header), b"\n"))


def _header(stream: str, at: int, tag: str) -> bytes:
    return f"{format_timestamp(at)} {stream} {tag} ".encode()


def unfinished_state(rest: bytes) -> bytes:
    """Return the visible part of an incomplete line with carriage returns, e.g. of a progress bar; empty for other
    lines. Each carriage return starts a part that overwrites the previous one."""
    if b"\r" not in rest:
        return b""
    parts = (part.strip() for part in reversed(rest[-MAX_STATE_BYTES:].split(b"\r")))
    return next(filter(None, parts), b"").replace(b"\n", b"")


def unfinished_name(name: str) -> str:
    """Return the name of the file with the current state of the incomplete line of a log. The state ends with
    a newline; the rest of the file is ignored. It is empty if the last line is complete or has no carriage return."""
    return f"{name}.unfinished"


def output_bytes(lines: bytes) -> int:
    """Return the number of bytes of output in complete log lines, including a newline for each log line."""
    return len(lines) - HEADER_BYTES * lines.count(b"\n")


def selected_text(lines: bytes, selection: Selection, *, begins_line: bool = True) -> tuple[bytes, bool]:
    """Return the text of the log lines since `selection.since`, and whether the next log line begins a line of output.

    `begins_line` is whether the first log line begins a line of output.
    """
    earliest = b"" if selection.since is None else format_timestamp(selection.since).encode()
    pieces: list[bytes] = []
    for time, tag, text in _LINE.findall(lines):
        if time < earliest:
            continue
        if selection.timestamps and begins_line:
            pieces += time, b" "
        pieces.append(text)
        begins_line = tag == b"F"
        if begins_line:
            pieces.append(b"\n")
    return b"".join(pieces), begins_line


def log_line_offsets(lines: bytes) -> list[tuple[int, bool]]:
    """Return the offset of each log line, and whether its tag is `P`."""
    return [(match.start(), match[2] == b"P") for match in _LINE.finditer(lines)]


def file_name(restart_count: int) -> str:
    return f"{restart_count}.log"


def rotated_name(names: Iterable[str], name: str, now: datetime) -> str:
    """Return the name for the next rotated file. It sorts after all existing ones, even if the clock is set back."""
    before = rotated_names(names, name)
    moment = now.astimezone(UTC)
    if before:
        latest = datetime.strptime(before[-1][len(name) + 1 :], _ROTATED_FORMAT).replace(tzinfo=UTC)
        moment = max(moment, latest + timedelta(microseconds=1))
    return f"{name}.{moment:{_ROTATED_FORMAT}}"


def rotated_names(names: Iterable[str], name: str) -> tuple[str, ...]:
    """Return the names of the rotated files of a log, oldest first."""
    found = [each for each in names if each.startswith(name) and _ROTATED.fullmatch(each[len(name) :])]
    return tuple(sorted(found))


def names_to_remove(names: Iterable[str], name: str, max_files: int) -> tuple[str, ...]:
    """Return the names of the oldest files to delete, so that at most `max_files` including the current one remain."""
    rotated = rotated_names(names, name)
    return rotated[: max(len(rotated) - max(max_files - 1, 0), 0)]
