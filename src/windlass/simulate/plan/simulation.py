"""Plays one job on a virtual clock, with the faults that are asked for: what would become of it, and why.

The controller's own queue, cache, executor and decisions run here, as in the Simulation. But nothing is drawn, requests
take no time, and nothing fails that was not asked to: the same job and the same faults give the same plan.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec

from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.queue import KeyedQueue
from windlass.decide.decision import DEFAULT_RULES
from windlass.decide.types import ReasonKind, Rules
from windlass.model.completion import CompletionTypeName
from windlass.model.framework import ExecutionType, Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, RetryPolicyStatus
from windlass.simulate import builders
from windlass.simulate.api_server import ApiServer, Verb, Watched
from windlass.simulate.controllers import SimulatedPort, received
from windlass.simulate.plan import story
from windlass.simulate.plan.pods import LONGEST, Habits, PlannedPods
from windlass.simulate.plan.story import Event
from windlass.simulate.virtual_time import Timeline, VirtualClock
from windlass.wire import durations
from windlass.wire.fault_injection import Injection

MOST_EVENTS = 1_000
MOST_PODS = 50_000
"""A job that goes on for longer than that is tried again and again, and nobody reads on."""
UNTIL = 30 * 86400.0


class Retries(msgspec.Struct, frozen=True):
    counted: int
    """Of the whole job, held against maxRetryCount."""
    uncounted: int
    """Of the whole job, after transient failures."""
    tasks: int
    """Of single tasks, in all attempts of the job."""


class Outcome(msgspec.Struct, frozen=True):
    ended: bool
    state: str
    code: int | None
    phrase: str
    type: str
    """Succeeded or Failed, and what is known about the failure. Empty if it has not ended."""
    why: str
    """What decided it, or what keeps it from its end."""
    seconds: float
    attempts: int
    """Of the whole job."""
    retries: Retries
    pods: int
    """How many were made."""
    never: tuple[str, ...]
    """The injections that never came to pass."""

    @property
    def succeeded(self) -> bool:
        return self.type == CompletionTypeName.SUCCEEDED


class Plan(msgspec.Struct, frozen=True):
    job: str
    events: tuple[Event, ...]
    outcome: Outcome


def plan(
    framework: Framework,
    injections: Sequence[Injection] = (),
    habits: Habits | None = None,
    *,
    until: float = UNTIL,
    rules: Rules = DEFAULT_RULES,
) -> Plan:
    """`until`: seconds after which a job that goes on is left to itself."""
    return _Play(framework, injections, habits or Habits(), rules).run(min(until, LONGEST))


class _Play:
    def __init__(
        self, framework: Framework, injections: Sequence[Injection], habits: Habits, rules: Rules
    ) -> None:
        self._injections = injections
        self._timeline = Timeline(builders.NOW)
        self._clock = VirtualClock(self._timeline)
        self._server = ApiServer(self._timeline, Random(0))
        self._pods = PlannedPods(self._timeline, self._server, framework, habits, injections, self._tell)
        self._port = SimulatedPort(
            self._server, spoil=lambda *_: None, check=lambda *_: None, judge=lambda: None
        )
        self._cache = Cache()
        self._queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        self._executor = Executor(self._port, self._cache, self._queue, self._clock, rules)
        self._events: list[Event] = []
        self._server.watchers.append(self._receive)
        self._server.create_framework(framework)
        self._key = key_of(framework)

    def run(self, until: float) -> Plan:
        while not self._is_over and (key := self._next_key(until)) is not None:
            self._pass(key)
        return Plan(self._framework.name, tuple(self._events), self._outcome(until))

    @property
    def _seconds(self) -> float:
        return round(self._clock.monotonic(), 3)

    @property
    def _framework(self) -> Framework:
        return self._server.frameworks[self._key]

    @property
    def _status(self) -> FrameworkStatus | None:
        return self._framework.status

    @property
    def _is_too_much(self) -> bool:
        return len(self._events) >= MOST_EVENTS or self._pods.made >= MOST_PODS

    @property
    def _is_over(self) -> bool:
        is_completed = self._status is not None and self._status.state is State.COMPLETED
        return is_completed or self._is_too_much

    def _next_key(self, until: float) -> FrameworkKey | None:
        """Lets time pass until there is something to look at. None: there never is, or not by then."""
        while (key := self._queue.take(self._clock.monotonic())) is None:
            if not self._let_pass(until):
                return None
        return key

    def _let_pass(self, until: float) -> bool:
        """To the next moment at which something happens, and all that happens then."""
        happens, rings = self._timeline.next_time(), self._next_ring()
        if rings is not None and (happens is None or rings < happens):
            self._timeline.at(rings, lambda: None)
            happens = rings
        if happens is None or happens > builders.NOW + timedelta(seconds=until):
            return False
        self._timeline.step()
        while self._timeline.next_time() == self._timeline.now:
            self._timeline.step()
        return True

    def _next_ring(self) -> datetime | None:
        timer = self._queue.next_time()
        if timer is None:
            return None
        # A microsecond more than a float may have lost.
        seconds = max(timer - self._clock.monotonic(), 0)
        return self._timeline.now + timedelta(seconds=seconds, microseconds=1)

    def _pass(self, key: FrameworkKey) -> None:
        """One look of the controller, and what has come of it."""
        before, told, heard = self._status, len(self._port.reasons), len(self._events)
        running = self._executor.run_pass(key)
        answers: list[Any] | None = None
        try:
            while True:
                requests = running.send(answers)
                answers = [effect() for effect in requests.effects]
        except StopIteration:
            self._queue.done(key)
        reasons = [reason for _, reason in self._port.reasons[told:]]
        if self._status is not None and (reasons or self._status is not before):
            # What was done to the pods that it made comes after it.
            self._events[heard:heard] = story.events(self._seconds, before, self._status, reasons)

    def _receive(self, verb: Verb, found: Watched) -> None:
        for key in sorted(received(self._cache, verb, found)):
            self._queue.add(key)

    def _tell(self, role: str, index: int, what: str) -> None:
        """What happens to several tasks of a role at once is one event."""
        event = Event(self._seconds, role, (index,), "", what)
        last = self._events[-1] if self._events else None
        if last is not None and last.comes_before(event):
            self._events[-1] = last.with_task(index)
        else:
            self._events.append(event)

    def _outcome(self, until: float) -> Outcome:
        status = self._status
        ended = None if status is None else status.attempt_status.completion_status
        is_ended = status is not None and status.state is State.COMPLETED
        retried = RetryPolicyStatus() if status is None else status.retry_policy_status
        if not is_ended or ended is None:
            code, phrase, kind, why = None, "", "", self._obstacle(until)
        else:
            code, phrase, kind = ended.code, ended.phrase, story.class_of(ended.type)
            why = story.cause(ended)
        return Outcome(
            ended=is_ended,
            state="" if status is None else status.state,
            code=code,
            phrase=phrase,
            type=kind,
            why=why,
            seconds=self._seconds,
            attempts=retried.total_retried_count + 1,
            retries=Retries(
                counted=retried.accountable_retried_count,
                uncounted=retried.total_retried_count - retried.accountable_retried_count,
                tasks=sum(reason.kind is ReasonKind.TASK_RETRIED for _, reason in self._port.reasons),
            ),
            pods=self._pods.made,
            never=tuple(str(each) for each in self._injections if each not in self._pods.happened),
        )

    def _obstacle(self, until: float) -> str:
        """What keeps the job from its end."""
        if self._is_too_much:
            return f"it is tried again and again: {len(self._events)} events and {self._pods.made} pods were followed"
        is_at_rest = self._timeline.next_time() is None and self._queue.next_time() is None
        if not is_at_rest:
            return f"it still goes on after {durations.written(until)}"
        spec = self._framework.spec
        if spec.suspend or spec.execution_type is ExecutionType.CREATE:
            held = "spec.suspend is true" if spec.suspend else "spec.executionType is Create"
            return f"it is held and does not start: {held}"
        return story.endless(self._status)
