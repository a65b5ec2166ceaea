"""Plans: that they tell the truth. The same jobs are run, by the real controller on the embedded API server."""

import asyncio
import functools
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import builders
import msgspec
import pytest
from fake_kubelet.kubelet import FakeKubelet
from fake_kubelet.lifecycle import Life, Pod
from hypothesis import given, settings
from hypothesis import strategies as st
from operated import jobs, loop_thread
from operated.loop_thread import LoopThread

from conformance.waiting import wait_for
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.operator import Operator
from windlass.kubeapi import access, requests
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, frameworks
from windlass.kubeapi.transport import Transport
from windlass.localcluster.server import ApiServer
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import (
    CompletionRule,
    ExecutionType,
    Framework,
    RetryBackoff,
    RetryPolicySpec,
    StartAfter,
    StartCondition,
)
from windlass.model.settings import OFF, Settings
from windlass.model.states import State
from windlass.model.status import FrameworkStatus
from windlass.simulate import scenario
from windlass.simulate.plan import events as plan_events
from windlass.simulate.plan import simulation
from windlass.simulate.plan.pods import TaskBehavior
from windlass.simulate.plan.simulation import Plan
from windlass.wire import codec, fault_injection
from windlass.wire.crd import manifests
from windlass.wire.fault_injection import Action, Injection

NAMESPACE = "default"
RUNS_ON = Life(runs_for=None)


def plan(framework: Framework, *faults: str, **more: Any) -> Plan:
    return simulation.plan(framework, [fault_injection.parse(fault) for fault in faults], **more)


# Plan and reality


class Reality:
    """One job at a time, on an API server, with a controller and a kubelet whose pods suffer what is injected."""

    def __init__(self, stage: LoopThread, folder: Path) -> None:
        self._stage = stage
        self._socket = folder / "api"
        self._injections: tuple[Injection, ...] = ()
        self._pods_of: dict[str, list[str]] = {}
        """UIDs of the pods of each name, in the order in which they came."""
        stage.wait(self._begin(folder))
        self._background = [stage.start(self._kubelet.run()), stage.start(self._controller())]

    async def _begin(self, folder: Path) -> None:
        self._server = ApiServer(folder)
        await self._server.start("127.0.0.1", 0, socket_path=self._socket)
        self._transport = Transport(access.unix(self._socket))
        self._kubelet = FakeKubelet(self._transport, play=self._play)
        body = msgspec.json.encode(manifests.framework_crd(names.CONTROLLER_GROUP))
        await self._transport.send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body))

    async def _controller(self) -> None:
        settings = Settings(leader_election=False, metrics_address=OFF)
        controller = Operator(
            settings, access.unix(self._socket), SystemClock(), identity="it", snapshot_stream=None
        )
        await controller.run(asyncio.Event())

    def end(self) -> None:
        for running in self._background:
            self._stage.end(running)
        self._stage.wait(self._transport.close())
        self._stage.wait(self._server.stop())

    def run(self, job: Json, faults: tuple[Injection, ...]) -> tuple[FrameworkStatus, int]:
        """Until it has completed: its status, and how many pods there were."""
        self._injections, self._pods_of = faults, {}
        name = job["metadata"]["name"]
        create = requests.create(frameworks(names.CONTROLLER_GROUP), NAMESPACE, msgspec.json.encode(job))
        self._stage.wait(self._transport.send(create))
        wait_for("the faults to be over, or the job", lambda: self._are_faults_over(name))
        # What was not disturbed comes to its end.
        self._stage.call(functools.partial(self._kubelet.override, NAMESPACE, name, Life()))
        status = wait_for("the job to complete", lambda: self._completed(name))
        return status, len(self._kubelet.history.of(NAMESPACE, name))

    def _play(self, pod: Pod) -> Life:
        """On the loop, whenever a pod is seen."""
        labels = pod.metadata.labels
        task = labels[names.TASKROLE_NAME], int(labels[names.TASK_INDEX])
        pods = self._pods_of.setdefault(pod.metadata.name, [])
        if pod.uid not in pods:
            pods.append(pod.uid)
        is_first = pods[0] == pod.uid
        for fault in self._injections:
            if fault.matches(*task) and (is_first or fault.is_repeated):
                return _befallen(fault)
        return RUNS_ON

    def _are_faults_over(self, name: str) -> bool:
        self._stage.raise_errors()
        self._delete_what_is_to_be_deleted(name)
        are_outlived = all(
            not fault.is_repeated and self._has_a_successor(f"{name}-{fault.task}")
            for fault in self._injections
        )
        return are_outlived or self._completed(name) is not None

    def _delete_what_is_to_be_deleted(self, name: str) -> None:
        for fault in self._injections:
            for pod in self._kubelet.history.of(NAMESPACE, name):
                is_first = self._pods_of.get(pod.name, [""])[0] == pod.uid
                is_due = pod.started is not None and pod.ended is None and (is_first or fault.is_repeated)
                if fault.action is Action.DELETE and pod.name == f"{name}-{fault.task}" and is_due:
                    deletion = requests.delete(PODS, NAMESPACE, pod.name, uid=pod.uid)
                    self._stage.wait(self._transport.send(deletion))

    def _has_a_successor(self, pod: str) -> bool:
        """Another pod of that name runs."""
        later = self._pods_of.get(pod, [])[1:]
        return any(each.uid in later and each.started is not None for each in self._kubelet.history.pods)

    def _completed(self, name: str) -> FrameworkStatus | None:
        get = requests.get(frameworks(names.CONTROLLER_GROUP), NAMESPACE, name)
        status = codec.decode_framework(self._stage.wait(self._transport.send(get))).status
        return status if status is not None and status.state is State.COMPLETED else None


