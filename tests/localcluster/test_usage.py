"""Usage from two samples."""

import pytest

from windlass.localcluster import usage
from windlass.localcluster.usage import ContainerUsage, PodUsage, ProcessUsage, UsageSample

RECENT, LONG_AGO = UsageSample(940.0), UsageSample(939.0)
BEGINNINGS = {
    "looked at before": (RECENT, 5000.0, RECENT),
    "looked at before, and young": (RECENT, 80.0, RECENT),
    "never looked at, and young": (None, 60.0, UsageSample(940.0)),
    "looked at long ago": (LONG_AGO, 61.0, None),
    "never looked at, and old": (None, 61.0, None),
    "looked at long ago, before a clock jumped": (LONG_AGO, 0.0, UsageSample(1000.0)),
}


@pytest.mark.parametrize(("before", "age", "expected"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_start_of_the_window(before: UsageSample | None, age: float, expected: UsageSample | None) -> None:
    assert usage.window_start(before, 1000.0, age) == expected


USES = {
    "one and a half cores": (
        UsageSample(10.0, ProcessUsage(1.0)),
        UsageSample(12.0, ProcessUsage(4.0, 7)),
        1_500_000_000,
        7,
        2.0,
    ),
    "nothing": (UsageSample(10.0, ProcessUsage(1.0)), UsageSample(12.0, ProcessUsage(1.0, 7)), 0, 7, 2.0),
    "less than before": (
        UsageSample(10.0, ProcessUsage(1.0)),
        UsageSample(12.0, ProcessUsage(0.5)),
        0,
        0,
        2.0,
    ),
    "in no time": (UsageSample(10.0, ProcessUsage(1.0)), UsageSample(10.0, ProcessUsage(1.0)), 0, 0, 0.001),
}


@pytest.mark.parametrize(("before", "now", "cores", "memory", "window"), USES.values(), ids=USES)
def test_usage_between_two_samples(
    before: UsageSample, now: UsageSample, cores: int, memory: int, window: float
) -> None:
    assert usage.usage_between("main", before, now) == ContainerUsage("main", cores, memory, window)


def test_total_usage() -> None:
    first = PodUsage("node", (ContainerUsage("a", 1, 10, 2.0), ContainerUsage("b", 2, 20, 2.0)))
    second = PodUsage("node", (ContainerUsage("a", 4, 40, 2.0),))
    assert usage.total([first, second]) == (7, 70)
    assert usage.total([]) == (0, 0)
