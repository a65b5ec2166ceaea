"""Parsing and formatting of durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire import durations

READ: dict[str, tuple[str | float, float]] = {
    "a number": (90, 90),
    "a fraction": (1.5, 1.5),
    "nothing": (0, 0),
    "a number in words": ("90", 90),
    "seconds": ("90s", 90),
    "milliseconds": ("250ms", 0.25),
    "minutes": ("15m", 900),
    "hours": ("12h", 43_200),
    "days": ("7d", 604_800),
    "several": ("1h30m", 5_400),
    "all": ("1d2h3m4s5ms", 93_784.005),
    "a fraction of a unit": ("1.5h", 5_400),
    "spaces around it": (" 5s ", 5),
}


@pytest.mark.parametrize(("written", "seconds"), READ.values(), ids=READ.keys())
def test_duration_is_parsed(written: str | float, seconds: float) -> None:
    assert durations.parse(written) == pytest.approx(seconds)


REFUSED: dict[str, str | float] = {
    "empty": "",
    "a word": "soon",
    "negative": "-5s",
    "a negative number": -5,
    "unknown unit": "5w",
    "large letters": "5M",
    "unit alone": "m",
    "a number after its unit": "1m30",
    "space within": "1h 30m",
    "comma": "1,5h",
    "exponent": "1e3",
    "no number at all": float("nan"),
    "without end": float("inf"),
    "too many digits": "9" * 13,
    "other digits": "٥s",
}


@pytest.mark.parametrize("written", REFUSED.values(), ids=REFUSED.keys())
def test_invalid_duration_is_rejected(written: str | float) -> None:
    with pytest.raises(ValueError, match=r"found .*, expected a duration such as 90s, 15m, 1h30m or 7d"):
        durations.parse(written)


WRITTEN: dict[float, str] = {
    0: "0s",
    0.25: "0.25s",
    5: "5s",
    60: "1m",
    90: "1m30s",
    90.5: "1m30.5s",
    3_600: "1h",
    5_400: "1h30m",
    59.9999: "1m",
    604_800: "7d",
    93_784: "1d2h3m4s",
}


@pytest.mark.parametrize(("seconds", "written"), WRITTEN.items())
def test_duration_is_formatted(seconds: float, written: str) -> None:
    assert durations.format_seconds(seconds) == written


@given(st.integers(min_value=0, max_value=10**12))
def test_formatted_duration_parses_to_itself(milliseconds: int) -> None:
    assert durations.parse(durations.format_seconds(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )
