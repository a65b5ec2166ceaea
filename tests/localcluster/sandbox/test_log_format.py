"""Log lines there and back, in chunks of any size, and which of them are shown."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.sandbox import log_format
from windlass.localcluster.sandbox.log_format import Selection

SECOND = 10**9
BASE = log_format.nanoseconds(datetime(2026, 1, 2, 12, 0, tzinfo=UTC))
LOG = (
    b"2026-01-02T12:00:00.000000000Z stdout F one\n"
    b"2026-01-02T12:00:01.000000000Z stderr P tw\n"
    b"2026-01-02T12:00:01.000000001Z stderr F o\n"
    b"2026-01-02T12:00:02.000000000Z stdout F \n"
    b"2026-01-02T12:00:03.000000000Z stdout P end\n"
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"2026-01-02T12:00:00.000000007Z stdout F a b\n", b"a b\n"),
        (b"2026-01-02T12:00:00.000000007Z stderr P a\n", b"a"),
        (b"2026-01-02T12:00:00.000000007Z stdout F \r\n", b"\r\n"),
        (b"2026-01-02T12:00:00.000000007Z stdout F\n", b""),
        (b"2026-01-02T12:00:00.000000007Z stdout F without its end", b""),
        (b"2026-01-02T12:00:00.000000007Z elsewhere F a\n", b""),
        (b"2026-01-02T12:00:00Z stdout F a\n", b""),
        (b"2026-01-02T12:0\n2026-01-02T12:00:00.000000007Z stdout F a\n", b"a\n"),
        (b"\n", b""),
        (b"", b""),
    ],
)
def test_log_line_format(line: bytes, expected: bytes) -> None:
    assert log_format.selected_text(line, Selection())[0] == expected


def encoded_in_chunks(output: bytes, size: int) -> bytes:
    lines, rest = b"", b""
    for start in range(0, len(output), size):
        complete, rest = log_format.encoded_output(rest, output[start : start + size], "stdout", BASE)
        lines += complete
    return lines + log_format.encoded_end(rest, "stdout", BASE)


LONG_AND_SHORT = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.integers(log_format.MAX_PART_BYTES - 2, 2 * log_format.MAX_PART_BYTES + 2).map(bytes),
    ),
    max_size=6,
).map(b"\r\n".join)


@given(LONG_AND_SHORT, st.integers(1, 20) | st.integers(2**13, 2**16))
def test_output_is_shown_as_it_was_written_in_any_chunks(output: bytes, size: int) -> None:
    lines = encoded_in_chunks(output, size)
    assert lines == encoded_in_chunks(output, len(output) + 1)
    assert log_format.selected_text(lines, Selection())[0] == output.replace(b"\r\n", b"\n")


def test_long_lines_are_written_in_parts() -> None:
    longest, header = log_format.MAX_PART_BYTES, b"2026-01-02T12:00:00.000000000Z stdout "
    output = b"a\n" + b"x" * (2 * longest + 1) + b"\r\nshort"
    lines, rest = log_format.encoded_output(b"", output, "stdout", BASE)
    full_part = header + b"P " + b"x" * longest + b"\n"
    assert lines == header + b"F a\n" + 2 * full_part + header + b"F x\n"
    assert rest == b"short"
    lines, rest = log_format.encoded_output(rest, b"y" * 2 * longest, "stdout", BASE)
    assert [len(line) for line in lines.splitlines()] == 2 * [log_format.HEADER_BYTES + longest]
    assert rest == b"y" * 5


def test_output_bytes() -> None:
    lines, _ = log_format.encoded_output(b"", b"one\n\nthree\n", "stderr", BASE)
    assert log_format.output_bytes(lines) == len(b"one\n\nthree\n")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Selection(), b"one\ntwo\n\nend"),
        (Selection(since=BASE + 1), b"two\n\nend"),
        (Selection(since=BASE + 2 * SECOND), b"\nend"),
        (Selection(since=BASE + 9 * SECOND), b""),
        (
            Selection(since=BASE + 1, timestamps=True),
            (
                b"2026-01-02T12:00:01.000000000Z two\n"
                b"2026-01-02T12:00:02.000000000Z \n"
                b"2026-01-02T12:00:03.000000000Z end"
            ),
        ),
    ],
)
def test_shown(wanted: Selection, expected: bytes) -> None:
    assert log_format.selected_text(LOG, wanted) == (expected, expected == b"")


def test_shown_continues_within_a_line() -> None:
    first, second = LOG.splitlines(keepends=True)[1:3]
    text, begins_line = log_format.selected_text(first, Selection(timestamps=True))
    assert (text, begins_line) == (b"2026-01-02T12:00:01.000000000Z tw", False)
    assert log_format.selected_text(second, Selection(timestamps=True), begins_line=begins_line) == (
        b"o\n",
        True,
    )


def test_starts() -> None:
    lines = LOG.splitlines(keepends=True)
    sizes = [sum(map(len, lines[:index])) for index in range(len(lines))]
    parts = [False, True, False, False, True]
    assert log_format.log_line_offsets(LOG) == list(zip(sizes, parts, strict=True))
    assert log_format.log_line_offsets(b"no line\n" + lines[0] + b"2026") == [(8, False)]


def test_since() -> None:
    now = datetime(2026, 1, 2, 13, 0, tzinfo=timezone(timedelta(hours=1)))
    assert log_format.since(now, 5, None) == BASE - 5 * SECOND
    assert log_format.since(now, None, now) == BASE
    assert log_format.since(now, None, None) is None
    longer_than_there_were_years = 10**15
    assert log_format.since(now, longer_than_there_were_years, None) == 0
    assert log_format.since(now, None, datetime(1, 1, 1, tzinfo=UTC)) == 0


def test_names() -> None:
    now = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)
    name = log_format.file_name(3)
    first = log_format.rotated_name([name, "13.log"], name, now)
    second = log_format.rotated_name([name, first], name, now + timedelta(days=1))
    assert (name, first, second) == ("3.log", "3.log.20260102-120000.000005", "3.log.20260103-120000.000005")
    assert log_format.rotated_names([second, name, "3.log.gz", "13.log", first], name) == (first, second)


@pytest.mark.parametrize("turned_back", [timedelta(), timedelta(hours=1), timedelta(microseconds=1)])
def test_rotated_file_sorts_after_earlier_ones(turned_back: timedelta) -> None:
    now = datetime(2026, 1, 2, 12, 0, 0, 999_999, tzinfo=UTC)
    before = log_format.rotated_name([], "0.log", now)
    assert log_format.rotated_name([before], "0.log", now - turned_back) == "0.log.20260102-120001.000000"


@pytest.mark.parametrize(("most", "removed"), [(1, 4), (3, 2), (5, 0), (9, 0)])
def test_oldest_files_are_removed(most: int, removed: int) -> None:
    start = datetime(2026, 1, 2, tzinfo=UTC)
    rotated = [log_format.rotated_name([], "0.log", start + timedelta(days=day)) for day in range(4)]
    assert log_format.names_to_remove(["0.log", *reversed(rotated)], "0.log", most) == tuple(
        rotated[:removed]
    )
