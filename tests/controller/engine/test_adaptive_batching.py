"""Batch sizes and status delays adapt to measured durations."""

import pytest

from windlass.controller.engine import adaptive_batching
from windlass.controller.engine.adaptive_batching import (
    INITIAL_BATCH,
    MAX_BATCH,
    MIN_BATCH,
    TARGET_BATCH_SEC,
    AdaptiveBatching,
)


@pytest.mark.parametrize(
    ("count", "seconds", "expected"),
    [
        (200, TARGET_BATCH_SEC, 200),
        (200, TARGET_BATCH_SEC / 2, 400),
        (200, TARGET_BATCH_SEC * 2, 100),
        (MIN_BATCH, TARGET_BATCH_SEC, MIN_BATCH),
        (200, 1000.0, MIN_BATCH),
        (200, 0.0, MAX_BATCH),
        (MAX_BATCH, TARGET_BATCH_SEC / 10, MAX_BATCH),
    ],
)
def test_batch_size_adapts_to_the_target_duration(count: int, seconds: float, expected: int) -> None:
    learned = AdaptiveBatching()
    learned.record_batch(count, seconds)
    assert learned.batch_size == expected


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_small_batch_does_not_change_the_size(seconds: float) -> None:
    learned = AdaptiveBatching()
    learned.record_batch(MIN_BATCH - 1, seconds)
    assert learned.batch_size == INITIAL_BATCH


def test_batch_size_follows_a_changing_server() -> None:
    learned = AdaptiveBatching()
    learned.record_batch(INITIAL_BATCH, 100 * TARGET_BATCH_SEC)
    assert learned.batch_size == adaptive_batching.MIN_BATCH
    learned.record_batch(learned.batch_size, TARGET_BATCH_SEC / 5)
    assert learned.batch_size == 5 * MIN_BATCH


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, adaptive_batching.MIN_STATUS_DELAY),
        (0.008, adaptive_batching.MIN_STATUS_DELAY),
        (0.1, 5.0),
        (60.0, adaptive_batching.MAX_STATUS_DELAY),
    ],
)
def test_slow_server_increases_the_status_delay(seconds: float, expected: float) -> None:
    learned = AdaptiveBatching()
    for _ in range(adaptive_batching.UPDATE_SAMPLES):
        learned.record_update(seconds, now=100.0)
    assert learned.max_status_delay(2, 0.0, now=110.0) == pytest.approx(expected)


def test_saturated_server_gets_one_update_and_then_fewer() -> None:
    learned = AdaptiveBatching()
    for _ in range(adaptive_batching.UPDATE_SAMPLES):
        learned.record_update(1.0, now=100.0)
    delays = [learned.max_status_delay(2, 0.0, now=110.0, is_first=is_first) for is_first in (True, False)]
    assert delays == [adaptive_batching.MAX_STATUS_DELAY, 50.0]


def test_old_samples_are_ignored() -> None:
    learned = AdaptiveBatching()
    for _ in range(adaptive_batching.UPDATE_SAMPLES):
        learned.record_update(1.0, now=100.0)
    later = 101.0 + adaptive_batching.SAMPLE_LIFETIME_SEC
    assert learned.max_status_delay(2, 0.0, later) == adaptive_batching.MIN_STATUS_DELAY


def test_few_slow_stores_do_not_change_the_delay() -> None:
    learned = AdaptiveBatching()
    for _ in range(adaptive_batching.UPDATE_SAMPLES // 2):
        learned.record_update(10.0, now=100.0)
    assert learned.max_status_delay(2, 10.0, now=100.0) == adaptive_batching.MIN_STATUS_DELAY


@pytest.mark.parametrize(
    ("tasks", "seconds", "expected"),
    [
        (10_000, 0.2, 10.0),
        (10_000, 0.7, 15.0),
        (10_000, 0.0, adaptive_batching.MIN_STATUS_DELAY),
        (2_000, 60.0, 3.0),
        (2, 60.0, adaptive_batching.MIN_STATUS_DELAY),
    ],
)
def test_large_slow_status_is_stored_less_often(tasks: int, seconds: float, expected: float) -> None:
    assert AdaptiveBatching().max_status_delay(tasks, seconds, now=0.0) == pytest.approx(expected)
