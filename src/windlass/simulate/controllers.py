"""A controller in the Simulation: the real cache, queue and executor, and a port whose requests take time and may fail.

A pass is a coroutine that runs until it awaits a request. The request arrives at the API server after a delay, and its
answer resumes the pass after another delay. A crash drops the passes; requests that they have sent still arrive.
"""

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from email.utils import format_datetime
from functools import partial
from random import Random
from typing import Any

from windlass.controller.engine.adaptive_batching import AdaptiveBatching
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.port import RequestError, UnknownOutcomeError
from windlass.controller.engine.queue import KeyedQueue
from windlass.controller.engine.system_clock import ServerClock
from windlass.decide import decide, write_coalescing
from windlass.decide.types import Decision, Rules
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus
from windlass.simulate import refusals
from windlass.simulate.api_server import ApiServer, Watched, WatchEventType
from windlass.simulate.encoded_statuses import EncodedStatuses
from windlass.simulate.invariants import Invariants, RequestInvariants, require
from windlass.simulate.port import Requests, SimulatedPort
from windlass.simulate.scenario import Faults, Occurrence
from windlass.simulate.virtual_time import Timeline, VirtualClock

CHECK_EVERY = 10
"""Every tenth stored decision is repeated with the stored status, and both results are compared."""
MAX_LIST_SEC = 0.3
LEASE_RENEWAL_SEC = 2.0
"""Interval of renewals of the Lease, whose answers show the server's time even if nothing else is requested."""
MAX_REQUEST_SEC = 2.0
"""Maximum duration of a request. After a crash, the next leader starts later than that, as the real lease ensures."""


_Lists = tuple[tuple[Mapping[Any, Any], Callable[[Any, str], set[FrameworkKey]]], ...]
"""Pairs of the objects to list and the function that puts the list into the cache."""


def receive(cache: Cache, event_type: WatchEventType, found: Watched) -> set[FrameworkKey]:
    """Record a watch event in the cache. Return the keys of the Frameworks that it affects."""
    is_deleted = event_type is WatchEventType.DELETED
    match found:
        case Framework():
            is_news = cache.remove_framework(found) if is_deleted else cache.put_framework(found)
            return {key_of(found)} if is_news else set()
        case ConfigMapView() | PodView():
            return cache.remove(found) if is_deleted else cache.put(found)


