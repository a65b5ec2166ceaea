"""The metrics and their cost."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import builders
import msgspec
import prometheus_client
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from windlass import __version__
from windlass.controller.observe import metrics as metrics_module
from windlass.controller.observe.events import Outcome
from windlass.controller.observe.metrics import Metrics
from windlass.decide import initial_status
from windlass.decide.types import Reason, ReasonKind
from windlass.kubeapi import requests, resources
from windlass.kubeapi.requests import Request
from windlass.model import completion
from windlass.model.completion import CompletionCode, CompletionType
from windlass.model.framework import Framework, RetryPolicySpec
from windlass.model.names import CONTROLLER_GROUP
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, Holding, Summary, TaskStatus
from windlass.simulate.api_server import Watched, WatchEventType
from windlass.simulate.scenario import Faults, Scenario, Submission
from windlass.simulate.simulation import Simulation
from windlass.simulate.virtual_time import Timeline, VirtualClock

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
RULES = Path(__file__).parents[3] / "deploy" / "monitoring" / "rules.yaml"


class Bench:
    """Metrics of a controller that is set up by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.frameworks: list[Framework] = []
        self.depth = 0
        self.leads = False
        self.metrics = Metrics(
            self,
            frameworks=lambda: self.frameworks,
            queue_depth=lambda: self.depth,
            is_leader=lambda: self.leads,
        )

    def now(self) -> datetime:
        return builders.at(self.seconds)

    def monotonic(self) -> float:
        return 1000 + self.seconds

    def scrape(self) -> dict[str, float]:
        """Every sample of ours by its name with its labels, as one writes it in a query."""
        return dict(samples(self.metrics))


def samples(metrics: Metrics) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            yield f"{sample.name}{{{labels}}}" if labels else sample.name, sample.value


def started(
    tasks: int = 2, state: State = State.ATTEMPT_PREPARING, attempt_id: int = 0, uid: str = "uid"
) -> Framework:
    """A Framework whose attempt has its ConfigMap and no pods."""
    job = builders.framework("job", builders.role("worker", tasks), uid=uid)
    attempt = msgspec.structs.replace(
        initial_status.attempt(job, attempt_id, builders.NOW), config_map_uid="cm-0"
    )
    status = msgspec.structs.replace(
        initial_status.framework_status(job, builders.NOW),
        state=state,
        attempt_status=attempt,
        summary=Summary(tasks),
    )
    return job.with_status(status)


def status_of(framework: Framework) -> FrameworkStatus:
    assert framework.status is not None
    return framework.status


def with_state(framework: Framework, state: State) -> Framework:
    return framework.with_status(msgspec.structs.replace(status_of(framework), state=state))


def with_tasks(framework: Framework, tasks: Sequence[TaskStatus]) -> Framework:
    status = status_of(framework)
    (role,) = status.attempt_status.roles
    roles = (msgspec.structs.replace(role, task_statuses=tuple(tasks)),)
    attempt = msgspec.structs.replace(status.attempt_status, task_role_statuses=roles)
    return framework.with_status(msgspec.structs.replace(status, attempt_status=attempt))


def with_pods(framework: Framework, pods: str) -> Framework:
    """One character per task: `.` has no pod, `p` has a pod, `a` an address too, `x` is scaled away, `c` completed."""
    tasks = []
    for task, pod in zip(status_of(framework).attempt_status.roles[0].task_statuses, pods, strict=True):
        attempt = msgspec.structs.replace(
            task.attempt_status,
            pod_uid="uid" if pod in "pac" else None,
            pod_ip="10.0.0.1" if pod == "a" else None,
        )
        state = State.COMPLETED if pod == "c" else task.state
        tasks.append(
            msgspec.structs.replace(task, attempt_status=attempt, deletion_pending=pod == "x", state=state)
        )
    return with_tasks(framework, tasks)


# Requests and passes

FRAMEWORKS = resources.frameworks(CONTROLLER_GROUP)
STATUS_PATCH = requests.json_patch(FRAMEWORKS, "team", "job", b"[]", "status")


