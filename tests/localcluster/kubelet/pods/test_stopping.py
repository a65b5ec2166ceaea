"""Signals to the containers of a pod that is stopped, over time."""

import signal

import pytest

from windlass.localcluster.kubelet.lifecycle.restarts import StopAll
from windlass.localcluster.kubelet.pods.stopping import KILL_TIMEOUT_SECONDS, StopSchedule

TERM, KILL = signal.SIGTERM, signal.SIGKILL
ONE = (("a", "b"),)
WITH_SIDECAR = (("a", "b"), ("s",))
# Time, step, signals, and seconds left until SIGKILL or until the kill is overdue.
Row = tuple[float, StopAll, list[tuple[str, int]], float]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(
            [
                (0, StopAll(30, ONE), [("a", TERM), ("b", TERM)], 30),
                (10, StopAll(30, ONE), [], 20),
                (30, StopAll(30, ONE), [("a", KILL), ("b", KILL)], KILL_TIMEOUT_SECONDS),
                (31, StopAll(30, ONE), [], KILL_TIMEOUT_SECONDS - 1),
            ],
            id="SIGTERM once and SIGKILL once",
        ),
        pytest.param(
            [
                (0, StopAll(30, WITH_SIDECAR), [("a", TERM), ("b", TERM)], 30),
                (5, StopAll(30, (("b",), ("s",))), [], 25),
                (9, StopAll(30, (("s",),)), [("s", TERM)], 21),
                (30, StopAll(30, (("s",),)), [("s", KILL)], KILL_TIMEOUT_SECONDS),
            ],
            id="waves share one grace period",
        ),
        pytest.param(
            [
                (0, StopAll(30, WITH_SIDECAR), [("a", TERM), ("b", TERM)], 30),
                (30, StopAll(30, (("a",), ("s",))), [("a", KILL), ("s", KILL)], KILL_TIMEOUT_SECONDS),
            ],
            id="all waves are killed together",
        ),
        pytest.param(
            [
                (0, StopAll(30, ONE), [("a", TERM), ("b", TERM)], 30),
                (4, StopAll(5, ONE), [], 1),
                (4.5, StopAll(30, ONE), [], 0.5),
                (5, StopAll(30, ONE), [("a", KILL), ("b", KILL)], KILL_TIMEOUT_SECONDS),
            ],
            id="a later step can only shorten the grace period",
        ),
        pytest.param(
            [
                (0, StopAll(30, ONE), [("a", TERM), ("b", TERM)], 30),
                (10, StopAll(5, ONE), [("a", KILL), ("b", KILL)], KILL_TIMEOUT_SECONDS),
            ],
            id="a shorter grace that is over already",
        ),
        pytest.param(
            [(7, StopAll(0, ONE), [("a", KILL), ("b", KILL)], KILL_TIMEOUT_SECONDS)], id="no grace at all"
        ),
        pytest.param(
            [
                (0, StopAll(30, (("a",),)), [("a", TERM)], 30),
                (1, StopAll(30, (("a", "late"),)), [("late", TERM)], 29),
            ],
            id="one that has started meanwhile",
        ),
        pytest.param(
            [
                (0, StopAll(2, (("a",),)), [("a", TERM)], 2),
                (2, StopAll(2, (("a",),)), [("a", KILL)], KILL_TIMEOUT_SECONDS),
                (3, StopAll(2, (("a", "late"),)), [("late", KILL)], KILL_TIMEOUT_SECONDS),
            ],
            id="one that has started after the grace",
        ),
    ],
)
def test_signals(rows: list[Row]) -> None:
    now = 1000.0
    stopping = StopSchedule(lambda: now)
    assert stopping.seconds_left is None
    for after, step, signals, left in rows:
        now = 1000.0 + after
        assert list(stopping.signals(step)) == signals
        assert stopping.seconds_left == left


def test_seconds_left_are_never_negative() -> None:
    now = 0.0
    stopping = StopSchedule(lambda: now)
    list(stopping.signals(StopAll(3, ONE)))
    now = 10.0
    assert stopping.seconds_left == 0


def test_container_running_after_kill_is_overdue() -> None:
    clock = [0.0]
    stopping = StopSchedule(lambda: clock[0])
    seen = []
    for after in (0.0, 1000.0, 1000.0 + KILL_TIMEOUT_SECONDS - 1, 1000.0 + KILL_TIMEOUT_SECONDS):
        clock[0] = after
        list(stopping.signals(StopAll(1000, ONE)))
        seen.append(stopping.is_overdue)
    assert seen == [False, False, False, True]
    assert stopping.seconds_left == 0
