"""From what was used by two moments to a rate."""

import pytest

from windlass.localcluster import usage
from windlass.localcluster.usage import ContainerUsage, Load, Look, PodUsage

RECENT, LONG_AGO = Look(940.0), Look(939.0)
BEGINNINGS = {
    "looked at before": (RECENT, 5000.0, RECENT),
    "looked at before, and young": (RECENT, 80.0, RECENT),
    "never looked at, and young": (None, 60.0, Look(940.0)),
    "looked at long ago": (LONG_AGO, 61.0, None),
    "never looked at, and old": (None, 61.0, None),
    "looked at long ago, before a clock jumped": (LONG_AGO, 0.0, Look(1000.0)),
}


@pytest.mark.parametrize(("before", "age", "expected"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_where_a_window_begins(before: Look | None, age: float, expected: Look | None) -> None:
    assert usage.since(before, 1000.0, age) == expected


USES = {
    "one and a half cores": (Look(10.0, Load(1.0)), Look(12.0, Load(4.0, 7)), 1_500_000_000, 7, 2.0),
    "nothing": (Look(10.0, Load(1.0)), Look(12.0, Load(1.0, 7)), 0, 7, 2.0),
    "less than before": (Look(10.0, Load(1.0)), Look(12.0, Load(0.5)), 0, 0, 2.0),
    "in no time": (Look(10.0, Load(1.0)), Look(10.0, Load(1.0)), 0, 0, 0.001),
}


@pytest.mark.parametrize(("before", "now", "cores", "memory", "window"), USES.values(), ids=USES)
def test_what_is_used(before: Look, now: Look, cores: int, memory: int, window: float) -> None:
    assert usage.used("main", before, now) == ContainerUsage("main", cores, memory, window)


def test_a_total() -> None:
    first = PodUsage("node", (ContainerUsage("a", 1, 10, 2.0), ContainerUsage("b", 2, 20, 2.0)))
    second = PodUsage("node", (ContainerUsage("a", 4, 40, 2.0),))
    assert usage.total([first, second]) == (7, 70)
    assert usage.total([]) == (0, 0)
