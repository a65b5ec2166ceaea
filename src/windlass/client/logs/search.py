"""Search the logs of a job in one pass, without keeping them in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping

import msgspec

from windlass.client.logs.lines import Line
from windlass.k8s import patterns
from windlass.model import tracebacks

MAX_FOUND = 200
MAX_TEXT_BYTES = 2_000
"""Size to which the text of a found line is shortened."""


_ERROR = patterns.LineTest(tracebacks.ERROR_WORDS)


class FoundLine(msgspec.Struct, frozen=True):
    task: str
    time: str
    text: str
    line: int
    """Number of the line in the log of its task, counted from 1."""


class SearchResult(msgspec.Struct, frozen=True, rename="camel"):
    total: int
    """Number of matching lines."""
    by_task: Mapping[str, int]
    first: tuple[FoundLine, ...]
    first_error: FoundLine | None
    """The first line that mentions an error, whether it matches or not."""
    scanned_bytes: int


async def search(batches: AsyncIterator[list[Line]], text: str, *, is_regex: bool = False) -> SearchResult:
    """Search for a text, or for a regular expression of RE2, regardless of case. Raises PatternError.

    An empty text matches no line. The lines of a batch belong to one log.
    """
    wanted = patterns.LineTest(text, is_regex=is_regex) if text else None
    counts: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    found: list[FoundLine] = []
    first_error: FoundLine | None = None
    continued: set[str] = set()
    """Logs whose last line continues in the next batch."""
    scanned = 0
    async for batch in batches:
        data = b"\n".join([line.data for line in batch])
        scanned += len(data) + 1
        label = batch[0].label
        number = numbers[label] - (label in continued)
        may_match = wanted is not None and wanted.may_match(data)
        may_have_error = first_error is None and _ERROR.may_match(data)
        if may_match or may_have_error:
            at = number
            for line in batch:
                at += 1
                if wanted is not None and may_match and wanted.matches(line.data):
                    counts[line.task] += 1
                    if len(found) < MAX_FOUND:
                        found.append(_found(line, at))
                if first_error is None and may_have_error and tracebacks.mentions_error(_shortened(line)):
                    first_error = _found(line, at)
                at -= not line.is_ended
        continued.discard(label)
        if not batch[-1].is_ended:
            continued.add(label)
        numbers[label] = number + sum(line.is_ended for line in batch) + (not batch[-1].is_ended)
    return SearchResult(counts.total(), dict(counts), tuple(found), first_error, scanned)


def _found(line: Line, number: int) -> FoundLine:
    return FoundLine(line.task, line.time, _shortened(line), number)


def _shortened(line: Line) -> str:
    return line.data[:MAX_TEXT_BYTES].decode("utf-8", "replace")
