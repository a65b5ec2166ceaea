"""Prometheus metrics in a registry of their own. docs/metrics.md explains each metric.

No label holds a namespace, a name or another value that users choose, so the number of series is bounded. Gauges
are computed at each scrape; counters and histograms are updated when something happens.
"""

import functools
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

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

SHORT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Seconds, for requests and passes."""
LONG_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)
"""Seconds, for durations that may include waiting for GPUs."""

RETRY_CLASSES = ("succeeded", "transient", "conflict", "permanent", "unknown")
RETRY_LEVELS = ("framework", "task")
STATES_BEFORE_RUNNING = frozenset({states.CREATION_PENDING, states.CREATION_REQUESTED, states.PREPARING})
"""States of a Framework before one of its tasks was observed running in the attempt."""
MAX_TRACKED_GANGS = 10_000
"""Above this limit, the oldest gang is dropped without a measurement."""


class RecordOutcome(StrEnum):
    WRITTEN = "written"
    REJECTED = "rejected"
    """The API server rejected the record, or did not answer several requests."""
    DELETED = "deleted"
    """Deleted because of a retention limit."""


class Metrics:
    def __init__(
        self,
        clock: Clock,
        *,
        frameworks: Callable[[], Iterable[Framework]],
        queue_depth: Callable[[], int],
        is_leader: Callable[[], bool],
        finished_counts: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """`finished_counts` returns the number of completed Frameworks that are not in `frameworks`, and of their
        tasks."""
        self._clock = clock
        self._registry = registry = prometheus.CollectorRegistry()
        self._gangs = _Gangs()
        counter = functools.partial(prometheus.Counter, registry=registry)
        short_histogram = functools.partial(prometheus.Histogram, buckets=SHORT_BUCKETS, registry=registry)
        long_histogram = functools.partial(prometheus.Histogram, buckets=LONG_BUCKETS, registry=registry)
        self._requests = counter(
            "windlass_api_requests",
            "Requests to the API server by verb, resource and status code; code 0 means no answer.",
            ("verb", "resource", "code"),
        )
        self._request_duration = short_histogram(
            "windlass_api_request_duration_seconds",
            "Duration of requests to the API server, without watches.",
            ("verb",),
        )
        self._requests_by = functools.cache(self._series_of_requests)
        self._durations_by = functools.cache(self._series_of_durations)
        self._pass_duration = short_histogram(
            "windlass_pass_duration_seconds",
            "Duration of one reconciliation of one Framework, including its requests.",
        )
        self._retries = counter(
            "windlass_retries",
            "Retried attempts, by level and by the class of their failure.",
            ("level", "class"),
        )
        self._time_to_first_pod = long_histogram(
            "windlass_time_to_first_pod_seconds",
            "Time from the creation of a Framework to its first pod, without suspended time.",
        )
        self._barrier_wait = long_histogram(
            "windlass_barrier_wait_seconds",
            "Time from the first pod address of an attempt until all of its tasks (at least two) have one.",
        )
        self._events = counter("windlass_events", "Kubernetes events, by outcome.", ("outcome",))
        self._watch_errors = counter(
            "windlass_watch_errors", "Lists and watches that failed and were restarted.", ("resource",)
        )
        self._records = counter("windlass_attempt_records", "Records of finished attempts.", ("outcome",))
        build = prometheus.Info("windlass_build", "The version of Windlass.", registry=registry)
        build.info({"version": __version__})
        prometheus.ProcessCollector(registry=registry)
        registry.register(_StateCollector(frameworks, finished_counts, queue_depth, is_leader))
        # The series of these counters are created now, because `rate` does not see the first increment of a new one.
        for level in RETRY_LEVELS:
            for retry_class in RETRY_CLASSES:
                self._retries.labels(level, retry_class)
        for record_outcome in RecordOutcome:
            self._records.labels(record_outcome.value)
        for outcome in Outcome:
            self._events.labels(outcome.value)

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return exposition.generate_latest(_WithoutCreationTimes(self._registry))

    def observe_request(self, request: Request, code: int, seconds: float) -> None:
        self._requests_by(request.verb, request.resource.plural, request.subresource, code).inc()
        if request.verb is not Verb.WATCH:
            self._durations_by(request.verb).observe(seconds)

    # `labels` takes several times as long as the look-up in a cache.

    def _series_of_requests(self, verb: Verb, plural: str, subresource: str, code: int) -> prometheus.Counter:
        resource = f"{plural}/{subresource}" if subresource else plural
        return self._requests.labels(verb.value, resource, str(code))

    def _series_of_durations(self, verb: Verb) -> prometheus.Histogram:
        return self._request_duration.labels(verb.value)

    def observe_pass(self, seconds: float) -> None:
        self._pass_duration.observe(seconds)

    def on_reasons(self, reasons: Sequence[Reason]) -> None:
        for reason in reasons:
            if (retry := _retry_labels(reason)) is not None:
                self._retries.labels(*retry).inc()

    def on_event(self, outcome: Outcome) -> None:
        self._events.labels(outcome.value).inc()

    def on_record(self, outcome: RecordOutcome, count: int = 1) -> None:
        self._records.labels(outcome.value).inc(count)

    def on_watch_error(self, resource: str) -> None:
        self._watch_errors.labels(resource).inc()

    def on_stored(self, before: Framework, after: Framework) -> None:
        """Observe a stored status. Its tasks, which may be many, are read only if a duration may begin or end."""
        if _adds_first_pod(before, after):
            self._time_to_first_pod.observe(self._age_without_suspension(after))
        waited = self._gangs.on_stored(before, after, self._clock.monotonic())
        if waited is not None:
            self._barrier_wait.observe(waited)

    def on_deletion(self, framework: Framework) -> None:
        self._gangs.forget(framework.uid)

    def _age_without_suspension(self, framework: Framework) -> float:
        now = self._clock.now()
        created = framework.metadata.creation_timestamp or now
        suspended_sec = framework.status.holding.total_sec if framework.status is not None else 0
        # The API server's clock may be ahead of ours.
        return max(0.0, (now - created).total_seconds() - suspended_sec)


class _WithoutCreationTimes:
    """Drops the `_created` series that prometheus_client adds to each counter and histogram."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


