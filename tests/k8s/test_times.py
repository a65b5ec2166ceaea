"""Durations as Go prints them, e.g. in messages of the kubelet."""

from datetime import timedelta

import pytest

from windlass.k8s import times


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (10, "10s"),
        (59.999, "59.999s"),
        (80, "1m20s"),
        (300, "5m0s"),
        (3600, "1h0m0s"),
        (3661.5, "1h1m1.5s"),
    ],
)
def test_duration_is_formatted_as_by_go(seconds: float, expected: str) -> None:
    assert times.format_duration(timedelta(seconds=seconds)) == expected