def _befallen(fault: Injection) -> Life:
    match fault.action:
        case Action.DELAY:
            return Life(starts_after=None)
        case Action.DELETE:
            return RUNS_ON
        case _:
            return Life(runs_for=0, exit_code=fault.code)


@pytest.fixture(scope="module")
def reality() -> Iterator[Reality]:
    with tempfile.TemporaryDirectory() as folder, loop_thread.running() as stage:
        made = Reality(stage, Path(folder))
        try:
            yield made
        finally:
            made.end()


TASK_RETRY, FANCY = {"maxRetryCount": 1}, {"fancyRetryPolicy": True, "maxRetryCount": 1}
BOUNDED = {"fancyRetryPolicy": True, "maxRetryCount": 1, "maxTransientRetryCount": 2}
PERMANENT_RULE: Json = {"minFailedTaskCount": 1, "type": {"attributes": ["Permanent"]}}
PERMANENT_CLASS: Json = {"codeRanges": [{"min": 3, "max": 3}], "type": {"attributes": ["Permanent"]}}
COUNTED_CLASS: Json = {"type": {"attributes": []}}
PLAYED: dict[str, tuple[str, Json, Json]] = {
    "undisturbed": ("", {}, {}),
    "killed-worker": ("kill worker-1", {"retryPolicy": FANCY}, {"retry": TASK_RETRY}),
    "killed-without-retries": ("kill worker-1", {}, {}),
    "exit-3": ("exit 3 worker-0", {"retryPolicy": {"maxRetryCount": 2}}, {}),
    "exit-3-every-time": (
        "exit 3 worker-0 every time",
        {"retryPolicy": {"maxRetryCount": 2}},
        {"retry": TASK_RETRY},
    ),
    "transient-every-time": ("kill worker-1 every time", {"retryPolicy": BOUNDED}, {}),
    "permanent": ("exit 210 worker-0", {"retryPolicy": FANCY}, {}),
    "deleted-ps": ("delete ps-0", {"retryPolicy": FANCY}, {}),
    "deleted-worker": ("delete worker-0", {}, {"retry": {"fancyRetryPolicy": True}}),
    "delayed-for-too-long": ("delay worker-1 by 1h", {"pendingDeadlineSeconds": 3}, {}),
    "kept-pods": ("exit 3 worker-0", {"retryPolicy": FANCY, "completedPods": "Keep"}, {}),
    "failed-attempts": (
        "exit 3 worker-1 every time",
        {"completionPolicies": [{"minFailedAttemptCount": 3}]},
        {"retry": {"maxRetryCount": 5}},
    ),
    "permanent-rule": (
        "exit 3 worker-1",
        {"retryPolicy": FANCY, "completionPolicies": [PERMANENT_RULE]},
        {},
    ),
    "follows-worker-1": (
        "exit 0 worker-1",
        {"completionPolicies": [{"taskRoles": ["worker"], "taskIndexes": "1", "minSucceededTaskCount": 1}]},
        {},
    ),
    "permanent-class": ("exit 3 worker-1", {"retryPolicy": FANCY}, {"classes": [PERMANENT_CLASS]}),
    "retried-class": ("exit 210 worker-1", {"retryPolicy": FANCY}, {"classes": [COUNTED_CLASS]}),
    "in-order": ("", {}, {"startAfter": [{"taskRole": "ps", "condition": "Ready"}]}),
    "never-in-order": (
        "exit 3 ps-0",
        {"completionPolicies": [{"minFailedTaskCount": 9}]},
        {"startAfter": [{"taskRole": "ps", "condition": "Succeeded"}], "ps": {"min_failed": -1}},
    ),
    "one-at-a-time": ("", {}, {"parallelism": 1}),
}


