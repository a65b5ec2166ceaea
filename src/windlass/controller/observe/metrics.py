"""What a platform team watches: Prometheus metrics in a registry of our own. docs/metrics.md explains each.

No label holds a namespace, a name or anything else that users choose: how many series there are does not depend on
what they run. What exists (Frameworks, tasks) is counted when somebody asks, what happens is counted as it happens.
"""

from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import prometheus_client as prometheus
from prometheus_client import exposition
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from windlass import __version__
from windlass.controller.engine.clock import Clock
from windlass.controller.observe.events import Outcome
from windlass.decide.types import Reason, ReasonKind
from windlass.kubeapi.requests import Request, Verb
from windlass.model import states
from windlass.model.completion import CompletionCode, CompletionType
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import TaskRoleStatus, TaskStatus

CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4

QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Seconds that a machine takes."""
SLOW = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)
"""Seconds that a queue for GPUs takes."""

RETRY_CLASSES = ("succeeded", "transient", "conflict", "permanent", "unknown")
RETRY_LEVELS = ("framework", "task")
YOUNG_STATES = frozenset({states.CREATION_PENDING, states.CREATION_REQUESTED, states.PREPARING})
"""None of the attempt's tasks has run yet."""
MOST_GANGS = 10_000
"""So many gangs are timed at once; beyond that the oldest is given up."""


