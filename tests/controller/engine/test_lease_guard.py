import pytest

from windlass.controller.engine.lease_guard import Gate, NotLeadingError, always_open


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


@pytest.mark.parametrize(
    ("gate", "timeout", "message"),
    [
        (_opened(), 4.5, ""),
        (_opened(), 0.1, ""),
        (always_open(), 1e9, ""),
        (_opened(), 5, "the lease ends in 4.5 s, and the request may take 5 s"),
        (Gate(), 0, "this replica does not lead"),
        (_closed_again(), 0, "this replica does not lead"),
    ],
)
def test_request_is_rejected_unless_it_ends_within_the_lease(
    gate: Gate, timeout: float, message: str
) -> None:
    assert _rejection(gate, timeout) == message


def _rejection(gate: Gate, timeout: float) -> str:
    try:
        gate.check(timeout)
    except NotLeadingError as error:
        return str(error)
    return ""