@pytest.mark.parametrize(("fault", "spec", "worker"), PLAYED.values(), ids=PLAYED.keys())
def test_plan_matches_a_real_run(
    reality: Reality, request: pytest.FixtureRequest, fault: str, spec: Json, worker: Json
) -> None:
    added: Json = {name: worker[name] for name in ("startAfter", "parallelism") if name in worker}
    arguments: Json = {name: worker[name] for name in ("retry",) if name in worker}
    workers: Json = {**jobs.role("worker", 2, min_succeeded=2, **arguments), **added}
    workers["task"]["podFailureSpec"] = worker.get("classes", [])
    ps: Json = worker.get("ps", {})
    roles = jobs.role("ps", 1, **ps), workers
    job = jobs.framework(request.node.callspec.id, *roles, **spec)
    faults = (fault_injection.parse(fault),) if fault else ()
    status, pods = reality.run(job, faults)
    framework = codec.decode_framework(msgspec.json.encode(job))
    expected = simulation.plan(framework, faults, TaskBehavior(runs_for=3600, starts_after=0)).outcome
    ended = status.attempt_status.completion_status
    assert ended is not None
    assert (ended.code, ended.phrase) == (expected.code, expected.phrase)
    retried = status.retry_policy_status
    assert retried.total_retried_count + 1 == expected.attempts
    assert retried.accountable_retried_count == expected.retries.counted
    assert pods == expected.pods


# Other outputs of a plan


def ps_and_worker(workers: int = 2, **spec: Any) -> Framework:
    roles = builders.role("ps", 1), builders.role("worker", workers, min_succeeded=workers)
    return builders.framework("job", *roles, **spec)


def test_plan_is_deterministic() -> None:
    retry = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=3, retry_backoff=RetryBackoff())
    job = ps_and_worker(retry_policy=retry)
    assert plan(job, "exit 1 worker every time") == plan(job, "exit 1 worker every time")


@pytest.mark.parametrize("tasks", [1, 10, 500])
def test_same_events_of_tasks_are_merged(tasks: int) -> None:
    """Whatever their number, as long as they are more than one."""
    found = plan(ps_and_worker(tasks), "kill worker after 5s")
    assert found.outcome.pods == tasks + 1
    assert len(found.events) == len(plan(ps_and_worker(2), "kill worker after 5s").events)


def job_of(
    role: str, runtime: str = "", *, min_succeeded: int = -1, restart_policy: str = "Never", idle: str = ""
) -> Framework:
    annotations = {names.RUNTIME_ANNOTATION: runtime} if runtime else {}
    if idle:
        annotations[names.IDLE_ANNOTATION] = idle
    pod = {"spec": {"restartPolicy": restart_policy, "containers": [{"name": "main", "image": "x"}]}}
    return builders.framework(
        "job", builders.role(role, 1, min_succeeded=min_succeeded, pod=pod), annotations=annotations
    )


def ps_selected_by(**rule: Any) -> Framework:
    job = job_of("ps")
    rules = (CompletionRule(**rule),)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, completion_policies=rules))


def worker_after_ps(condition: StartCondition) -> Framework:
    worker = msgspec.structs.replace(builders.role("worker"), start_after=(StartAfter("ps", condition),))
    return builders.framework("job", builders.role("ps"), worker)


ENDLESS: dict[str, tuple[Framework, TaskBehavior, bool]] = {
    "worker": (job_of("worker"), TaskBehavior(), False),
    "told to be": (job_of("worker"), TaskBehavior(endless=frozenset({"worker"})), True),
    "ps": (job_of("ps"), TaskBehavior(), True),
    "ps of TensorFlow": (job_of("ps", "tensorflow"), TaskBehavior(), True),
    "idle server": (job_of("worker", "tensorflow", idle="worker"), TaskBehavior(), True),
    "entrypoint": (job_of("worker", "tensorflow"), TaskBehavior(), False),
    "ps of something else": (job_of("ps", "mpi"), TaskBehavior(), False),
    "parameter server": (job_of("parameterserver"), TaskBehavior(), True),
    "one that looks on": (job_of("tensorboard"), TaskBehavior(), True),
    "ps that is waited for": (job_of("ps", min_succeeded=1), TaskBehavior(), False),
    "ps of a success rule": (
        ps_selected_by(task_roles=("ps",), min_succeeded_task_count=1),
        TaskBehavior(),
        False,
    ),
    "ps of a success rule for all roles": (ps_selected_by(all_succeeded=True), TaskBehavior(), False),
    "ps of a failure rule": (
        ps_selected_by(task_roles=("ps",), min_failed_task_count=1),
        TaskBehavior(),
        True,
    ),
    "ps of a failure rule after all tasks": (
        ps_selected_by(task_roles=("ps",), min_failed_task_count=1, after_all=True),
        TaskBehavior(),
        False,
    ),
    "ps whose success starts workers": (worker_after_ps(StartCondition.SUCCEEDED), TaskBehavior(), False),
    "ps that workers wait for": (worker_after_ps(StartCondition.READY), TaskBehavior(), True),
    "ps whose time is known": (job_of("ps"), TaskBehavior(runs_for_by_role={"ps": 60}), False),
    "restarted for ever": (job_of("worker", restart_policy="Always"), TaskBehavior(), True),
    "restarted by default": (job_of("worker", restart_policy=""), TaskBehavior(), True),
    "restarted after failures": (job_of("worker", restart_policy="OnFailure"), TaskBehavior(), False),
}


