import pytest

from windlass.controller.engine.lease_guard import LeaseGuard, NotLeadingError, unrestricted


def _opened() -> LeaseGuard:
    return LeaseGuard(lambda: 4.5)


def _closed_again() -> LeaseGuard:
    guard = _opened()
    guard.revoke()
    return guard


@pytest.mark.parametrize(
    ("guard", "timeout", "message"),
    [
        (_opened(), 4.5, ""),
        (_opened(), 0.1, ""),
        (unrestricted(), 1e9, ""),
        (_opened(), 5, "the lease expires in 4.5 s and the request may take 5 s"),
        (_closed_again(), 0, "this replica is not the leader"),
    ],
)
def test_request_is_rejected_unless_it_ends_within_the_lease(
    guard: LeaseGuard, timeout: float, message: str
) -> None:
    assert _rejection(guard, timeout) == message


def _rejection(guard: LeaseGuard, timeout: float) -> str:
    try:
        guard.check(timeout)
    except NotLeadingError as error:
        return str(error)
    return ""
