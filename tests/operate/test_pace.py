"""How many pods a pass creates at a time: what the last batch took decides it."""

import pytest

from windlass.operate import pace
from windlass.operate.pace import AIM_SEC, AT_FIRST, FEWEST, MOST, Pace


@pytest.mark.parametrize(
    ("count", "seconds", "expected"),
    [
        (200, AIM_SEC, 200),
        (200, AIM_SEC / 2, 400),
        (200, AIM_SEC * 2, 100),
        (FEWEST, AIM_SEC, FEWEST),
        (200, 1000.0, FEWEST),
        (200, 0.0, MOST),
        (MOST, AIM_SEC / 10, MOST),
    ],
)
def test_the_next_batch_takes_as_long_as_a_pass_may(count: int, seconds: float, expected: int) -> None:
    learned = Pace()
    learned.took(count, seconds)
    assert learned.at_a_time == expected


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_a_batch_of_a_few_says_nothing(seconds: float) -> None:
    learned = Pace()
    learned.took(FEWEST - 1, seconds)
    assert learned.at_a_time == AT_FIRST


def test_a_server_that_gets_slow_and_quick_again_is_followed() -> None:
    learned = Pace()
    learned.took(AT_FIRST, 100 * AIM_SEC)
    assert learned.at_a_time == pace.FEWEST
    learned.took(learned.at_a_time, AIM_SEC / 5)
    assert learned.at_a_time == 5 * FEWEST
