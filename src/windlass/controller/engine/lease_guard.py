"""Nothing is begun that might end after the lease: another may lead by then."""

import math
from typing import Protocol

from windlass.controller.engine.port import PortError


class NotLeadingError(PortError):
    """What was asked for was not begun: too little of the lease is left. Nothing was written."""


class Lead(Protocol):
    def remaining(self) -> float:
        """For so many seconds from now nobody else can lead."""


class Gate:
    """Closed at first. Open while we lead, for what ends in time."""

    def __init__(self) -> None:
        self._lead: Lead | None = None

    def open(self, lead: Lead) -> None:
        self._lead = lead

    def close(self) -> None:
        self._lead = None

    def check(self, timeout: float) -> None:
        """Raises NotLeadingError unless a request that takes up to `timeout` seconds ends within the lease."""
        if self._lead is None:
            raise NotLeadingError("this replica does not lead")
        remaining = self._lead.remaining()
        if remaining < timeout:
            raise NotLeadingError(
                f"the lease ends in {remaining:.1f} s, and the request may take {timeout:g} s"
            )


class _Forever:
    def remaining(self) -> float:
        return math.inf


def always_open() -> Gate:
    """For a single replica, which no election can depose."""
    gate = Gate()
    gate.open(_Forever())
    return gate
