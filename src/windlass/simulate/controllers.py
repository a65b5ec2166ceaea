"""The work of a leader in the Simulation: the real Reflectors, cache, queue and executor, and a simulated `Api`.

A pass is a coroutine that runs until it awaits a request. The request arrives at the API server after a delay, and its
answer resumes the pass after another delay. When the leadership ends, the passes are cancelled, but requests that they
have sent still arrive.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from windlass.controller.engine.adaptive_batching import AdaptiveBatching
from windlass.controller.engine.api import RequestError, UnknownOutcomeError
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.lease_guard import LeaseGuard
from windlass.controller.engine.queue import KeyedQueue
from windlass.decide import decide, write_coalescing
from windlass.decide.types import Decision, Rules
from windlass.kubeapi.reflector import PAGE_SIZE, Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import CONFIG_MAPS, PODS
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus
from windlass.simulate import refusals, watches
from windlass.simulate.api import Effect, SimulatedApi
from windlass.simulate.api_server import ApiServer, Watched, WatchEventType
from windlass.simulate.encoded_statuses import EncodedStatuses
from windlass.simulate.invariants import Invariants, RequestInvariants, require
from windlass.simulate.machines import Machine
from windlass.simulate.records import Records
from windlass.simulate.scenario import QUIET, Occurrence
from windlass.simulate.virtual_time import Resume, Task
from windlass.simulate.watches import History, Source

CHECK_EVERY = 10
"""Every tenth stored decision is repeated with the stored status, and both results are compared."""


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
    """The work of a leader, like `LeaderSession`: it begins with lists of all objects and ends with the leadership."""

    def __init__(
        self,
        machine: Machine,
        server: ApiServer,
        history: History,
        invariants: Invariants,
        request_invariants: RequestInvariants,
        rules: Rules,
        guard: LeaseGuard,
        has_other_leader: Callable[[], bool],
        records: Records,
        *,
        batch_size: int | None = None,
        encoded: EncodedStatuses | None = None,
        compression_threshold: int | None = None,
    ) -> None:
        self.machine = machine
        self._server = server
        self._history = history
        self._random = machine.random
        self._faults = machine.faults
        self._invariants = invariants
        self._rules = rules
        self._stores = 0
        self._request_invariants = request_invariants
        self._guard = guard
        self._has_other_leader = has_other_leader
        self.api = SimulatedApi(
            server,
            self._inject_fault,
            self._check_decision,
            self._invariants_of_leader,
            encoded,
            compression_threshold,
            guard=guard,
            send=self._send,
            records=records,
        )
        self.cache = Cache()
        self.queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        self.clock = machine.clock
        batching = AdaptiveBatching() if batch_size is None else AdaptiveBatching(batch_size)
        self._executor = Executor(self.api, self.cache, self.queue, self.clock, rules, batching)
        self._passes: dict[FrameworkKey, Task] = {}
        self.is_leader = True
        self.is_stopping = False
        self.has_changes = False
        """Whether the queue may have changed since `start_passes`."""
        self.suspension = 0.0
        """Seconds of suspension of the machine after the next requests, so that they or their answers are late."""
        self._next_tick: float | None = None
        self.passes = 0
        self._reflectors: list[Task] = []
        self._unlisted = list(watches.RESOURCES)
        """Resources that are not listed yet. Passes start when all are listed."""
        self._page_size = PAGE_SIZE if self._faults() == QUIET else self._random.choice((1, 3, PAGE_SIZE))
        self._start_next_reflector()

    def end(self) -> None:
        self.is_leader = False
        self._guard.revoke()
        for running in (*self._reflectors, *self._passes.values()):
            running.close()
        self._passes.clear()

    @property
    def is_busy(self) -> bool:
        """Whether passes run."""
        return bool(self._passes)

    def start_passes(self) -> None:
        if self._unlisted or self.is_stopping or self.machine.is_suspended:
            return
        self.has_changes = False
        while (key := self.queue.take(self.clock.monotonic())) is not None:
            self.passes += 1
            running = Task(self._executor.run_pass(key), partial(self._end_pass, key))
            self._passes[key] = running
            running.start()
        due = self.queue.next_time()
        if due is not None and (self._next_tick is None or due < self._next_tick):
            self._next_tick = due
            self.machine.at(due, self._tick)

    def _tick(self) -> None:
        self._next_tick = None
        self.has_changes = True

    def _end_pass(self, key: FrameworkKey) -> None:
        del self._passes[key]
        self.queue.done(key)
        self.has_changes = True

    def _enqueue(self, keys: set[FrameworkKey]) -> None:
        self.has_changes = True
        for key in sorted(keys):
            self.queue.add(key)

    # Lists and watches

    def _start_next_reflector(self) -> None:
        """Start the next Reflector, or the passes if all have listed their objects."""
        if not self._unlisted:
            self._enqueue(set(self.cache.keys()))
            return
        machine, resource = self.machine, self._unlisted[0]
        source = Source(self._history, resource, machine)
        started = Reflector(
            source,
            resource,
            receive=partial(self._receive, source),
            page_size=self._page_size,
            randomness=self._random.random,
            sleep=machine.sleep,
            clock=self.clock.monotonic,
        )
        running = Task(started.run())
        self._reflectors.append(running)
        running.start()

    def _receive(self, source: Source, event: ResourceEvent) -> None:
        match event:
            case Listed(items, version):
                self._enqueue(self._record_list(source, items, version))
                if source.resource in self._unlisted:
                    self._unlisted.remove(source.resource)
                    self._start_next_reflector()
            case Changed(body):
                self._enqueue(receive(self.cache, WatchEventType.CHANGED, source.object_of(body)))
            case Deleted(body):
                self._enqueue(receive(self.cache, WatchEventType.DELETED, source.object_of(body)))

    def _record_list(self, source: Source, items: Sequence[msgspec.Raw], version: str) -> set[FrameworkKey]:
        found: list[Any] = [source.object_of(item) for item in items]
        if source.resource == CONFIG_MAPS:
            return self.cache.replace(ConfigMapView, found, version)
        if source.resource == PODS:
            return self.cache.replace(PodView, found, version)
        return self.cache.replace_frameworks(found, version, group=source.resource.group)

    # Requests

    def _send(self, effects: Sequence[Effect], resume: Resume) -> None:
        """Send requests with random latencies, and resume the pass after the last answer."""
        require(not self._has_other_leader(), "a request is sent while another replica holds the lease")
        answers: list[Any] = [None] * len(effects)
        sent_at, sent_time = self.clock.monotonic(), self._server.now
        missing = [len(effects)]

        def arrive(number: int, effect: Effect) -> None:
            is_too_late = self._has_other_leader()
            if is_too_late:
                self._server.occurred.add(Occurrence.LATE_REQUEST)
                is_excused = self.machine.was_suspended_since(sent_time)
                require(is_excused, "a request arrives while another replica holds the lease")
            self._invariants.is_request_late = self._is_late()
            self._invariants.has_other_leader = is_too_late
            answer = effect()
            self._invariants.is_request_late = self._invariants.has_other_leader = False
            self.machine.later(self.machine.latency(), lambda: collect(number, answer))

        def collect(number: int, answer: Any) -> None:
            self.machine.record_date(sent_at)
            answers[number] = answer
            missing[0] -= 1
            if not missing[0]:
                resume(answers)

        for number, effect in enumerate(effects):
            self.machine.later(self.machine.latency(), partial(arrive, number, effect))
        if self.suspension:
            self.machine.later(self._random.uniform(0, 0.02), partial(self.machine.suspend, self.suspension))
            self.suspension = 0.0

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

    def _is_late(self) -> bool:
        return not self.is_leader or self._has_other_leader()

    def _invariants_of_leader(self) -> RequestInvariants | None:
        """Return the invariants of requests, or None if this is not the leader any more: late requests are not
        checked."""
        return None if self._is_late() else self._request_invariants

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
