"""How many pods a pass creates at a time, and how long a status may wait: what the last ones took decides it."""

import pytest

from windlass.controller.engine import adaptive_batching
from windlass.controller.engine.adaptive_batching import AIM_SEC, AT_FIRST, FEWEST, MOST, Pace


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
    assert learned.at_a_time == adaptive_batching.FEWEST
    learned.took(learned.at_a_time, AIM_SEC / 5)
    assert learned.at_a_time == 5 * FEWEST


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, adaptive_batching.SHORTEST_PATIENCE),
        (0.008, adaptive_batching.SHORTEST_PATIENCE),
        (0.1, 5.0),
        (60.0, adaptive_batching.LONGEST_PATIENCE),
    ],
)
def test_a_slow_server_is_spared(seconds: float, expected: float) -> None:
    learned = Pace()
    for _ in range(adaptive_batching.STORES_REMEMBERED):
        learned.stored_in(seconds, now=100.0)
    assert learned.patience(2, 0.0, now=110.0) == pytest.approx(expected)


def test_a_server_that_was_slow_a_while_ago_is_not() -> None:
    learned = Pace()
    for _ in range(adaptive_batching.STORES_REMEMBERED):
        learned.stored_in(1.0, now=100.0)
    later = 101.0 + adaptive_batching.REMEMBERED_SEC
    assert learned.patience(2, 0.0, later) == adaptive_batching.SHORTEST_PATIENCE


def test_a_few_slow_answers_say_nothing() -> None:
    learned = Pace()
    for _ in range(adaptive_batching.STORES_REMEMBERED // 2):
        learned.stored_in(10.0, now=100.0)
    assert learned.patience(2, 10.0, now=100.0) == adaptive_batching.SHORTEST_PATIENCE


@pytest.mark.parametrize(
    ("tasks", "seconds", "expected"),
    [
        (10_000, 0.2, 10.0),
        (10_000, 0.7, 15.0),
        (10_000, 0.0, adaptive_batching.SHORTEST_PATIENCE),
        (2_000, 60.0, 3.0),
        (2, 60.0, adaptive_batching.SHORTEST_PATIENCE),
    ],
)
def test_a_large_status_that_takes_long_to_store_is_stored_less_often(
    tasks: int, seconds: float, expected: float
) -> None:
    assert Pace().patience(tasks, seconds, now=0.0) == pytest.approx(expected)
