"""Log lines, timestamps, and resuming without repeated or lost lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.client.logs import lines
from windlass.client.logs.lines import Cursor, Piece, Splitter

STAMPS = {
    "nanoseconds": (b"2016-10-06T00:17:09.669794202Z", 1475713029669794202),
    "as-go-writes-zeros": (b"2016-10-06T00:17:09.67Z", 1475713029670000000),
    "whole-second": (b"2016-10-06T00:17:09Z", 1475713029000000000),
    "an-offset": (b"2016-10-06T02:17:09.5+02:00", 1475713029500000000),
}


@pytest.mark.parametrize(("stamp", "nanoseconds"), STAMPS.values(), ids=STAMPS.keys())
def test_timestamps_are_parsed(stamp: bytes, nanoseconds: int) -> None:
    assert lines.nanoseconds(stamp) == nanoseconds
    assert lines.split_timestamp(stamp + b" 1 2  3") == (stamp, b"1 2  3")


@pytest.mark.parametrize("line", [b"", b"no time", b"2016-10-06T00:17:09Z", b"2016-10-06 00:17:09 words"])
def test_line_without_a_timestamp(line: bytes) -> None:
    assert lines.split_timestamp(line) == (b"", line)


def joined(pieces: list[Piece]) -> bytes:
    return b"".join(piece.data + (b"\n" if piece.is_ended else b"") for piece in pieces)


@given(st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"x", b"\n")), max_size=20))
def test_lines_do_not_depend_on_chunks(chunks: list[bytes]) -> None:
    splitter = Splitter()
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)] + splitter.end()
    assert joined(pieces) == b"".join(chunks)
    assert not any(b"\n" in piece.data for piece in pieces)
    assert not any(piece.is_continuation for piece in pieces), "no line was long"


def test_very_long_line_is_split() -> None:
    splitter = Splitter(max_bytes=4)
    pieces = [*splitter.feed(b"0123456"), *splitter.feed(b"78\nnext"), *splitter.end()]
    assert [(piece.data, piece.is_continuation, piece.is_ended) for piece in pieces] == [
        (b"0123", False, False),
        (b"45678", True, True),
        (b"next", False, False),
    ]


def test_long_line_is_not_split_within_a_character() -> None:
    splitter = Splitter(max_bytes=4)
    pieces = [*splitter.feed("abcä€".encode()), *splitter.feed("😀😀\n".encode()), *splitter.end()]
    assert [piece.data.decode() for piece in pieces] == ["abc", "ä", "€😀😀"]


BOUNDARIES = {
    "ascii": (b"abc", 3),
    "empty": (b"", 0),
    "whole": ("aä".encode(), 3),
    "half": ("aä".encode()[:2], 1),
    "three of four bytes": ("😀".encode()[:3], 0),
    "two of three bytes": ("a€".encode()[:3], 1),
    "not UTF-8": (b"\x80\x80\x80\x80\x80", 5),
}


@pytest.mark.parametrize(("data", "expected"), BOUNDARIES.values(), ids=BOUNDARIES)
def test_character_boundary(data: bytes, expected: int) -> None:
    assert lines.character_boundary(data, len(data)) == expected


def answer(written: list[bytes], since: str) -> list[bytes]:
    """Return the response of a kubelet, which compares whole seconds."""
    return [stamp for stamp in written if stamp[:19] >= since[:19].encode()]


seconds = st.integers(0, 3)
fractions = st.sampled_from([b"", b".1", b".123456789", b".9"])


@given(
    st.lists(st.tuples(seconds, fractions), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), max_size=6),
)
def test_every_line_is_read_once(times: list[tuple[int, bytes]], cuts: list[int]) -> None:
    """This holds for any number of interruptions and of equal timestamps."""
    stamps = sorted((b"2026-01-01T00:00:0%d%bZ" % time for time in times), key=lines.nanoseconds)
    cursor, taken = Cursor(), 0
    for cut in [*cuts, len(stamps)]:
        cursor.resume()
        coming = answer(stamps, cursor.since)
        taken += sum(cursor.advance(stamp) for stamp in coming[:cut])
    assert taken == len(stamps)


def test_lines_after_the_clock_was_set_back_are_read() -> None:
    cursor = Cursor()
    assert all(map(cursor.advance, (b"2026-01-01T00:00:05Z", b"2026-01-01T00:00:06Z")))
    cursor.resume()
    again = (b"2026-01-01T00:00:06Z", b"2026-01-01T00:00:02Z", b"2026-01-01T00:00:06Z")
    assert [cursor.advance(stamp) for stamp in again] == [False, True, True]


@pytest.mark.parametrize(
    ("first", "has_gap"), [(b"2026-01-01T00:00:05.5Z", False), (b"2026-01-01T00:00:05.6Z", True)]
)
def test_rotated_log_has_a_gap(first: bytes, has_gap: bool) -> None:
    """The response does not repeat the last line that was read."""
    cursor = Cursor()
    cursor.advance(b"2026-01-01T00:00:05.5Z")
    cursor.resume()
    assert [cursor.advance(stamp) for stamp in (first, b"2026-01-01T00:00:07Z")] == [has_gap, True]
    assert cursor.has_gap is has_gap


def test_resume_position() -> None:
    cursor = Cursor()
    assert (cursor.since, cursor.has_started) == ("", False)
    cursor.advance(b"2026-01-01T00:00:05.123456789Z")
    assert (cursor.since, cursor.has_started) == ("2026-01-01T00:00:05Z", True)


PART, INNER = b"x" * 16384, b"2026-01-01T00:00:01.000000000Z "
LONG_LINES = {
    "short": (b"one", b"one"),
    "as new kubelets send it": (PART + PART + b"end", PART + PART + b"end"),
    "as old kubelets send it": (PART + INNER + PART + INNER + b"end", PART + PART + b"end"),
    "nothing after the last part": (PART + INNER, PART),
    "the container's own time": (b"x" + INNER + PART, b"x" + INNER + PART),
}


@pytest.mark.parametrize("case", LONG_LINES)
def test_timestamps_within_long_lines_are_removed(case: str) -> None:
    sent, written = LONG_LINES[case]
    assert lines.without_part_timestamps(sent) == written
