import pytest

from windlass.operate.gate import Gate, NotLeadingError, always_open


class _Lead:
    def remaining(self) -> float:
        return 4.5


def _opened() -> Gate:
    gate = Gate()
    gate.open(_Lead())
    return gate


def _closed_again() -> Gate:
    gate = _opened()
    gate.close()
    return gate


@pytest.mark.parametrize(("gate", "timeout"), [(_opened(), 4.5), (_opened(), 0.1), (always_open(), 1e9)])
def test_what_ends_within_the_lease_may_begin(gate: Gate, timeout: float) -> None:
    gate.check(timeout)


@pytest.mark.parametrize(
    ("gate", "timeout", "message"),
    [
        (_opened(), 5, r"the lease ends in 4\.5 s, and the request may take 5 s"),
        (Gate(), 0, "this replica does not lead"),
        (_closed_again(), 0, "this replica does not lead"),
    ],
)
def test_what_may_outlive_the_lease_does_not_begin(gate: Gate, timeout: float, message: str) -> None:
    with pytest.raises(NotLeadingError, match=message):
        gate.check(timeout)