@pytest.mark.parametrize(
    ("request_", "code", "counted", "timed"),
    [
        (
            requests.create(resources.PODS, "team", b"{}"),
            201,
            'code="201",resource="pods",verb="create"',
            "create",
        ),
        (STATUS_PATCH, 409, 'code="409",resource="frameworks/status",verb="patch"', "patch"),
        (requests.get(resources.LEASES, "team", "x"), 0, 'code="0",resource="leases",verb="get"', "get"),
        (requests.watch(resources.PODS), 200, 'code="200",resource="pods",verb="watch"', None),
    ],
)
def test_requests_are_counted_and_timed_except_watches(
    request_: Request, code: int, counted: str, timed: str | None
) -> None:
    bench = Bench()
    for _ in range(2):
        bench.metrics.observe_request(request_, code, 0.25)
    found = bench.scrape()
    assert found[f"windlass_api_requests_total{{{counted}}}"] == 2
    times = {name: value for name, value in found.items() if "duration_seconds_sum{" in name}
    assert times == (
        {} if timed is None else {f'windlass_api_request_duration_seconds_sum{{verb="{timed}"}}': 0.5}
    )


def test_passes_are_timed() -> None:
    bench = Bench()
    bench.metrics.observe_pass(0.02)
    bench.metrics.observe_pass(2)
    found = bench.scrape()
    assert found["windlass_pass_duration_seconds_sum"] == 2.02
    assert found['windlass_pass_duration_seconds_bucket{le="0.025"}'] == 1
    assert found['windlass_pass_duration_seconds_bucket{le="+Inf"}'] == 2


# Retries

JOB = started()
PREEMPTED_BY_USER = CompletionType(attributes=("Transient", "User"))


def framework_retried(ended: completion.FrameworkAttemptCompletionStatus | None) -> Reason:
    attempt = msgspec.structs.replace(status_of(JOB).attempt_status, completion_status=ended)
    status = msgspec.structs.replace(status_of(JOB), attempt_status=attempt)
    return Reason(ReasonKind.FRAMEWORK_RETRIED, "retried", status=status)


def task_retried(kind: CompletionType | None) -> Reason:
    task = status_of(JOB).attempt_status.roles[0].task_statuses[0]
    ended = None if kind is None else completion.TaskAttemptCompletionStatus(1, "Phrase", kind, "")
    attempt = msgspec.structs.replace(task.attempt_status, completion_status=ended)
    task = msgspec.structs.replace(task, attempt_status=attempt)
    return Reason(ReasonKind.TASK_RETRIED, "retried", "worker", 0, task=task)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (task_retried(completion.SUCCEEDED), ("task", "succeeded")),
        (task_retried(completion.TRANSIENT), ("task", "transient")),
        (task_retried(PREEMPTED_BY_USER), ("task", "transient")),
        (task_retried(completion.TRANSIENT_CONFLICT), ("task", "conflict")),
        (task_retried(completion.PERMANENT), ("task", "permanent")),
        (task_retried(completion.FAILED), ("task", "unknown")),
        (task_retried(None), ("task", "unknown")),
        (
            framework_retried(completion.framework_completion(CompletionCode.POD_EXTERNAL_DELETED, "")),
            ("framework", "transient"),
        ),
        (framework_retried(None), ("framework", "unknown")),
        # It was suspended and resumed, which is not a retry.
        (framework_retried(completion.framework_completion(CompletionCode.FRAMEWORK_SUSPENDED, "")), None),
        (Reason(ReasonKind.RETRY_SCHEDULED, "in 5 s"), None),
        (Reason(ReasonKind.TASK_FAILED, "failed", "worker", 0), None),
    ],
)
def test_retries_are_counted_by_class(reason: Reason, expected: tuple[str, str] | None) -> None:
    bench = Bench()
    bench.metrics.on_reasons([reason])
    found = {
        name: value for name, value in bench.scrape().items() if name.startswith("windlass_retries_total")
    }
    assert len(found) == 10
    level, retry_class = expected or ("", "")
    assert {name for name, value in found.items() if value} == (
        {f'windlass_retries_total{{class="{retry_class}",level="{level}"}}'} if expected else set()
    )


# The first pod


def test_time_to_first_pod_is_observed_once() -> None:
    bench = Bench()
    pods = ["..", "p.", "pp", "aa"]
    for number in range(len(pods) - 1):
        bench.seconds = 7 * (number + 1)
        bench.metrics.on_stored(with_pods(started(), pods[number]), with_pods(started(), pods[number + 1]))
    found = bench.scrape()
    assert found["windlass_time_to_first_pod_seconds_count"] == 1
    assert found["windlass_time_to_first_pod_seconds_sum"] == 7


