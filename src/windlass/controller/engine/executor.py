"""Runs the passes of the controller: observe, decide, store or defer the status, act, record the outcomes, requeue.

A conflict drops the decision, because it was made on an outdated Framework. A crash between two steps loses nothing:
deciding again on the stored status yields the same actions until their outcomes are observed.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from windlass.controller.engine.actions import ActionRunner, ChoosePorts
from windlass.controller.engine.adaptive_batching import AdaptiveBatching
from windlass.controller.engine.api import Api, RequestError, UnknownOutcomeError
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.keys import Finished, FrameworkKey
from windlass.controller.engine.queue import KeyedQueue
from windlass.decide import decide, decide_deletion
from windlass.decide import types as decide_types
from windlass.decide.types import CreatePod, Decision, Reason, Rules
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.objects.pod import DEFAULT_POD_OPTIONS, PodOptions

MAX_SLEEP = 600.0
"""Seconds after which a pass runs even if the next deadline is later: the wall clock may have been changed."""
MAX_FINISHED_SLEEP = 6 * 3600.0
"""The same for finished Frameworks, of which there may be many."""

SETTLE_PER_TASK = 20e-6
"""Seconds per task for which changes of a Framework are collected into one pass. A pass over ten thousand tasks takes
tens of milliseconds; for a small Framework the delay is below MIN_SETTLE and skipped."""
MIN_SETTLE = 1e-3
MAX_SETTLE = 0.5
MIN_GANG_DELAY = 3.0
"""A status may be deferred for at least this many seconds while there are pods to create."""


OnStored = Callable[[Framework, Sequence[Reason]], None]
"""Receives the reasons of a stored decision before its actions, which may delete pods. Must not block or raise."""


class _PendingStatus:
    """The status of one Framework between the decision and the answer of the API server.

    A status that no action depends on may be deferred, so that one request stores it together with later changes. The
    next decision continues from a deferred status.
    """

    def __init__(self) -> None:
        self.unanswered: Decision | None = None
        """The decision whose status update has an unknown outcome: the cached status may be outdated."""
        self._deferred: Decision | None = None
        self._decided_on = ""
        """The resourceVersion of the Framework that the deferred decision is based on."""
        self._deferred_since: float | None = None
        self._last_update_seconds = 0.0
        self._was_last_deferred = False
        """Whether the last update stored a status that no action depends on."""

    def deferred_decision(self, framework: Framework) -> Decision | None:
        """Return the decision whose status is deferred, unless the Framework has changed since that decision."""
        is_of_this_version = self._decided_on == framework.metadata.resource_version
        return self._deferred if is_of_this_version else None

    def deadline(self, decision: Decision, batching: AdaptiveBatching, now: float) -> float | None:
        """Return the time up to which the decided status may be deferred, or None if it must be stored now.

        The delay begins with the first call after `clear`.
        """
        if not decision.may_wait or decision.status is None:
            return None
        delay = batching.max_status_delay(
            decision.status.summary.tasks,
            self._last_update_seconds,
            now,
            is_first=not self._was_last_deferred,
        )
        if any(isinstance(action, CreatePod) for action in decision.actions):
            delay = max(delay, MIN_GANG_DELAY)
        if self._deferred_since is None:
            self._deferred_since = now
        deadline = self._deferred_since + delay
        return deadline if now < deadline else None

    def defer(self, decision: Decision, framework: Framework) -> None:
        self._deferred = decision
        self._decided_on = framework.metadata.resource_version

    def record_update(self, decision: Decision, seconds: float) -> None:
        self._last_update_seconds = seconds
        self._was_last_deferred = decision.may_wait

    def clear(self) -> None:
        """Record that the decided status is stored, or does not differ from the stored one."""
        self._deferred = None
        self._deferred_since = None


class Executor:
    def __init__(
        self,
        api: Api,
        cache: Cache,
        queue: KeyedQueue[FrameworkKey],
        clock: Clock,
        rules: Rules,
        batching: AdaptiveBatching | None = None,
        pod_options: PodOptions = DEFAULT_POD_OPTIONS,
        choose_ports: ChoosePorts | None = None,
        on_stored: OnStored | None = None,
    ) -> None:
        self._api = api
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._rules = rules
        self._batching = batching or AdaptiveBatching()
        self._on_stored = on_stored
        self._actions = ActionRunner(
            api, cache, queue, clock, self._batching, pod_options=pod_options, choose_ports=choose_ports
        )
        self._pending: dict[FrameworkKey, _PendingStatus] = {}

    async def run_pass(self, key: FrameworkKey) -> None:
        """Run one pass over one Framework. The queue allows one pass per Framework at a time.

        An exception that this method raises is a bug: the caller logs it and continues with the other Frameworks.
        """
        if (finished := self._cache.finished(key)) is not None:
            await self._resume_if_expired(key, finished)
        framework = self._cache.framework(key)
        if framework is None:
            self._pending.pop(key, None)
            if self._cache.finished(key) is None:
                await self._clean_up(key)
            return
        pending = self._pending.setdefault(key, _PendingStatus())
        if pending.unanswered is not None and not await self._reread(key, framework, pending):
            return
        framework = self._cache.framework(key) or framework
        now = self._clock.now()
        observed = self._cache.observe(key, now, self._clock.monotonic())
        decision = decide(framework, observed, now, self._rules, pending.deferred_decision(framework))
        self._schedule(key, decision, now)
        try:
            current, reasons = await self._store_or_defer(key, framework, decision, pending)
            if current is not None:
                await self._act_and_announce(current, decision, reasons)
        except RequestError as error:
            self._api.report_failure(framework, "apply a decision", error)
            self._queue.retry(key, self._clock.monotonic())
            return
        self._queue.succeeded(key)
        if decision.actions and current is not None:
            self._queue.add(key)
        elif self._finish(framework, decision):
            self._pending.pop(key, None)

    def _finish(self, framework: Framework, decision: Decision) -> bool:
        """Drop a completed Framework from the cache until it expires. Return False if something is left to do."""
        status = framework.status
        if status is None or status.state is not State.COMPLETED or framework.is_deleting:
            return False
        is_settled = not decision.actions and decision.status == status
        return is_settled and decision.wake_at is not None and self._cache.finish(framework, decision.wake_at)

    async def _resume_if_expired(self, key: FrameworkKey, finished: Finished) -> None:
        """Read a finished Framework that has expired into the cache."""
        now = self._clock.now()
        if now < finished.expires_at:
            seconds = min((finished.expires_at - now).total_seconds(), MAX_FINISHED_SLEEP)
            self._queue.add_at(key, self._clock.monotonic() + seconds)
            return
        try:
            current = await self._api.read_framework(key)
        except RequestError:
            self._queue.retry(key, self._clock.monotonic())
            return
        if self._cache.finished(key) == finished:
            self._cache.resume_finished(key, current)

    async def _clean_up(self, key: FrameworkKey) -> None:
        """Delete the remaining objects of a deleted Framework."""
        deleted = self._cache.deleted_framework(key)
        if deleted is None:
            self._queue.forget(key)
            return
        now = self._clock.now()
        observed = self._cache.observe(key, now, self._clock.monotonic())
        decision = decide_deletion(deleted, observed, now, self._rules)
        self._requeue_at_deadline(key, decision, now)
        try:
            await self._actions.run(deleted, decision.actions)
        except RequestError as error:
            self._api.report_failure(deleted, "delete its remaining objects", error)
            self._queue.retry(key, self._clock.monotonic())
            return
        self._queue.succeeded(key)
        if decision.actions:
            self._queue.add(key)

    async def _reread(self, key: FrameworkKey, framework: Framework, pending: _PendingStatus) -> bool:
        """Read the Framework after a status update with an unknown outcome. Return False if the pass cannot continue.

        The stored status may be newer than the cached one, so it has to be read before any action.
        """
        try:
            current = await self._api.read_framework(framework)
        except RequestError as error:
            self._api.report_failure(framework, "read its status", error)
            self._queue.retry(key, self._clock.monotonic())
            return False
        if current is None or current.uid != framework.uid:
            # The watch will report the deletion. The retry is needed for an API server that has just started and
            # does not serve Frameworks yet.
            self._queue.retry(key, self._clock.monotonic())
            return False
        unanswered, pending.unanswered = pending.unanswered, None
        self._cache.put_framework(current)
        if unanswered is not None and current.status == unanswered.status:
            # The status was stored and only the answer was lost.
            pending.clear()
            self._report_stored(current, unanswered.reasons)
            self._announce(current, unanswered.reasons, are_actions_done=False)
        return True

    def _schedule(self, key: FrameworkKey, decision: Decision, now: datetime) -> None:
        self._requeue_at_deadline(key, decision, now)
        if decision.actions or decision.status is None:
            return
        settle_seconds = min(SETTLE_PER_TASK * decision.status.summary.tasks, MAX_SETTLE)
        if settle_seconds >= MIN_SETTLE:
            self._queue.hold(key, self._clock.monotonic() + settle_seconds)

    def _requeue_at_deadline(self, key: FrameworkKey, decision: Decision, now: datetime) -> None:
        if decision.wake_at is not None:
            seconds = min((decision.wake_at - now).total_seconds(), MAX_SLEEP)
            self._queue.add_at(key, self._clock.monotonic() + max(seconds, 0))

    async def _store_or_defer(
        self, key: FrameworkKey, framework: Framework, decision: Decision, pending: _PendingStatus
    ) -> tuple[Framework | None, Sequence[Reason]]:
        """Store or defer the decided status. Return the Framework with this status and the reasons to announce.

        The Framework is None if it is no longer in the cache: no action may be run for it.
        """
        if decision.status is None or decision.status == framework.status:
            pending.clear()
            return framework, decision.reasons if decision.actions else ()
        deadline = pending.deadline(decision, self._batching, self._clock.monotonic())
        if deadline is not None:
            pending.defer(decision, framework)
            self._queue.add_at(key, deadline)
            return framework.with_status(decision.status, framework.metadata.resource_version), ()
        began = self._clock.monotonic()
        try:
            stored = await self._api.store_status(framework, decision.status)
        except UnknownOutcomeError:
            pending.unanswered = decision
            raise
        ended = self._clock.monotonic()
        pending.record_update(decision, ended - began)
        self._batching.record_update(ended - began, ended)
        if not self._cache.record_stored(stored):
            return None, ()
        pending.clear()
        return stored, decision.reasons

    async def _act_and_announce(
        self, framework: Framework, decision: Decision, reasons: Sequence[Reason]
    ) -> None:
        self._report_stored(framework, reasons)
        are_actions_done = False
        try:
            await self._actions.run(framework, decision.actions)
            are_actions_done = True
        finally:
            self._announce(framework, reasons, are_actions_done=are_actions_done)

    def _report_stored(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        if self._on_stored is not None and reasons:
            self._on_stored(framework, reasons)

    def _announce(self, framework: Framework, reasons: Sequence[Reason], *, are_actions_done: bool) -> None:
        announced = [
            reason
            for reason in reasons
            if are_actions_done or reason.kind not in decide_types.REPORTED_AFTER_ACTIONS
        ]
        if announced:
            self._api.announce(framework, announced)
