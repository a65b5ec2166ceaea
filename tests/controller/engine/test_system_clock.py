"""The machine's clock is used unless the API server's differs clearly."""

import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from windlass.controller.engine.system_clock import ServerClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = 3600.0


class Machine:
    """A machine with manual clocks."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.time = NOON + timedelta(seconds=ahead)
        self.seconds = 42.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.seconds += seconds


def written(seconds: float) -> str:
    """Return a Date header for a time in seconds after noon."""
    return format_datetime((NOON + timedelta(seconds=seconds)).replace(microsecond=0), usegmt=True)


@pytest.mark.parametrize(
    ("server", "took", "ahead"),
    [
        # The clocks agree, whatever the fractions and however long an answer took.
        (0, 0.1, 0),
        (0.9, 0.1, 0),
        (-0.9, 0.1, 0),
        (-1.9, 0.1, 0),
        (2.5, 0.1, 0),
        (-25, 30, 0),
        # They do not.
        (HOUR, 0, HOUR),
        (-HOUR, 0, -HOUR),
        (HOUR, 20, HOUR),
        (-HOUR, 20, -HOUR),
        (10, 0, 10),
        (-10, 0, -10),
    ],
)
def test_one_answer_corrects_the_clock(server: float, took: float, ahead: float) -> None:
    clock = ServerClock(Machine())
    clock.record_date(written(server), took)
    found = (clock.now() - NOON).total_seconds()
    assert found == pytest.approx(ahead, abs=1 + took if ahead else 0)
    assert clock.monotonic() == 42.0


def test_offset_is_stable() -> None:
    """Once a difference is known, answers that fit it change nothing."""
    machine = Machine()
    clock = ServerClock(machine)
    clock.record_date(written(HOUR), 0)
    known = clock.now() - machine.now()
    for seconds in range(1, 60):
        machine.advance(1 / 8)
        clock.record_date(written(HOUR + seconds / 8), 0.5)
        assert clock.now() - machine.now() == known


def test_corrected_clock_is_used_again(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(ahead=HOUR)
    clock = ServerClock(machine)
    clock.record_date(written(0), 0)
    assert clock.now() - NOON < timedelta(seconds=2)
    machine.time = NOON + timedelta(seconds=5)
    machine.seconds += 5
    clock.record_date(written(5), 0)
    assert clock.now() == machine.time
    assert re.search(r"off by \+(3599|3600) s", caplog.text)


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_machine_clock_that_is_set_between_two_answers_has_no_effect(seconds: float) -> None:
    machine = Machine()
    clock = ServerClock(machine)
    clock.record_date(written(0), 0)
    machine.advance(1)
    machine.time += timedelta(seconds=seconds)
    assert clock.now() == NOON + timedelta(seconds=1)
    clock.record_date(written(1), 0)
    assert clock.now() == NOON + timedelta(seconds=1)


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Tue, 99 Jan 2030 12:00:00 GMT", "Tue, 01 Jan 2030 13:00:00 -0000"]
)
def test_invalid_dates_are_ignored(date: str) -> None:
    clock = ServerClock(Machine())
    clock.record_date(date, 0)
    assert clock.now() == NOON
