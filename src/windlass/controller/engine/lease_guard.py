"""Rejects requests that might end after the lease has expired, when another replica may lead."""

import math
from typing import Protocol

from windlass.controller.engine.port import PortError


class NotLeadingError(PortError):
    """The request was not sent because the lease expires too soon. Nothing was written."""


class HeldLease(Protocol):
    def remaining(self) -> float:
        """Return the seconds for which no other replica can lead."""


class LeaseGuard:
    """Rejects every request until a lease is granted."""

    def __init__(self) -> None:
        self._lease: HeldLease | None = None

    def grant(self, lease: HeldLease) -> None:
        self._lease = lease

    def revoke(self) -> None:
        self._lease = None

    def check(self, timeout: float) -> None:
        """Raise NotLeadingError unless a request that takes up to `timeout` seconds ends within the lease."""
        if self._lease is None:
            raise NotLeadingError("this replica is not the leader")
        remaining = self._lease.remaining()
        if remaining < timeout:
            raise NotLeadingError(
                f"the lease expires in {remaining:.1f} s and the request may take {timeout:g} s"
            )


class _Unlimited:
    def remaining(self) -> float:
        return math.inf


def unrestricted() -> LeaseGuard:
    """Return a guard for a single replica without leader election."""
    guard = LeaseGuard()
    guard.grant(_Unlimited())
    return guard