# Frameworks and tasks


class _StateCollector(Collector):
    """Computes the gauges at each scrape. The tasks of an unchanged Framework are not counted again."""

    def __init__(
        self,
        frameworks: Callable[[], Iterable[Framework]],
        finished_counts: Callable[[], tuple[int, int]],
        queue_depth: Callable[[], int],
        is_leader: Callable[[], bool],
    ) -> None:
        self._frameworks = frameworks
        self._finished_counts = finished_counts
        self._queue_depth = queue_depth
        self._is_leader = is_leader
        self._task_counts: dict[str, tuple[str, Mapping[State, int]]] = {}
        """By the UID of a Framework: its resourceVersion, and its number of tasks by state."""

    def collect(self) -> Iterator[Metric]:
        frameworks: Tally[State] = Tally()
        tasks: Tally[State] = Tally()
        counted: dict[str, tuple[str, Mapping[State, int]]] = {}
        for framework in self._frameworks():
            version = framework.metadata.resource_version
            last = self._task_counts.get(framework.uid)
            current = (
                last if last is not None and last[0] == version else (version, _tasks_by_state(framework))
            )
            counted[framework.uid] = current
            frameworks[_state(framework)] += 1
            tasks.update(current[1])
        self._task_counts = counted
        finished, finished_tasks = self._finished_counts()
        if finished:
            frameworks[State.COMPLETED] += finished
            tasks[State.COMPLETED] += finished_tasks
        yield _by_state("windlass_frameworks", "Frameworks, by state.", frameworks)
        yield _by_state("windlass_tasks", "Tasks of all Frameworks, by state.", tasks)
        yield GaugeMetricFamily(
            "windlass_queue_depth", "Frameworks that wait for a reconciliation.", value=self._queue_depth()
        )
        yield GaugeMetricFamily(
            "windlass_leader", "Whether this replica is the leader.", value=self._is_leader()
        )


def _state(framework: Framework) -> State:
    """Return the state; without a status, the initial state of an attempt."""
    return states.CREATION_PENDING if framework.status is None else framework.status.state


def _tasks_by_state(framework: Framework) -> Mapping[State, int]:
    if framework.status is None:
        return {}
    return Tally(task.state for role in framework.status.attempt_status.roles for task in role.task_statuses)