class Metrics:
    def __init__(
        self,
        clock: Clock,
        *,
        frameworks: Callable[[], Iterable[Framework]],
        queue_depth: Callable[[], int],
        is_leader: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._registry = registry = prometheus.CollectorRegistry()
        self._gangs = _Gangs()
        self._requests = prometheus.Counter(
            "windlass_api_requests",
            "Requests to the API server, by what was asked and what was answered; code 0 is no answer.",
            ("verb", "resource", "code"),
            registry=registry,
        )
        self._request_duration = prometheus.Histogram(
            "windlass_api_request_duration_seconds",
            "How long the API server took to answer. Watches do not count.",
            ("verb",),
            buckets=QUICK,
            registry=registry,
        )
        self._pass_duration = prometheus.Histogram(
            "windlass_pass_duration_seconds",
            "How long one look at one Framework took, requests included.",
            buckets=QUICK,
            registry=registry,
        )
        self._retries = prometheus.Counter(
            "windlass_retries",
            "Attempts that were followed by another, by how they had ended.",
            ("level", "class"),
            registry=registry,
        )
        self._first_pod = prometheus.Histogram(
            "windlass_time_to_first_pod_seconds",
            "From the creation of a Framework to its first pod. Time in which it was held does not count.",
            buckets=SLOW,
            registry=registry,
        )
        self._barrier_wait = prometheus.Histogram(
            "windlass_barrier_wait_seconds",
            "From the first address in an attempt of at least two tasks until all of them had one.",
            buckets=SLOW,
            registry=registry,
        )
        self._events = prometheus.Counter(
            "windlass_events", "Kubernetes events, by what became of them.", ("outcome",), registry=registry
        )
        self._watch_troubles = prometheus.Counter(
            "windlass_watch_troubles",
            "Lists and watches that failed and were begun again.",
            ("resource",),
            registry=registry,
        )
        build = prometheus.Info("windlass_build", "Which Windlass this is.", registry=registry)
        build.info({"version": __version__})
        prometheus.ProcessCollector(registry=registry)
        registry.register(_Census(frameworks, queue_depth, is_leader))
        self._start_at_zero()

    def _start_at_zero(self) -> None:
        """A series that begins with its first event hides that event from `rate`."""
        for level in RETRY_LEVELS:
            for retry_class in RETRY_CLASSES:
                self._retries.labels(level, retry_class)
        for outcome in Outcome:
            self._events.labels(outcome.value)

    def exposition(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return exposition.generate_latest(_WithoutCreationTimes(self._registry))

    def observe_request(self, request: Request, code: int, seconds: float) -> None:
        resource = request.resource.plural
        if request.subresource:
            resource = f"{resource}/{request.subresource}"
        self._requests.labels(request.verb.value, resource, str(code)).inc()
        if request.verb is not Verb.WATCH:
            self._request_duration.labels(request.verb.value).observe(seconds)

    def observe_pass(self, seconds: float) -> None:
        self._pass_duration.observe(seconds)

    def announced(self, framework: Framework, reasons: Sequence[Reason]) -> None:  # noqa: ARG002
        """Takes what the recorder of events takes: whoever announces tells both the same."""
        for reason in reasons:
            if (retry := _retry(reason)) is not None:
                self._retries.labels(*retry).inc()

    def event(self, outcome: Outcome) -> None:
        self._events.labels(outcome.value).inc()

    def watch_troubled(self, resource: str) -> None:
        self._watch_troubles.labels(resource).inc()

    def stored(self, before: Framework, after: Framework) -> None:
        """A status was stored. Ten thousand tasks may stand in it: they are gone through only where that can matter."""
        if _has_first_pod(before, after):
            self._first_pod.observe(self._age(after))
        waited = self._gangs.stored(before, after, self._clock.monotonic())
        if waited is not None:
            self._barrier_wait.observe(waited)

    def gone(self, framework: Framework) -> None:
        """Nothing more is heard of it."""
        self._gangs.forget(framework.uid)

    def _age(self, framework: Framework) -> float:
        now = self._clock.now()
        created = framework.metadata.creation_timestamp or now
        held = framework.status.holding.total_sec if framework.status is not None else 0
        # The API server's clock may be ahead of ours.
        return max(0.0, (now - created).total_seconds() - held)


class _WithoutCreationTimes:
    """prometheus_client adds to each counter a series that says when it began, which doubles their number."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


# What exists


class _Census(Collector):
    """Counted when it is asked for. Of a Framework that has not changed since, the last count still holds."""

    def __init__(
        self,
        frameworks: Callable[[], Iterable[Framework]],
        queue_depth: Callable[[], int],
        is_leader: Callable[[], bool],
    ) -> None:
        self._frameworks = frameworks
        self._queue_depth = queue_depth
        self._is_leader = is_leader
        self._counted: dict[str, tuple[str, Mapping[State, int]]] = {}
        """By UID: tasks by state, as of a version."""

    def collect(self) -> Iterator[Metric]:
        frameworks: Tally[State] = Tally()
        tasks: Tally[State] = Tally()
        counted: dict[str, tuple[str, Mapping[State, int]]] = {}
        for framework in self._frameworks():
            version = framework.metadata.resource_version
            last = self._counted.get(framework.uid)
            current = (
                last if last is not None and last[0] == version else (version, _tasks_by_state(framework))
            )
            counted[framework.uid] = current
            frameworks[_state(framework)] += 1
            tasks.update(current[1])
        self._counted = counted
        yield _by_state("windlass_frameworks", "Frameworks, by state.", frameworks)
        yield _by_state("windlass_tasks", "Tasks of all Frameworks, by state.", tasks)
        yield _gauge("windlass_queue_depth", "Frameworks that wait to be looked at.", self._queue_depth())
        yield _gauge("windlass_leader", "Whether this replica is the one that acts.", self._is_leader())


def _state(framework: Framework) -> State:
    """One that nobody has looked at yet stands where every attempt begins."""
    return states.CREATION_PENDING if framework.status is None else framework.status.state


def _tasks_by_state(framework: Framework) -> Mapping[State, int]:
    if framework.status is None:
        return {}
    return Tally(task.state for role in framework.status.attempt_status.roles for task in role.task_statuses)


def _by_state(name: str, meaning: str, counts: Mapping[State, int]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=("state",))
    for state in State:
        family.add_metric((state.value,), counts.get(state, 0))
    return family


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


# Retries


def _retry(reason: Reason) -> tuple[str, str] | None:
    """Level and class of the retry that this is about, if it is about one. A suspension is none."""
    if reason.kind is ReasonKind.FRAMEWORK_RETRIED and reason.status is not None:
        ended = reason.status.attempt_status.completion_status
        is_suspension = ended is not None and ended.code == CompletionCode.FRAMEWORK_SUSPENDED
        return None if is_suspension else ("framework", _class(ended.type if ended is not None else None))
    if reason.kind is ReasonKind.TASK_RETRIED and reason.task is not None:
        task_ended = reason.task.attempt_status.completion_status
        return "task", _class(task_ended.type if task_ended is not None else None)
    return None


def _class(completion: CompletionType | None) -> str:
    if completion is None:
        return "unknown"
    if not completion.is_failed:
        return "succeeded"
    if completion.is_conflict:
        return "conflict"
    if completion.is_transient:
        return "transient"
    return "permanent" if completion.is_permanent else "unknown"


# How long it took


def _is_young(framework: Framework) -> bool:
    return framework.status is None or framework.status.state in YOUNG_STATES


def _tasks(framework: Framework) -> Iterator[TaskStatus]:
    """None before the attempt has its ConfigMap: there can be no pods then."""
    if framework.status is None or framework.status.attempt_status.config_map_uid is None:
        return
    for role in framework.status.attempt_status.roles:
        yield from role.task_statuses


def _has_pod(framework: Framework) -> bool:
    return any(task.attempt_status.pod_uid is not None for task in _tasks(framework))


def _has_address(framework: Framework) -> bool:
    return any(task.attempt_status.pod_ip for task in _tasks(framework))


def _has_first_pod(before: Framework, after: Framework) -> bool:
    """This is the store with which the first attempt's first pod came."""
    is_first_attempt = after.status is not None and after.status.attempt_status.id == 0
    return is_first_attempt and _is_young(before) and not _has_pod(before) and _has_pod(after)


class _Gang:
    """The tasks of one attempt up to the first that has no address. Those before it are not looked at again."""

    def __init__(self, attempt_id: int, since: float) -> None:
        self.attempt_id = attempt_id
        self.since = since
        self._role = 0
        self._task = 0

    def is_complete(self, roles: Sequence[TaskRoleStatus]) -> bool:
        while self._role < len(roles):
            tasks = roles[self._role].task_statuses
            while self._task < len(tasks):
                if _is_awaited(tasks[self._task]):
                    return False
                self._task += 1
            self._role, self._task = self._role + 1, 0
        return True


def _is_awaited(task: TaskStatus) -> bool:
    """It has no address and may get one."""
    return not task.attempt_status.pod_ip and not task.deletion_pending and not task.is_completed


class _Gangs:
    """The attempts of which some tasks have an address and others wait for theirs."""

    def __init__(self) -> None:
        self._gangs: OrderedDict[str, _Gang] = OrderedDict()

    def stored(self, before: Framework, after: Framework, monotonic: float) -> float | None:
        """For how long the first task had to wait, if this store is the one that completes its gang."""
        status = after.status
        gang = self._gangs.get(after.uid) or self._begin(before, after, monotonic)
        if gang is None or status is None:
            return None
        is_over = status.attempt_status.id != gang.attempt_id or not status.state.is_active
        is_complete = not is_over and gang.is_complete(status.attempt_status.roles)
        if is_over or is_complete:
            self.forget(after.uid)
        return monotonic - gang.since if is_complete else None

    def forget(self, uid: str) -> None:
        self._gangs.pop(uid, None)

    def _begin(self, before: Framework, after: Framework, monotonic: float) -> _Gang | None:
        status = after.status
        if status is None or status.summary.tasks < 2 or not _is_young(before):
            return None
        # An address that was there before is one whose time nobody here has seen.
        if _has_address(before) or not _has_address(after):
            return None
        gang = _Gang(status.attempt_status.id, monotonic)
        self._gangs[after.uid] = gang
        if len(self._gangs) > MOST_GANGS:
            self._gangs.popitem(last=False)
        return gang
