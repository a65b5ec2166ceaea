"""Searching batches of lines: counts, numbers of lines, and long lines in several pieces."""

import asyncio
from collections.abc import AsyncIterator

from windlass.client.logs import search
from windlass.client.logs.lines import Line
from windlass.client.logs.search import SearchResult


def line(task: str, text: str, *, is_ended: bool = True) -> Line:
    return Line(task, "main", 0, text.encode(), "2026-01-01T00:00:00Z", is_ended, task)


def run(text: str, *batches: list[Line], is_regex: bool = False) -> SearchResult:
    async def read() -> AsyncIterator[list[Line]]:
        for batch in batches:
            yield batch

    return asyncio.run(search.search(read(), text, is_regex=is_regex))


def numbers(found: SearchResult) -> list[tuple[str, int]]:
    return [(each.task, each.line) for each in found.first]


def test_lines_are_numbered_by_task() -> None:
    first = [line("worker-0", "a"), line("worker-0", "b")]
    found = run("b", first, [line("worker-1", "b")], [line("worker-0", "b")])
    assert numbers(found) == [("worker-0", 2), ("worker-1", 1), ("worker-0", 3)]
    assert found.by_task == {"worker-0": 2, "worker-1": 1}
    assert found.scanned_bytes == 8


def test_pieces_of_a_line_have_its_number() -> None:
    pieces = [line("worker-0", "x", is_ended=False), line("worker-0", "b", is_ended=False)]
    found = run("b", [line("worker-0", "a")], pieces, [line("worker-0", "b")], [line("worker-0", "b")])
    assert numbers(found) == [("worker-0", 2), ("worker-0", 2), ("worker-0", 3)]


def test_number_of_returned_lines_is_limited() -> None:
    found = run("b", [line("worker-0", "b")] * 1000)
    assert (found.total, len(found.first)) == (1000, search.MAX_FOUND)


def test_first_error_is_found_even_if_nothing_matches() -> None:
    found = run("", [line("worker-0", "fine")], [line("worker-1", "ok"), line("worker-1", "ValueError: 3")])
    assert found.total == 0
    assert found.first_error is not None
    assert (found.first_error.task, found.first_error.line) == ("worker-1", 2)


def test_long_line_is_shortened() -> None:
    found = run("b+", [line("worker-0", "b" * 100_000)], is_regex=True)
    assert len(found.first[0].text) == search.MAX_TEXT_BYTES
