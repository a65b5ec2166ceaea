"""Tables and paragraphs at every width."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass.cli.terminal import tables
from windlass.cli.terminal.tables import Column

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COLUMNS = (
    Column("NAME", 3, can_shrink=True),
    Column("STATE", 2),
    Column("NODE", 1, can_shrink=True),
    Column("AGE", 0),
)
ROWS = (
    ("digits", "Running", "node-with-a-long-name", "3m"),
    ("a-job-with-a-name-that-is-longer-than-others", "Succeeded", "n", "10d"),
)


def test_lines_fit_the_width() -> None:
    for room in range(1, 100):
        lines = tables.table(COLUMNS, ROWS, room).split("\n")
        assert len(lines) == 3, room
        assert all(len(line) <= room for line in lines), room


WIDTHS: dict[int | None, tuple[str, str]] = {
    None: (
        "NAME                                          STATE      NODE                   AGE",
        "digits                                        Running    node-with-a-long-name  3m",
    ),
    60: (
        "NAME                               STATE      NODE    AGE",
        "digits                             Running    node-…  3m",
    ),
    30: ("NAME                 STATE", "digits               Running"),
    16: ("NAME", "digits"),
}


@pytest.mark.parametrize("room", WIDTHS)
def test_important_columns_are_kept(room: int | None) -> None:
    header, row, _ = tables.table(COLUMNS, ROWS, room).split("\n")
    assert (header.split(), row.split()) == tuple(line.split() for line in WIDTHS[room])


def test_control_characters_are_removed() -> None:
    text = tables.table((Column("A"),), [("\x1b[31mred\x1b[0m\nsecond\x07",)], None)
    assert text.split("\n") == ["A", "redsecond"]


def test_paragraph_is_wrapped_next_to_its_title() -> None:
    text = tables.paragraph("reason", "one two three four five", 24, indent=10)
    assert text == "reason    one two three\n          four five"
    assert tables.paragraph("reason", "x" * 50, 24, indent=10) == "reason    " + "x" * 13 + "…"


AGES = {
    timedelta(seconds=-5): "0s",
    timedelta(seconds=119): "119s",
    timedelta(minutes=2): "2m",
    timedelta(minutes=59, seconds=59): "59m",
    timedelta(hours=1): "1h",
    timedelta(hours=30): "1d",
    timedelta(days=400): "400d",
}


@pytest.mark.parametrize("age", AGES)
def test_age_format(age: timedelta) -> None:
    assert tables.age(NOW - age, NOW) == AGES[age]


def test_age_without_a_start_is_empty() -> None:
    assert tables.age(None, NOW) == ""


def test_task_counts_text() -> None:
    assert tables.task_counts(2, 1, 0, 4) == "2 running, 1 succeeded of 4"
    assert tables.task_counts(0, 0, 0, 4) == "4"
    assert tables.task_counts(1, 0, 0, 2, 1) == "1 running, 1 retrying of 2"


WIDE = {"40": 40, "0": None, "wide": None, "": None}


@pytest.mark.parametrize("said", WIDE)
def test_width_without_a_terminal_is_unlimited(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", said)
    assert tables.terminal_width() == WIDE[said]
