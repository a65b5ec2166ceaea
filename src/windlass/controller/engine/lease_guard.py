"""Rejects requests that might end after the lease has expired, when another replica may lead."""

import math
from collections.abc import Callable

from windlass.controller.engine.api import RequestError


class NotLeadingError(RequestError):
    """The request was not sent: the lease expires too soon, or this replica no longer leads."""


class LeaseGuard:
    def __init__(self, remaining: Callable[[], float]) -> None:
        """`remaining` returns the seconds for which no other replica can lead."""
        self._remaining: Callable[[], float] | None = remaining

    def revoke(self) -> None:
        """Reject every request from now on."""
        self._remaining = None

    def check(self, timeout: float) -> None:
        """Raise NotLeadingError unless a request that takes up to `timeout` seconds ends within the lease."""
        if self._remaining is None:
            raise NotLeadingError("this replica is not the leader")
        remaining = self._remaining()
        if remaining < timeout:
            raise NotLeadingError(
                f"the lease expires in {remaining:.1f} s and the request may take {timeout:g} s"
            )


def unrestricted() -> LeaseGuard:
    """Return a guard for a single replica without leader election."""
    return LeaseGuard(lambda: math.inf)