def with_retried_task(framework: Framework) -> Framework:
    first, *others = status_of(framework).attempt_status.roles[0].task_statuses
    attempt = msgspec.structs.replace(first.attempt_status, id=1)
    return with_tasks(framework, [msgspec.structs.replace(first, attempt_status=attempt), *others])


NEVER_LOOKED_AT = builders.framework("job", builders.role("worker", 2), uid="uid")
HELD = started().with_status(msgspec.structs.replace(status_of(started()), holding=Holding(total_sec=60)))


@pytest.mark.parametrize(
    ("before", "after", "seconds", "expected"),
    [
        pytest.param(started(), with_pods(started(), ".p"), 7, [7], id="whichever task has it"),
        pytest.param(NEVER_LOOKED_AT, with_pods(started(), "p."), 7, [7], id="the very first status"),
        pytest.param(started(), with_pods(started(), "p."), -3, [0], id="the server's clock is ahead"),
        pytest.param(HELD, with_pods(HELD, "p."), 70, [10], id="time that it was held does not count"),
        pytest.param(
            started(),
            with_state(with_pods(started(), "a."), State.ATTEMPT_RUNNING),
            7,
            [7],
            id="runs at once",
        ),
        pytest.param(started(), started(), 7, [], id="none yet"),
        pytest.param(
            started(attempt_id=1), with_pods(started(attempt_id=1), "p."), 7, [], id="a later attempt"
        ),
        pytest.param(
            with_state(started(), State.ATTEMPT_RUNNING),
            with_state(with_pods(started(), "p."), State.ATTEMPT_RUNNING),
            7,
            [],
            id="one that ran before has had its first",
        ),
        pytest.param(
            with_retried_task(started()),
            with_pods(with_retried_task(started()), "p."),
            7,
            [],
            id="the pod of a task that was retried before one ran",
        ),
    ],
)
def test_time_to_first_pod_is_observed_at_the_first_store(
    before: Framework, after: Framework, seconds: float, expected: list[float]
) -> None:
    bench = Bench()
    bench.seconds = seconds
    bench.metrics.on_stored(before, after)
    found = bench.scrape()
    assert found["windlass_time_to_first_pod_seconds_count"] == len(expected)
    assert found["windlass_time_to_first_pod_seconds_sum"] == sum(expected)


# The gang


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(["...", "pp.", "app", "aap", "aaa"], [20], id="one after the other"),
        pytest.param(["ppp", "ppa", "paa", "aaa"], [20], id="the last one first"),
        pytest.param(["ppp", "aaa"], [0], id="all at once"),
        pytest.param(["ppp", "app", "aaa", "aaa"], [10], id="once per attempt"),
        pytest.param(["ppp", "app", "aax"], [10], id="a task that was removed by a rescale is not counted"),
        pytest.param(["ppp", "app", "aac"], [10], id="a completed task is not counted"),
        pytest.param(["ppp", "aap", "p.p", "paa"], [20], id="an address that disappears later is enough"),
        pytest.param(["ppp", "app", "aap"], [], id="not complete yet"),
        pytest.param(["app", "aap", "aaa"], [], id="started before the controller"),
    ],
)
def test_barrier_wait_is_from_first_to_last_address(pods: list[str], expected: list[float]) -> None:
    bench = Bench()
    for number in range(len(pods) - 1):
        bench.seconds = 10 * number
        bench.metrics.on_stored(with_pods(started(3), pods[number]), with_pods(started(3), pods[number + 1]))
    found = bench.scrape()
    assert found["windlass_barrier_wait_seconds_count"] == len(expected)
    assert found["windlass_barrier_wait_seconds_sum"] == sum(expected)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(with_state(with_pods(started(2), "aa"), State.ATTEMPT_DELETION_PENDING), id="it ends"),
        pytest.param(with_state(with_pods(started(2), "aa"), State.COMPLETED), id="it completes"),
        pytest.param(with_pods(started(2, attempt_id=1), "aa"), id="another attempt"),
    ],
)
def test_incomplete_gang_is_not_observed(ending: Framework) -> None:
    bench = Bench()
    begun = with_pods(started(2), "ap")
    bench.metrics.on_stored(started(2), begun)
    bench.metrics.on_stored(begun, ending)
    bench.metrics.on_stored(ending, with_pods(started(2), "aa"))
    assert bench.scrape()["windlass_barrier_wait_seconds_count"] == 0
    assert not bench.metrics._gangs._gangs


