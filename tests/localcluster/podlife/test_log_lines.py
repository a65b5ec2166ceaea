"""Log lines there and back, in chunks of any size, and which of them are shown."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.podlife import logs
from windlass.localcluster.podlife.logs import LogLine, Selection

SECOND = 10**9
BASE = logs.nanoseconds(datetime(2026, 1, 2, 12, 0, tzinfo=UTC))
LINES = (
    LogLine(BASE, "stdout", b"one"),
    LogLine(BASE + SECOND, "stderr", b"tw", is_partial=True),
    LogLine(BASE + SECOND + 1, "stderr", b"o"),
    LogLine(BASE + 2 * SECOND, "stdout", b""),
    LogLine(BASE + 3 * SECOND, "stdout", b"end", is_partial=True),
)
ANY_LINE = st.builds(
    LogLine,
    st.integers(0, 2**62),
    st.sampled_from(["stdout", "stderr"]),
    st.binary().filter(lambda text: b"\n" not in text),
    st.booleans(),
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"2026-01-02T12:00:00.000000007Z stdout F a b\n", LogLine(BASE + 7, "stdout", b"a b")),
        (b"2026-01-02T12:00:00.5Z stderr P a", LogLine(BASE + SECOND // 2, "stderr", b"a", is_partial=True)),
        (b"2026-01-02T13:00:00+01:00 stdout F ", LogLine(BASE, "stdout", b"")),
        (b"2026-01-02T12:00:00Z stdout F:more a", LogLine(BASE, "stdout", b"a")),
        (b"2026-01-02T12:00:00Z stdout F", None),
        (b"2026-01-02T12:00:00Z elsewhere F a", None),
        (b"2026-13-02T12:00:00Z stdout F a", None),
        (b"yesterday stdout F a", None),
        (b"", None),
    ],
)
def test_decoded(line: bytes, expected: LogLine | None) -> None:
    assert logs.decoded(line) == expected


@given(ANY_LINE)
def test_there_and_back(line: LogLine) -> None:
    assert logs.decoded(logs.encoded(line)) == line


@given(st.lists(ANY_LINE, max_size=8), st.integers(1, 50))
def test_chunks_of_a_file(lines: list[LogLine], size: int) -> None:
    data = b"".join(map(logs.encoded, lines))
    found: list[LogLine] = []
    rest = b""
    for start in range(0, len(data), size):
        complete, rest = logs.from_chunk(rest, data[start : start + size])
        found += complete
    assert (found, rest) == (lines, b"")


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"")), st.integers(1, 20))
def test_output_is_shown_as_it_was_written(output: bytes, size: int) -> None:
    lines: list[LogLine] = []
    rest = b""
    for start in range(0, len(output), size):
        complete, rest = logs.from_output(rest, output[start : start + size], "stdout", BASE)
        lines += complete
    lines += logs.at_end_of_output(rest, "stdout", BASE)
    assert b"".join(logs.selected(lines, Selection())) == output


def test_long_lines_are_written_in_parts() -> None:
    longest = logs.LONGEST_PART
    lines, rest = logs.from_output(b"", b"x" * (2 * longest + 1) + b"\r\nshort", "stdout", BASE)
    assert [(len(line.text), line.is_partial) for line in lines] == [
        (longest, True),
        (longest, True),
        (1, False),
    ]
    assert rest == b"short"
    lines, rest = logs.from_output(rest, b"y" * 2 * longest, "stdout", BASE)
    assert [(len(line.text), line.is_partial) for line in lines] == [(longest, True), (longest, True)]
    assert len(rest) == 5


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Selection(), b"one\ntwo\n\nend"),
        (Selection(tail_lines=0), b""),
        (Selection(tail_lines=1), b"end"),
        (Selection(tail_lines=3), b"two\n\nend"),
        (Selection(tail_lines=9), b"one\ntwo\n\nend"),
        (Selection(since=BASE + 2 * SECOND), b"\nend"),
        (Selection(since=BASE + 9 * SECOND), b""),
        (Selection(tail_lines=3, since=BASE + 3 * SECOND), b"end"),
        (Selection(limit_bytes=5), b"one\nt"),
        (Selection(limit_bytes=4), b"one\n"),
        (
            Selection(tail_lines=3, timestamps=True),
            (
                b"2026-01-02T12:00:01.000000000Z two\n"
                b"2026-01-02T12:00:02.000000000Z \n"
                b"2026-01-02T12:00:03.000000000Z end"
            ),
        ),
    ],
)
def test_selected(wanted: Selection, expected: bytes) -> None:
    assert b"".join(logs.selected(LINES, wanted)) == expected


def test_since() -> None:
    now = datetime(2026, 1, 2, 13, 0, tzinfo=timezone(timedelta(hours=1)))
    assert logs.since(now, 5, None) == BASE - 5 * SECOND
    assert logs.since(now, None, now) == BASE
    assert logs.since(now, None, None) is None


def test_names() -> None:
    now = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)
    name = logs.file_name(3)
    first = logs.rotated_name(name, now)
    second = logs.rotated_name(name, now + timedelta(microseconds=1))
    assert (name, first) == ("3.log", "3.log.20260102-120000.000005")
    names = [second, name, "3.log.gz", "13.log", first]
    assert logs.rotated_names(names, name) == (first, second)


@pytest.mark.parametrize(("most", "removed"), [(1, 4), (3, 2), (5, 0), (9, 0)])
def test_the_oldest_files_go(most: int, removed: int) -> None:
    start = datetime(2026, 1, 2, tzinfo=UTC)
    rotated = [logs.rotated_name("0.log", start + timedelta(days=day)) for day in range(4)]
    assert logs.names_to_remove(["0.log", *reversed(rotated)], "0.log", most) == tuple(rotated[:removed])
