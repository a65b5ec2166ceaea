"""Progress that a task reports in its log or in a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire import progress
from windlass.wire.progress import Progress

LINES = {
    "plain": ("windlass progress 3/10", Progress(3, 10)),
    "values": (
        "windlass progress 3/10 loss=0.31 lr=1e-3",
        Progress(3, 10, {"loss": "0.31", "lr": "1e-3"}),
    ),
    "words-among-values": ("windlass progress 3/10 so far loss=0.31 !", Progress(3, 10, {"loss": "0.31"})),
    "no-total": ("windlass progress 3/0", Progress(3, 0)),
    "more-than-all": ("windlass progress 12/10", Progress(12, 10)),
    "huge": ("windlass progress 999999999999999/999999999999999", Progress(10**15 - 1, 10**15 - 1)),
    "carriage-return": ("windlass progress 3/10\r", Progress(3, 10)),
    "too-huge": ("windlass progress 1/9999999999999999", None),
    "not-at-the-beginning": ("so: windlass progress 3/10", None),
    "something-else": ("step 3/10", None),
    "no-numbers": ("windlass progress a/b", None),
    "negative": ("windlass progress -1/10", None),
    "stuck-together": ("windlass progress 3/10loss=1", None),
    "nothing": ("windlass progress ", None),
    "empty": ("", None),
}


@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES.keys())
def test_progress_in_a_log_line(line: str, expected: Progress | None) -> None:
    assert progress.parse_line(line) == expected


FILES = {
    "one-line": (b"3/10 loss=0.5\n", Progress(3, 10, {"loss": "0.5"})),
    "without-an-end": (b"3/10", Progress(3, 10)),
    "the-last-counts": (b"3/10\n4/10\n", Progress(4, 10)),
    "half-written": (b"3/10\n4/1", Progress(3, 10)),
    "blank-lines-after": (b"3/10\n\n \n", Progress(3, 10)),
    "the-last-is-nonsense": (b"3/10\nwords\n", None),
    "nothing": (b"", None),
    "not-text": (b"\xff\xfe\x00", None),
    "only-the-end-is-read": (b"x" * 10_000 + b"\n5/10\n", Progress(5, 10)),
}


@pytest.mark.parametrize(("data", "expected"), FILES.values(), ids=FILES.keys())
def test_progress_in_a_file(data: bytes, expected: Progress | None) -> None:
    assert progress.parse_file(data) == expected


@pytest.mark.parametrize(
    ("found", "fraction", "is_complete"),
    [
        (Progress(3, 12), 0.25, False),
        (Progress(0, 12), 0.0, False),
        (Progress(12, 12), 1.0, True),
        (Progress(13, 12), 1.0, True),
        (Progress(13, 0), None, False),
    ],
)
def test_fraction_and_completeness(found: Progress, fraction: float | None, is_complete: bool) -> None:
    assert (found.fraction, found.is_complete) == (fraction, is_complete)


def test_values_are_limited() -> None:
    many = " ".join(f"v{number}={'x' * 1000}" for number in range(100))
    found = progress.parse_line(f"windlass progress 1/2 {many}")
    assert found is not None
    assert len(found.values) == progress.MAX_VALUES
    assert {len(value) for value in found.values.values()} == {progress.MAX_VALUE_LENGTH}


@given(st.binary(max_size=200))
def test_any_file_is_read_without_error(data: bytes) -> None:
    for found in (
        progress.parse_file(data),
        progress.parse_line("windlass progress " + data.decode("latin-1")),
    ):
        fraction = found.fraction if found else None
        assert fraction is None or 0 <= fraction <= 1