@pytest.mark.parametrize(("job", "behavior", "is_endless"), ENDLESS.values(), ids=ENDLESS.keys())
def test_roles_that_never_end(job: Framework, behavior: TaskBehavior, is_endless: bool) -> None:
    outcome = plan(job, behavior=behavior).outcome
    assert outcome.ended is not is_endless
    assert ("never ends by itself" in outcome.why) is is_endless


def test_endlessly_restarted_container() -> None:
    found = plan(
        job_of("worker", restart_policy="Always"),
        behavior=TaskBehavior(runs_for_by_role={"worker": 0}),
        until=600,
    )
    assert (found.outcome.ended, found.outcome.pods) == (False, 1)
    restarts = [event.at for event in found.events if "is restarted" in event.what]
    assert [later - earlier for earlier, later in pairwise(restarts[1:])] == [10, 20, 40, 80, 160]


UNFINISHED: dict[str, tuple[Framework, str]] = {
    "suspended": (ps_and_worker(suspend=True), "it does not start: spec.suspend is true"),
    "not started": (
        ps_and_worker(execution_type=ExecutionType.CREATE),
        "it does not start: spec.executionType is Create",
    ),
    "without tasks": (
        builders.framework("job", builders.role("worker", 0)),
        "it has no tasks, so nothing completes it",
    ),
}


@pytest.mark.parametrize(("job", "why"), UNFINISHED.values(), ids=UNFINISHED.keys())
def test_reason_for_a_job_that_does_not_end(job: Framework, why: str) -> None:
    outcome = plan(job).outcome
    assert (outcome.ended, outcome.code, outcome.why, outcome.pods) == (False, None, why, 0)


def test_job_stopped_before_its_start() -> None:
    outcome = plan(ps_and_worker(execution_type=ExecutionType.STOP)).outcome
    assert (outcome.ended, outcome.code, outcome.pods) == (True, -210, 0)


def test_endlessly_retried_job_is_limited() -> None:
    job = ps_and_worker(retry_policy=RetryPolicySpec(max_retry_count=-1))
    found = plan(job, "exit 1 worker-0 every time")
    assert not found.outcome.ended
    assert found.outcome.why.endswith("and may be retried without end")
    assert simulation.MAX_EVENTS <= len(found.events) < simulation.MAX_EVENTS + 100


def test_until_limits_the_simulated_time() -> None:
    found = plan(ps_and_worker(), until=300)
    assert (found.outcome.ended, found.outcome.why) == (False, "it is still running after 5m")
    assert found.outcome.seconds <= 300


@pytest.mark.parametrize(
    ("indexes", "named"),
    [((0,), "worker-0"), ((0, 1), "worker-0..1"), ((2, 0, 1, 5), "worker-0..2,5"), ((1, 3), "worker-1,3")],
)
def test_tasks_are_formatted_as_ranges(indexes: tuple[int, ...], named: str) -> None:
    assert plan_events.format_tasks("worker", indexes) == named


def any_job() -> st.SearchStrategy[tuple[Framework, list[Injection]]]:
    """As the Simulation draws them, and faults for their tasks."""
    fault = st.builds(
        Injection,
        st.sampled_from(Action),
        st.sampled_from(("worker", "ps", "chief")),
        st.none() | st.integers(0, 2),
        st.sampled_from((0, 1, 137, 200, 201, 210)),
        st.sampled_from((0.0, 0.3, 5.0, 700.0)),
        st.booleans(),
    )
    jobs_drawn = st.integers(0, 10_000).map(lambda seed: scenario.draw(seed).submissions[0].framework)
    return st.tuples(jobs_drawn, st.lists(fault, max_size=3))


@settings(max_examples=50)
@given(any_job())
def test_every_plan_ends_and_is_consistent(drawn: tuple[Framework, list[Injection]]) -> None:
    job, faults = drawn
    found = simulation.plan(job, faults, until=7200)
    times = [event.at for event in found.events]
    assert times == sorted(times)
    outcome = found.outcome
    assert outcome.ended == (outcome.code is not None)
    assert outcome.attempts == 1 + outcome.retries.counted + outcome.retries.uncounted
    most = outcome.attempts * sum(role.task_number for role in job.spec.task_roles) + outcome.retries.tasks
    assert outcome.pods <= most
    assert set(outcome.never) <= set(map(str, faults))
