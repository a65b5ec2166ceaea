"""Simulate one job with chosen faults on a virtual clock, and return its events and outcome.

The controller's own queue, cache, executor and decisions run here, as in the Simulation. The seed is fixed, requests
take no time and only the chosen faults happen, so the same job and faults give the same plan.
"""

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import msgspec

from windlass.client import scale
from windlass.client.submit import plan as planner
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.queue import KeyedQueue
from windlass.decide.decision import DEFAULT_RULES
from windlass.decide.types import ReasonKind, Rules
from windlass.k8s.json_patch import json_patch
from windlass.model.completion import CompletionTypeName
from windlass.model.framework import ExecutionType, Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, RetryPolicyStatus
from windlass.render.documents import Submission
from windlass.render.framework import completion
from windlass.simulate import builders
from windlass.simulate.api import SimulatedApi
from windlass.simulate.api_server import ApiServer, Watched, WatchEventType
from windlass.simulate.controllers import receive
from windlass.simulate.plan import events as plan_events
from windlass.simulate.plan.events import Event
from windlass.simulate.plan.pods import MAX_SECONDS, PlannedPods, TaskBehavior
from windlass.simulate.virtual_time import Task, Timeline, VirtualClock
from windlass.wire import codec, durations
from windlass.wire.fault_injection import Injection

MAX_EVENTS = 1_000
MAX_PODS = 50_000
"""Limits of a simulation, because a job may be retried without end."""
DEFAULT_UNTIL = 30 * 86400.0


class Rescale(msgspec.Struct, frozen=True):
    """A change of the number of tasks of a role, as by `windlass scale`."""

    role: str
    tasks: int
    seconds: float
    """The time since the job was submitted."""

    def __str__(self) -> str:
        return f"{self.role}={self.tasks} after {durations.format_seconds(self.seconds)}"


class Retries(msgspec.Struct, frozen=True):
    counted: int
    """Retries of the job that count towards maxRetryCount."""
    uncounted: int
    """Other retries of the job, e.g. after transient failures."""
    tasks: int
    """Retries of tasks in all attempts of the job."""


class Outcome(msgspec.Struct, frozen=True):
    ended: bool
    state: str
    code: int | None
    phrase: str
    type: str
    """Succeeded or Failed, with the attributes of the failure. Empty if the job has not ended."""
    why: str
    """The cause of the outcome, or why the job does not end."""
    seconds: float
    attempts: int
    """Attempts of the job."""
    retries: Retries
    pods: int
    """Number of created pods."""
    never: tuple[str, ...]
    """The injections and rescales that never happened."""

    @property
    def succeeded(self) -> bool:
        return self.type == CompletionTypeName.SUCCEEDED


class Plan(msgspec.Struct, frozen=True):
    job: str
    events: tuple[Event, ...]
    outcome: Outcome


def framework_of(submission: Submission) -> Framework:
    """Render a job as it is submitted, without the status that the file may contain."""
    rendered = planner.render_framework(submission)
    return codec.decode_framework(msgspec.json.encode({**rendered, "status": None}))


def endless_roles(submission: Submission) -> frozenset[str]:
    """Return the roles of a job file whose tasks run servers of Windlass, which never exit on their own."""
    job = submission.job
    roles = () if job is None else job.roles
    return frozenset(
        role
        for role in roles
        if job is not None and (completion.is_idle_server(job, role) or completion.is_ssh_server(job, role))
    )


def plan(
    framework: Framework,
    injections: Sequence[Injection] = (),
    behavior: TaskBehavior | None = None,
    *,
    rescales: Sequence[Rescale] = (),
    until: float = DEFAULT_UNTIL,
    rules: Rules = DEFAULT_RULES,
) -> Plan:
    """Simulate a job for at most `until` seconds of virtual time.

    Raises InvalidJobError if a rescale is due for which `windlass scale` would report an error.
    """
    run = _PlanRun(framework, injections, behavior or TaskBehavior(), rules)
    for rescale in rescales:
        run.schedule(rescale)
    return run.run(min(until, MAX_SECONDS))


