"""The bucket of tokens, on a clock that the test moves."""

import pytest

from windlass.kubeapi.rate_limit import RateLimit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_burst_is_followed_by_the_rate() -> None:
    limit = RateLimit(qps=10, burst=3, clock=Clock())
    assert [round(limit.take(), 6) for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]


def test_bucket_fills_up_to_the_burst() -> None:
    clock = Clock()
    limit = RateLimit(qps=2, burst=2, clock=clock)
    assert [limit.take() for _ in range(4)] == [0, 0, 0.5, 1.0]
    clock.now += 1.5
    assert [limit.take() for _ in range(2)] == [0, 0.5]
    clock.now += 3600
    assert [limit.take() for _ in range(3)] == [0, 0, 0.5]


def test_returned_token_is_reused() -> None:
    limit = RateLimit(qps=1, burst=1, clock=Clock())
    assert [limit.take(), limit.take()] == [0, 1.0]
    limit.give_back()
    assert limit.take() == 1.0


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_invalid_limit_raises(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="invalid rate limit"):
        RateLimit(qps, burst)
