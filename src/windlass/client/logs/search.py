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

    An empty text matches no line.
    """
    matches = patterns.compile_test(text, is_regex=is_regex) if text else _never
    counts: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    found: list[FoundLine] = []
    first_error: FoundLine | None = None
    is_continued: set[str] = set()
    scanned = 0
    async for batch in batches:
        for line in batch:
            scanned += len(line.data) + 1
            if line.label in is_continued:
                is_continued.discard(line.label)
            else:
                numbers[line.label] += 1
            if not line.is_ended:
                is_continued.add(line.label)
            if matches(line.data):
                counts[line.task] += 1
                if len(found) < MAX_FOUND:
                    found.append(_found(line, numbers[line.label]))
            if first_error is None and tracebacks.mentions_error(_shortened(line)):
                first_error = _found(line, numbers[line.label])
    return SearchResult(counts.total(), dict(counts), tuple(found), first_error, scanned)


def _never(_: bytes) -> bool:
    return False


def _found(line: Line, number: int) -> FoundLine:
    return FoundLine(line.task, line.time, _shortened(line), number)


def _shortened(line: Line) -> str:
    return line.data[:MAX_TEXT_BYTES].decode("utf-8", "replace")