class SimulatedController:
    """One replica, from start to crash."""

    def __init__(
        self,
        timeline: Timeline,
        server: ApiServer,
        random: Random,
        faults: Callable[[], Faults],
        invariants: Invariants,
        request_invariants: RequestInvariants,
        rules: Rules,
        batch_size: int | None = None,
        *,
        rate: float = 1.0,
        ahead: float = 0.0,
        encoded: EncodedStatuses | None = None,
        compression_threshold: int | None = None,
    ) -> None:
        self._timeline = timeline
        self._server = server
        self._random = random
        self._faults = faults
        self._invariants = invariants
        self._rules = rules
        self._stores = 0
        self._request_invariants = request_invariants
        self.port = SimulatedPort(
            server,
            self._inject_fault,
            self._check_decision,
            self._invariants_of_leader,
            encoded,
            compression_threshold,
        )
        self.cache = Cache()
        self.queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        self.machine_clock = VirtualClock(timeline, rate=rate, ahead=ahead)
        self.clock = ServerClock(self.machine_clock)
        batching = AdaptiveBatching() if batch_size is None else AdaptiveBatching(batch_size)
        self._executor = Executor(self.port, self.cache, self.queue, self.clock, rules, batching)
        self._passes: dict[FrameworkKey, Coroutine[Requests, list[Any], None]] = {}
        self.is_alive = True
        self.is_leader = False
        self.has_changes = False
        """Whether the queue may have changed since `start_passes`."""
        self._date_recorded_at = timeline.now
        self._is_relist_planned = False
        self._silent_until = dict.fromkeys((Framework, ConfigMapView, PodView), timeline.now)
        self.passes = 0
        server.watchers.append(self._on_event)
        self.relist()

    def crash(self) -> None:
        self.is_alive = self.is_leader = False
        self._server.watchers.remove(self._on_event)
        for running in self._passes.values():
            running.close()
        self._passes.clear()

    def step_clock(self, seconds: float) -> None:
        """Move the machine's clock by `seconds`. The next renewal of the Lease shows the server's time."""
        self.machine_clock.step(seconds)
        self._date_recorded_at = self._timeline.now
        self._timeline.after(self._random.uniform(0, LEASE_RENEWAL_SEC), self._record_date)

    def _record_date(self, seconds: float = 0.0) -> None:
        """If clocks may be wrong, read the `Date` header of an answer, which arrives `seconds` after its request."""
        if not self._server.clock_tolerance:
            return
        self._date_recorded_at = self._timeline.now
        before = self.clock.now()
        self.clock.record_date(format_datetime(self._server.now, usegmt=True), seconds)
        if self.clock.now() != before:
            self._server.occurred.add(Occurrence.CLOCK_CORRECTED)

    def start_passes(self) -> None:
        """Start the passes that are due."""
        self.has_changes = False
        if self._timeline.now >= self._date_recorded_at + timedelta(seconds=LEASE_RENEWAL_SEC):
            self._record_date()
        while (key := self.queue.take(self.clock.monotonic())) is not None:
            self.passes += 1
            running = self._executor.run_pass(key)
            self._passes[key] = running
            self._resume(key, None)

    def relist(self, then: Callable[[], None] = lambda: None) -> None:
        """List Frameworks, ConfigMaps and pods one after the other, and then call `then`."""
        self._is_relist_planned = False
        lists: _Lists = (
            (self._server.frameworks, self.cache.replace_frameworks),
            (self._server.config_maps, partial(self.cache.replace, ConfigMapView)),
            (self._server.pods, partial(self.cache.replace, PodView)),
        )
        self._later(lambda: self._list(lists, then))

    def _list(self, lists: _Lists, then: Callable[[], None]) -> None:
        if not lists:
            then()
            return
        self._record_date()
        objects, replace = lists[0]
        listed, version = tuple(objects.values()), self._server.resource_version
        self._later(lambda: self._enqueue(replace(listed, version)))
        self._later(lambda: self._list(lists[1:], then), min_delay=MAX_LIST_SEC)

    def stall(self, number: int, seconds: float) -> None:
        """Delay new events of one of the three watches until `seconds` have passed."""
        watch = (Framework, ConfigMapView, PodView)[number % 3]
        self._silent_until[watch] = self._timeline.now + timedelta(seconds=seconds)

    def lead(self) -> None:
        """Become the leader after a relist, because the watches may not have delivered the last leader's writes yet."""
        self.relist(self._start_leading)

    def _start_leading(self) -> None:
        self.is_leader = True
        self._enqueue(set(self.cache.keys()))

    # Watches

    def _on_event(self, event_type: WatchEventType, found: Watched) -> None:
        faults = self._faults()
        if self._random.random() < faults.watch_drop:
            if not self._is_relist_planned:
                self._is_relist_planned = True
                self._timeline.after(self._random.uniform(1, 30), self.relist)
            return
        self._deliver(event_type, found)
        if self._random.random() < faults.watch_repeat:
            self._deliver(event_type, found)

    def _deliver(self, event_type: WatchEventType, found: Watched) -> None:
        delay = self._random.uniform(0.001, max(self._faults().watch_delay, 0.002))
        arrival = self._timeline.now + timedelta(seconds=delay)
        self._timeline.at(
            max(arrival, self._silent_until[type(found)]), lambda: self._receive(event_type, found)
        )

    def _receive(self, event_type: WatchEventType, found: Watched) -> None:
        if self.is_alive:
            self._enqueue(receive(self.cache, event_type, found))

    def _enqueue(self, keys: set[FrameworkKey]) -> None:
        self.has_changes = True
        for key in sorted(keys):
            self.queue.add(key)

    def _later(self, callback: Callable[[], None], min_delay: float = 0.001) -> None:
        def call() -> None:
            if self.is_alive:
                callback()

        self._timeline.after(min_delay + self._random.uniform(0, MAX_LIST_SEC - 0.001), call)

    # Requests

    def _resume(self, key: FrameworkKey, answers: list[Any] | None) -> None:
        running = self._passes.get(key)
        if running is None:
            return
        try:
            requests = running.send(answers)  # type: ignore[arg-type]
        except StopIteration:
            del self._passes[key]
            self.queue.done(key)
            self.has_changes = True
            return
        self._send(key, requests)

    def _send(self, key: FrameworkKey, requests: Requests) -> None:
        """Send requests with random latencies, and resume the pass after the last answer."""
        answers: list[Any] = [None] * len(requests.effects)
        sent_at = self.clock.monotonic()
        missing = [len(requests.effects)]

        def arrive(number: int, effect: Callable[[], Any]) -> None:
            self._invariants.is_request_late = not self.is_leader
            answer = effect()
            self._invariants.is_request_late = False
            self._timeline.after(self._latency(), lambda: collect(number, answer))

        def collect(number: int, answer: Any) -> None:
            self._record_date(self.clock.monotonic() - sent_at)
            answers[number] = answer
            missing[0] -= 1
            if not missing[0]:
                self._resume(key, answers)

        for number, effect in enumerate(requests.effects):
            self._timeline.after(self._latency(), partial(arrive, number, effect))

    def _latency(self) -> float:
        is_slow = self._random.random() < self._faults().error_before
        return (
            self._random.uniform(0.1, MAX_REQUEST_SEC / 2) if is_slow else self._random.uniform(0.001, 0.01)
        )

    def _inject_fault(self, moment: str, framework: Framework | None) -> RequestError | None:
        """Return an error for the request, or None. May change the Framework to cause a conflict."""
        faults = self._faults()
        draw = self._random.random()
        if moment.endswith("after"):
            return UnknownOutcomeError(f"{moment} it was written") if draw < faults.error_after else None
        if draw < faults.error_before:
            return UnknownOutcomeError(f"{moment} it was written")
        if framework is not None and self._random.random() < faults.conflict:
            self._touch(framework)
            return None
        return refusals.draw(self._random, faults, self._server, moment.removesuffix(" before"))

    def _invariants_of_leader(self) -> RequestInvariants | None:
        """Return the invariants of requests, or None after a crash: requests that arrive later are not checked."""
        return self._request_invariants if self.is_leader else None

    def _check_decision(self, framework: Framework, status: FrameworkStatus) -> None:
        """Require for every tenth store that the decision on the stored status yields the same status.

        If the decision can be resumed before the store, it must yield the same status and actions as after the store.
        """
        self._stores += 1
        if self._stores % CHECK_EVERY:
            return
        now = self.clock.now()
        observed = self.cache.observe(key_of(framework), now, self.clock.monotonic())
        stored = framework.with_status(status, str(int(framework.metadata.resource_version) + 1))
        second = decide(stored, observed, now, self._rules)
        require(second.status == status, f"{framework.name}: the decision on the stored status differs")
        if not write_coalescing.is_resumable(framework, status):
            return
        first = decide(framework, observed, now, self._rules, Decision(status))
        require(first.status == status, f"{framework.name}: two decisions on the same input differ")
        require(
            second.actions == first.actions,
            f"{framework.name}: the actions {first.actions} became {second.actions} after the store",
        )

    def _touch(self, framework: Framework) -> None:
        """Update the Framework, so that the controller's version is outdated."""
        current = self._server.frameworks.get(key_of(framework))
        if current is not None:
            self._server.put_framework(current)
