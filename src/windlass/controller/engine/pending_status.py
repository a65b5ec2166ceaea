"""The status of one Framework between the decision and the answer of the API server.

A status that no action depends on may be deferred, so that one request stores it together with later changes. The next
decision continues from a deferred status. The pass that stores, defers and acts is in `executor`.
"""

from windlass.controller.engine.adaptive_batching import AdaptiveBatching
from windlass.decide.types import CreatePod, Decision
from windlass.model.framework import Framework

MIN_GANG_DELAY = 3.0
"""Seconds for which pods of a large gang are created before the first of them are stored in the status."""


class PendingStatus:
    """Records which status waits to be stored, since when, and whether the last store was answered."""

    def __init__(self) -> None:
        self.unanswered: Decision | None = None
        """The decision whose store was not answered: the cached Framework may be older than the stored one."""
        self._deferred: Decision | None = None
        self._decided_on = ""
        """The resourceVersion of the Framework that the deferred decision is based on."""
        self._since: float | None = None
        self._last_store_seconds = 0.0

    def deferred_decision(self, framework: Framework) -> Decision | None:
        """Return the decision that waits to be stored, unless the Framework has changed since it was made."""
        is_of_this_version = self._decided_on == framework.metadata.resource_version
        return self._deferred if is_of_this_version else None

    def deadline(self, decision: Decision, batching: AdaptiveBatching, now: float) -> float | None:
        """Return the time up to which the decided status may be deferred, or None if it must be stored now."""
        if not decision.may_wait or decision.status is None:
            return None
        delay = batching.max_status_delay(decision.status.summary.tasks, self._last_store_seconds, now)
        if any(isinstance(action, CreatePod) for action in decision.actions):
            delay = max(delay, MIN_GANG_DELAY)
        if self._since is None:
            self._since = now
        deadline = self._since + delay
        return deadline if now < deadline else None

    def defer(self, decision: Decision, framework: Framework) -> None:
        self._deferred = decision
        self._decided_on = framework.metadata.resource_version

    def record_duration(self, seconds: float) -> None:
        self._last_store_seconds = seconds

    def clear(self) -> None:
        """Record that the decided status is stored, or does not differ from the stored one."""
        self._deferred = None
        self._since = None