def _by_state(name: str, description: str, counts: Mapping[State, int]) -> Metric:
    family = GaugeMetricFamily(name, description, labels=("state",))
    for state in State:
        family.add_metric((state.value,), counts.get(state, 0))
    return family


# Retries


def _retry_labels(reason: Reason) -> tuple[str, str] | None:
    """Return level and class of a retry; None for other reasons and for suspensions."""
    if reason.kind is ReasonKind.FRAMEWORK_RETRIED and reason.status is not None:
        completion = reason.status.attempt_status.completion_status
        is_suspension = completion is not None and completion.code == CompletionCode.FRAMEWORK_SUSPENDED
        retry_class = _retry_class(completion.type if completion is not None else None)
        return None if is_suspension else ("framework", retry_class)
    if reason.kind is ReasonKind.TASK_RETRIED and reason.task is not None:
        task_completion = reason.task.attempt_status.completion_status
        return "task", _retry_class(task_completion.type if task_completion is not None else None)
    return None


def _retry_class(completion_type: CompletionType | None) -> str:
    if completion_type is None:
        return "unknown"
    if not completion_type.is_failed:
        return "succeeded"
    if completion_type.is_conflict:
        return "conflict"
    if completion_type.is_transient:
        return "transient"
    return "permanent" if completion_type.is_permanent else "unknown"


# Durations


def _is_before_running(framework: Framework) -> bool:
    return framework.status is None or framework.status.state in STATES_BEFORE_RUNNING


def _tasks(framework: Framework) -> Iterator[TaskStatus]:
    """Yield the tasks; none before the attempt has its ConfigMap, because there are no pods."""
    if framework.status is None or framework.status.attempt_status.config_map_uid is None:
        return
    for role in framework.status.attempt_status.roles:
        yield from role.task_statuses


def _has_pod(framework: Framework) -> bool:
    return any(task.attempt_status.pod_uid is not None for task in _tasks(framework))


def _has_address(framework: Framework) -> bool:
    return any(task.attempt_status.pod_ip for task in _tasks(framework))


def _adds_first_pod(before: Framework, after: Framework) -> bool:
    """Return whether the stored status adds the first pod of the first attempt. A retried task counts as one that had a
    pod."""
    is_first_attempt = after.status is not None and after.status.attempt_status.id == 0
    if not is_first_attempt or not _is_before_running(before) or _has_pod(before):
        return False
    return _has_pod(after) and not any(task.attempt_status.id > 0 for task in _tasks(before))


class _Gang:
    """An attempt that waits until all of its tasks have addresses.

    It stores the position of the first task that awaits an address, so that earlier tasks are not read again.
    """

    def __init__(self, attempt_id: int, since: float) -> None:
        self.attempt_id = attempt_id
        self.since = since
        self._role_index = 0
        self._task_index = 0

    def is_complete(self, roles: Sequence[TaskRoleStatus]) -> bool:
        while self._role_index < len(roles):
            tasks = roles[self._role_index].task_statuses
            while self._task_index < len(tasks):
                if _awaits_address(tasks[self._task_index]):
                    return False
                self._task_index += 1
            self._role_index, self._task_index = self._role_index + 1, 0
        return True


def _awaits_address(task: TaskStatus) -> bool:
    """Return whether the task has no address and may get one."""
    return not task.attempt_status.pod_ip and not task.deletion_pending and not task.is_completed


class _Gangs:
    """The attempts in which some tasks have an address and others do not yet, by the UID of their Framework."""

    def __init__(self) -> None:
        self._gangs: OrderedDict[str, _Gang] = OrderedDict()

    def on_stored(self, before: Framework, after: Framework, monotonic: float) -> float | None:
        """Return the seconds since the first address if no task awaits an address any more; otherwise None."""
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
        if status is None or status.summary.tasks < 2 or not _is_before_running(before):
            return None
        # The time of an address that existed before is unknown.
        if _has_address(before) or not _has_address(after):
            return None
        gang = _Gang(status.attempt_status.id, monotonic)
        self._gangs[after.uid] = gang
        if len(self._gangs) > MAX_TRACKED_GANGS:
            self._gangs.popitem(last=False)
        return gang