class _PlanRun:
    def __init__(
        self, framework: Framework, injections: Sequence[Injection], behavior: TaskBehavior, rules: Rules
    ) -> None:
        self._injections = injections
        self._pending_rescales: list[Rescale] = []
        self._timeline = Timeline(builders.NOW)
        self._clock = VirtualClock(self._timeline)
        self._server = ApiServer(self._timeline, Random(0))
        self._pods = PlannedPods(
            self._timeline, self._server, framework, behavior, injections, self._add_event
        )
        self._api = SimulatedApi(
            self._server, inject_fault=lambda *_: None, on_store=lambda *_: None, invariants=lambda: None
        )
        self._cache = Cache()
        self._queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        self._executor = Executor(self._api, self._cache, self._queue, self._clock, rules)
        self._events: list[Event] = []
        self._server.watchers.append(self._receive)
        self._server.create_framework(framework)
        self._key = key_of(framework)

    def schedule(self, rescale: Rescale) -> None:
        self._pending_rescales.append(rescale)
        if rescale.seconds < MAX_SECONDS:
            self._timeline.after(rescale.seconds, lambda: self._rescale(rescale))

    def _rescale(self, rescale: Rescale) -> None:
        self._pending_rescales.remove(rescale)
        planned = scale.plan_scaling(self._framework, {rescale.role: rescale.tasks})
        self._events.append(Event(self._seconds, "", (), "", "; ".join(planned.notes)))
        if planned.operations:
            written = msgspec.json.decode(codec.encode_framework(self._framework))
            patched = json_patch(written, list(planned.operations))
            self._server.put_framework(codec.decode_framework(msgspec.json.encode(patched)))

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
    def _is_over_limit(self) -> bool:
        return len(self._events) >= MAX_EVENTS or self._pods.created >= MAX_PODS

    @property
    def _is_over(self) -> bool:
        is_completed = self._status is not None and self._status.state is State.COMPLETED
        return is_completed or self._is_over_limit

    def _next_key(self, until: float) -> FrameworkKey | None:
        """Advance the time until a key is due. Return None if none is due by `until`."""
        while (key := self._queue.take(self._clock.monotonic())) is None:
            if not self._advance(until):
                return None
        return key

    def _advance(self, until: float) -> bool:
        """Advance to the next callback or timer, and run all callbacks of that time.

        Return False if none is due by `until`.
        """
        next_time, timer = self._timeline.next_time(), self._queue.next_time()
        due = None if timer is None else self._clock.time_of(timer)
        if due is not None and (next_time is None or due < next_time):
            self._timeline.at(due, lambda: None)
            next_time = due
        if next_time is None or next_time > builders.NOW + timedelta(seconds=until):
            return False
        self._timeline.step()
        while self._timeline.next_time() == self._timeline.now:
            self._timeline.step()
        return True

    def _pass(self, key: FrameworkKey) -> None:
        """Run one pass of the controller and record its events."""
        before, reason_count, event_count = self._status, len(self._api.reasons), len(self._events)
        Task(self._executor.run_pass(key)).start()
        self._queue.done(key)
        reasons = [reason for _, reason in self._api.reasons[reason_count:]]
        if self._status is not None and (reasons or self._status is not before):
            # Events of pods that this pass has created come after its own.
            found = plan_events.events(self._seconds, before, self._status, reasons)
            self._events[event_count:event_count] = found

    def _receive(self, event_type: WatchEventType, found: Watched) -> None:
        for key in sorted(receive(self._cache, event_type, found)):
            self._queue.add(key)

    def _add_event(self, role: str, index: int, what: str) -> None:
        """Add an event, or add its task to the last event if they are otherwise the same."""
        event = Event(self._seconds, role, (index,), "", what)
        last = self._events[-1] if self._events else None
        if last is not None and last.is_continued_by(event):
            self._events[-1] = last.with_task(index)
        else:
            self._events.append(event)

    def _outcome(self, until: float) -> Outcome:
        status = self._status
        completion = None if status is None else status.attempt_status.completion_status
        is_ended = status is not None and status.state is State.COMPLETED
        retried = RetryPolicyStatus() if status is None else status.retry_policy_status
        if not is_ended or completion is None:
            code, phrase, type_text, why = None, "", "", self._reason_for_no_end(until)
        else:
            code, phrase, type_text = (
                completion.code,
                completion.phrase,
                plan_events.class_of(completion.type),
            )
            why = plan_events.cause(completion)
        return Outcome(
            ended=is_ended,
            state="" if status is None else status.state,
            code=code,
            phrase=phrase,
            type=type_text,
            why=why,
            seconds=self._seconds,
            attempts=retried.total_retried_count + 1,
            retries=Retries(
                counted=retried.accountable_retried_count,
                uncounted=retried.total_retried_count - retried.accountable_retried_count,
                tasks=sum(reason.kind is ReasonKind.TASK_RETRIED for _, reason in self._api.reasons),
            ),
            pods=self._pods.created,
            never=(
                *(str(each) for each in self._injections if each not in self._pods.happened),
                *map(str, self._pending_rescales),
            ),
        )

    def _reason_for_no_end(self, until: float) -> str:
        """Return why the job does not end."""
        if self._is_over_limit:
            return (
                f"it has not ended after {len(self._events)} events and {self._pods.created} pods, and may be retried "
                "without end"
            )
        is_at_rest = self._timeline.next_time() is None and self._queue.next_time() is None
        if not is_at_rest:
            return f"it is still running after {durations.format_seconds(until)}"
        spec = self._framework.spec
        if spec.suspend or spec.execution_type is ExecutionType.CREATE:
            reason = "spec.suspend is true" if spec.suspend else "spec.executionType is Create"
            return f"it does not start: {reason}"
        return plan_events.endless_reason(self._status)