def test_single_task_is_not_observed() -> None:
    bench = Bench()
    bench.metrics.on_stored(started(1), with_pods(started(1), "a"))
    assert bench.scrape()["windlass_barrier_wait_seconds_count"] == 0


def test_tracked_gangs_are_limited_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_module, "MAX_TRACKED_GANGS", 3)
    bench = Bench()
    for number in range(5):
        job = started(uid=f"uid-{number}")
        bench.metrics.on_stored(job, with_pods(job, "ap"))
    assert list(bench.metrics._gangs._gangs) == ["uid-2", "uid-3", "uid-4"]
    bench.metrics.on_deletion(started(uid="uid-3"))
    assert list(bench.metrics._gangs._gangs) == ["uid-2", "uid-4"]


class CountingTasks(tuple[TaskStatus, ...]):
    """Task statuses that count how often one of them is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[TaskStatus]:
        for task in super().__iter__():
            type(self).looks += 1
            yield task

    def __getitem__(self, index: int) -> TaskStatus:  # type: ignore[override]
        type(self).looks += 1
        return super().__getitem__(index)


def test_store_does_not_read_all_tasks() -> None:
    """They get their addresses one by one, each with a store of its own, and then run and end likewise."""
    count = 300
    bench = Bench()
    CountingTasks.looks = 0

    def shown(pods: str, state: State) -> Framework:
        job = with_state(with_pods(started(count), pods), state)
        (role,) = status_of(job).attempt_status.roles
        counting = msgspec.structs.replace(role, task_statuses=CountingTasks(role.task_statuses))
        attempt = msgspec.structs.replace(status_of(job).attempt_status, task_role_statuses=(counting,))
        return job.with_status(msgspec.structs.replace(status_of(job), attempt_status=attempt))

    before = shown("." * count, State.ATTEMPT_PREPARING)
    for addresses in range(count + 1):
        after = shown("a" * addresses + "p" * (count - addresses), State.ATTEMPT_PREPARING)
        bench.metrics.on_stored(before, after)
        before = after
    for _ in range(count):
        after = shown("a" * count, State.ATTEMPT_RUNNING)
        bench.metrics.on_stored(before, after)
        before = after
    assert bench.scrape()["windlass_barrier_wait_seconds_count"] == 1
    # A few times through all of them, and a few looks per store.
    assert CountingTasks.looks < 6 * count + 2 * count * 5


# What exists


def test_frameworks_and_tasks_are_counted_by_state() -> None:
    bench = Bench()
    bench.frameworks = [
        builders.framework("new"),
        with_pods(started(3, uid="a"), "..c"),
        with_state(with_pods(started(2, uid="b"), "cc"), State.COMPLETED),
    ]
    found = bench.scrape()
    assert {
        name: value for name, value in found.items() if name.startswith("windlass_frameworks") and value
    } == {
        'windlass_frameworks{state="AttemptCreationPending"}': 1,
        'windlass_frameworks{state="AttemptPreparing"}': 1,
        'windlass_frameworks{state="Completed"}': 1,
    }
    assert {name: value for name, value in found.items() if name.startswith("windlass_tasks") and value} == {
        'windlass_tasks{state="AttemptCreationPending"}': 2,
        'windlass_tasks{state="Completed"}': 3,
    }
    bench.frameworks = []
    found = bench.scrape()
    for state in State:
        assert found[f'windlass_frameworks{{state="{state}"}}'] == 0
        assert found[f'windlass_tasks{{state="{state}"}}'] == 0


def test_tasks_are_counted_again_after_a_change() -> None:
    bench = Bench()
    job = started(2)
    for tasks, version, expected in [("..", "1", 0), (".c", "2", 1), ("cc", "3", 2)]:
        changed = with_pods(job, tasks)
        bench.frameworks = [changed.with_status(status_of(changed), version)]
        for _ in range(2):
            assert bench.scrape()['windlass_tasks{state="Completed"}'] == expected


def test_queue_depth_and_leadership_are_exposed() -> None:
    bench = Bench()
    assert (bench.scrape()["windlass_queue_depth"], bench.scrape()["windlass_leader"]) == (0, 0)
    bench.depth, bench.leads = 5, True
    assert (bench.scrape()["windlass_queue_depth"], bench.scrape()["windlass_leader"]) == (5, 1)


# The rest


def test_events_and_watch_errors_are_counted() -> None:
    bench = Bench()
    for outcome in (Outcome.SENT, Outcome.SENT, Outcome.DROPPED):
        bench.metrics.on_event(outcome)
    bench.metrics.on_watch_error("pods")
    found = bench.scrape()
    assert [found[f'windlass_events_total{{outcome="{outcome}"}}'] for outcome in Outcome] == [2, 0, 1, 0]
    assert found['windlass_watch_errors_total{resource="pods"}'] == 1


def test_version_is_exposed_and_global_registry_unchanged() -> None:
    found = Bench().scrape()
    assert found[f'windlass_build_info{{version="{__version__}"}}'] == 1
    assert not [name for name in found if name.endswith("_created")]
    assert b"windlass" not in prometheus_client.generate_latest()


def test_documentation_lists_exactly_the_metrics() -> None:
    bench = Bench()
    bench.metrics.observe_request(STATUS_PATCH, 200, 0.1)
    bench.metrics.on_watch_error("pods")
    families = list(text_string_to_metric_families(bench.metrics.exposition().decode()))
    found = {
        (family.name + "_total" if family.type == "counter" else family.name, family.type): family
        for family in families
        if family.name.startswith("windlass_")
    }
    documented = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `windlass_"):
            name, kind, labels, _ = (cell.strip() for cell in line.strip("|").split("|"))
            documented[name.strip("`"), kind] = {label.strip("` ") for label in labels.split(",")} - {""}
    assert documented.keys() == found.keys()
    for key, family in found.items():
        assert {label for sample in family.samples for label in sample.labels} - {"le"} == documented[key]


def test_every_metric_is_used_by_a_rule_and_no_other() -> None:
    page = PAGE.read_text()
    documented = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `windlass_")}
    groups = yaml.safe_load(RULES.read_text())["groups"]
    expressions = " ".join(rule["expr"] for group in groups for rule in group["rules"])
    used = {name.removesuffix("_bucket") for name in re.findall(r"(?<![\w:])windlass_\w+", expressions)}
    assert used == documented


class Watcher:
    """Tells metrics of every status that the simulated API server stores."""

    def __init__(self, simulation: Simulation, metrics: Metrics) -> None:
        self._metrics = metrics
        self._last: dict[str, Framework] = {}
        simulation.server.watchers.append(self._on_event)

    def _on_event(self, verb: WatchEventType, found: Watched) -> None:
        if isinstance(found, Framework):
            self._metrics.on_stored(self._last.get(found.uid, found), found)
            self._last[found.uid] = found


def played(faults: Faults = Faults(), retry: RetryPolicySpec = RetryPolicySpec()) -> dict[str, float]:  # noqa: B008
    job = builders.framework("job", builders.role("worker", 4, retry=retry))
    simulation = Simulation(
        Scenario(
            seed=6,
            submissions=(Submission(10, job),),
            faults=faults,
            faults_end=1e4 if faults != Faults() else 0,
        )
    )
    timeline: Timeline = simulation.timeline
    metrics = Metrics(
        VirtualClock(timeline),
        frameworks=lambda: simulation.server.frameworks.values(),
        queue_depth=lambda: 0,
        is_leader=lambda: True,
    )
    Watcher(simulation, metrics)
    simulation.run()
    for controller in simulation.controllers:
        metrics.on_reasons([reason for _, reason in controller.api.reasons])
    return dict(samples(metrics))


def test_metrics_of_a_complete_run() -> None:
    found = played()
    assert found["windlass_time_to_first_pod_seconds_count"] == 1
    assert 0 < found["windlass_time_to_first_pod_seconds_sum"] < 10
    assert found["windlass_barrier_wait_seconds_count"] == 1
    assert found['windlass_frameworks{state="Completed"}'] == 1
    assert found['windlass_tasks{state="Completed"}'] == 4


def test_run_with_failures_counts_retries() -> None:
    found = played(Faults(task_failure=0.9), RetryPolicySpec(max_retry_count=-1))
    assert found['windlass_retries_total{class="unknown",level="task"}'] > 0
