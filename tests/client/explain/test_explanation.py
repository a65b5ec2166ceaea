"""Explanations of failed and pending jobs: as a pure function, and on an embedded API server with a controller."""

import re
from datetime import datetime
from typing import Any

import builders
import msgspec
import pytest
import scripted_cluster
from builders import NOW, at
from operated import jobs
from scripted_cluster import Place

from conformance.waiting import wait_for
from windlass.client.connection import Connection
from windlass.client.errors import ObjectNotFoundError
from windlass.client.events import Event
from windlass.client.explain import explanation, failures, pending, retries
from windlass.client.explain.explanation import Explanation
from windlass.client.pods import Pod
from windlass.client.views import JobState
from windlass.model import verdict
from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    CompletionType,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
    framework_completion,
    task_completion,
)
from windlass.model.framework import (
    ExecutionType,
    Framework,
    RetryPolicySpec,
    StartAfter,
    StartCondition,
)
from windlass.model.states import State
from windlass.model.status import (
    Condition,
    FrameworkAttemptStatus,
    FrameworkStatus,
    RetryPolicyStatus,
    Summary,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)

TRANSIENT = CompletionType(attributes=("Transient",))
PERMANENT = CompletionType(attributes=("Permanent",))
UNKNOWN = CompletionType()


def ended(code: int, kind: CompletionType = UNKNOWN, message: str = "") -> TaskAttemptCompletionStatus:
    container = ContainerCompletionStatus(name="main", reason="Error", message=message, code=code)
    pod = PodCompletionStatus(containers=(container,))
    return TaskAttemptCompletionStatus(code, "Broken", kind, "PodPattern matched", pod)


def task(
    index: int = 0,
    completion: TaskAttemptCompletionStatus | None = None,
    *,
    state: State | None = None,
    seconds: float = 10,
    retried: RetryPolicyStatus | None = None,
) -> TaskStatus:
    """Return a task status. `seconds` is the time of its end."""
    by_default = State.ATTEMPT_RUNNING if completion is None else State.COMPLETED
    found = retried or RetryPolicyStatus()
    return TaskStatus(
        index=index,
        instance_uid=f"task-{index}",
        start_time=NOW,
        transition_time=at(seconds),
        state=state or by_default,
        retry_policy_status=found,
        attempt_status=TaskAttemptStatus(
            id=found.total_retried_count,
            start_time=NOW,
            completion_time=at(seconds) if completion is not None else None,
            pod_name=f"job-worker-{index}",
            pod_uid=f"pod-{index}",
            pod_node_name="node-7",
            completion_status=completion,
        ),
    )


def job(
    *statuses: TaskStatus,
    state: State = State.ATTEMPT_RUNNING,
    completion: FrameworkAttemptCompletionStatus | None = None,
    retried: RetryPolicyStatus | None = None,
    policy: RetryPolicySpec | None = None,
    task_policy: RetryPolicySpec | None = None,
    conditions: tuple[Condition, ...] = (),
    summary: Summary | None = None,
    **spec: Any,
) -> Framework:
    made = builders.framework(
        "job",
        builders.role("worker", max(len(statuses), 1), retry=task_policy),
        retry_policy=policy or RetryPolicySpec(),
        **spec,
    )
    found = retried or RetryPolicyStatus()
    attempt = FrameworkAttemptStatus(
        id=found.total_retried_count,
        start_time=NOW,
        completion_time=at(20) if completion is not None else None,
        config_map_name="job-attempt",
        completion_status=completion,
        task_role_statuses=(TaskRoleStatus(name="worker", task_statuses=statuses),),
    )
    running = sum(each.state is State.ATTEMPT_RUNNING for each in statuses)
    return made.with_status(
        FrameworkStatus(
            start_time=NOW,
            state=state,
            transition_time=at(20),
            retry_policy_status=found,
            attempt_status=attempt,
            conditions=conditions,
            summary=summary or Summary(tasks=len(statuses), running=running),
        )
    )


def by(role: str, index: int, completion: TaskAttemptCompletionStatus) -> FrameworkAttemptCompletionStatus:
    trigger = CompletionTrigger(message="a rule was met", task_role_name=role, task_index=index)
    return FrameworkAttemptCompletionStatus(
        completion.code, completion.phrase, completion.type, completion.diagnostics, trigger
    )


def explained(
    framework: Framework, *, pods: tuple[Pod, ...] = (), events: tuple[Event, ...] = (), now: datetime = NOW
) -> Explanation:
    return explanation.explain(framework, pods, events, now)


# The first failure


GONE_WITH_IT = task_completion(CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, "")
FIRST: dict[str, tuple[Framework, str]] = {
    "single-failure": (job(task(0), task(1, ended(3))), "worker-1"),
    "the-earliest": (job(task(0, ended(3), seconds=9), task(1, ended(4), seconds=5)), "worker-1"),
    "tasks-ended-with-the-attempt-are-ignored": (
        job(task(0, GONE_WITH_IT, seconds=1), task(1, ended(4), seconds=5)),
        "worker-1",
    ),
    "same-time-task-that-completed-the-attempt": (
        job(task(0, ended(1)), task(1, ended(137)), completion=by("worker", 1, ended(137))),
        "worker-1",
    ),
    "same-time-lower-index": (job(task(0, ended(1)), task(1, ended(2))), "worker-0"),
    "none-failed": (job(task(0), task(1, task_completion(CompletionCode.SUCCEEDED, ""))), ""),
}


@pytest.mark.parametrize(("framework", "expected"), FIRST.values(), ids=FIRST.keys())
def test_first_failure_is_found(framework: Framework, expected: str) -> None:
    failure = failures.first_failure(framework)
    assert (failure.task if failure else "") == expected


def test_details_of_a_failure() -> None:
    found = failures.first_failure(job(task(1, ended(3, TRANSIENT, "one\ntwo\n"))))
    assert found is not None
    assert (found.code, found.phrase, found.failure_class) == (3, "Broken", "Transient")
    assert (found.node, found.pod_uid, found.container, found.at) == ("node-7", "pod-1", "main", at(10))
    assert (found.lines, found.lines_from) == (("one", "two"), "status")


DEV_SHM = {
    "containers": [{"name": "main", "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],  # noqa: S108
    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}],
}


@pytest.mark.parametrize(
    ("completion", "pod", "words"),
    [
        (ended(135, PERMANENT), None, "was full (64Mi unless"),
        (ended(135, PERMANENT), {"spec": DEV_SHM}, "(8Mi) was full"),
        (ended(1, message="DataLoader worker is killed by signal: Bus error."), None, "was full"),
        (ended(1, message="No such file"), {"spec": DEV_SHM}, ""),
        (ended(139, PERMANENT), {"spec": DEV_SHM}, ""),
    ],
)
def test_bus_error_has_a_hint(completion: TaskAttemptCompletionStatus, pod: Any, words: str) -> None:
    framework = job(task(0, completion))
    spec = msgspec.structs.replace(framework.spec, task_roles=(builders.role("worker", 1, pod=pod),))
    failure = explanation.explain(msgspec.structs.replace(framework, spec=spec), [], [], NOW).failure
    assert failure is not None
    assert words in failure.hint
    assert bool(words) == bool(failure.hint)


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (TRANSIENT, "Transient", "may succeed when retried"),
        (PERMANENT, "Permanent", "would fail again when retried"),
        (UNKNOWN, "unknown", "it is unknown whether a retry would help"),
        (
            CompletionType(attributes=("Transient", "Conflict")),
            "Transient Conflict",
            "may succeed when retried",
        ),
    ],
)
def test_failure_classes(kind: CompletionType, name: str, words: str) -> None:
    assert (failures.class_of(kind), failures.meaning_of(failures.class_of(kind))) == (name, words)


# Retries


class Retried(msgspec.Struct, frozen=True):
    policy: RetryPolicySpec
    completion: TaskAttemptCompletionStatus
    follows: bool
    reason: str
    retried: RetryPolicyStatus = RetryPolicyStatus()


FANCY = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=2)
RETRIES = {
    "used-up": Retried(
        RetryPolicySpec(max_retry_count=2),
        ended(1),
        follows=False,
        reason="all 2 retries are used",
        retried=RetryPolicyStatus(2, 2),
    ),
    "some-left": Retried(
        RetryPolicySpec(max_retry_count=2),
        ended(1),
        follows=True,
        reason="retry 2 of 2",
        retried=RetryPolicyStatus(1, 1),
    ),
    "permanent": Retried(FANCY, ended(1, PERMANENT), follows=False, reason="permanent failure"),
    "permanent-but-plain-policy": Retried(
        RetryPolicySpec(max_retry_count=2),
        ended(1, PERMANENT),
        follows=True,
        reason="retry 1 of 2",
    ),
    "transient": Retried(FANCY, ended(1, TRANSIENT), follows=True, reason="transient failure"),
    "transient-used-up": Retried(
        msgspec.structs.replace(FANCY, max_transient_retry_count=1),
        ended(1, TRANSIENT),
        follows=False,
        reason="transient failure, but all 1 transient retries are used",
        retried=RetryPolicyStatus(1, 0),
    ),
    "always": Retried(
        RetryPolicySpec(max_retry_count=-2),
        ended(1),
        follows=True,
        reason="maxRetryCount -2: always",
    ),
}


@pytest.mark.parametrize("case", RETRIES.values(), ids=RETRIES.keys())
def test_retries_of_the_job(case: Retried) -> None:
    framework = job(
        task(0, case.completion),
        state=State.COMPLETED,
        completion=by("worker", 0, case.completion),
        policy=case.policy,
        retried=case.retried,
    )
    found = explained(framework).job_retries
    assert found is not None
    assert (found.follows, found.reason) == (case.follows, case.reason)
    retried = case.retried
    assert (found.total, found.counted) == (retried.total_retried_count, retried.accountable_retried_count)


@pytest.mark.parametrize("case", RETRIES.values(), ids=RETRIES.keys())
def test_retries_of_a_task_in_a_running_job(case: Retried) -> None:
    failed = task(0, case.completion, state=State.ATTEMPT_COMPLETED, retried=case.retried)
    found = explained(job(failed, task(1), task_policy=case.policy)).task_retries
    assert found is not None
    assert (found.follows, found.reason) == (case.follows, case.reason)


def test_task_is_not_retried_after_its_job_attempt_ended() -> None:
    """The retry policy of the task would allow another attempt."""
    failed = task(0, ended(1))
    framework = job(
        failed,
        state=State.COMPLETED,
        completion=by("worker", 0, ended(1)),
        task_policy=RetryPolicySpec(max_retry_count=-1),
    )
    found = explained(framework).task_retries
    assert found is not None
    assert (found.follows, found.reason) == (False, "the attempt of the job had ended")


def test_time_of_the_next_retry() -> None:
    waiting = RetryPolicyStatus(1, 1, retry_delay_sec=40)
    framework = job(
        task(0, ended(1)),
        state=State.ATTEMPT_COMPLETED,
        completion=by("worker", 0, ended(1)),
        policy=RetryPolicySpec(max_retry_count=3),
        retried=waiting,
    )
    found = explained(framework)
    assert found.state is JobState.RETRYING
    assert found.job_retries is not None
    assert (found.job_retries.follows, found.job_retries.at) == (True, at(60))


COUNTS = {
    "none": (RetryPolicyStatus(), RetryPolicySpec(max_retry_count=3), "no retry so far (maxRetryCount 3)"),
    "one": (
        RetryPolicyStatus(1, 1),
        RetryPolicySpec(max_retry_count=3),
        "1 retry so far: 1 counted (maxRetryCount 3)",
    ),
    "both": (RetryPolicyStatus(5, 2), FANCY, "5 retries so far: 2 counted (maxRetryCount 2), 3 not counted"),
    "always": (
        RetryPolicyStatus(2, 2),
        RetryPolicySpec(max_retry_count=-2),
        "2 retries so far: 2 counted (maxRetryCount -2: always)",
    ),
}


@pytest.mark.parametrize(("retried", "policy", "words"), COUNTS.values(), ids=COUNTS.keys())
def test_retry_counts_in_words(retried: RetryPolicyStatus, policy: RetryPolicySpec, words: str) -> None:
    found = explained(job(task(0), retried=retried, policy=policy)).job_retries
    assert found is not None
    assert retries.describe_counts(found) == words
    assert retries.describe_decision(found, "job") == "", "no attempt has ended"


# Summaries


def condition(kind: str, message: str) -> tuple[Condition, ...]:
    return (Condition(type=kind, status="True", last_transition_time=NOW, message=message),)


def stopped() -> FrameworkAttemptCompletionStatus:
    return framework_completion(CompletionCode.STOP_FRAMEWORK_REQUESTED, "spec.executionType is Stop")


DEADLINE = framework_completion(CompletionCode.ACTIVE_DEADLINE_EXCEEDED, "it took too long")
SUCCESS = framework_completion(CompletionCode.SUCCEEDED, "all is well")
PENDING = State.ATTEMPT_CREATION_PENDING
SENTENCES: dict[str, tuple[Framework, JobState, str]] = {
    "failed": (
        job(task(0, ended(3)), state=State.COMPLETED, completion=by("worker", 0, ended(3))),
        JobState.FAILED,
        "job failed: worker-0 exited with code 3",
    ),
    "failed-without-a-task": (
        job(task(0, GONE_WITH_IT), state=State.COMPLETED, completion=DEADLINE),
        JobState.FAILED,
        "job failed: it took too long",
    ),
    "failed-by-another-cause": (
        job(task(0, ended(3)), state=State.COMPLETED, completion=DEADLINE),
        JobState.FAILED,
        "job failed: it took too long",
    ),
    "stopped": (
        job(task(0, GONE_WITH_IT), state=State.COMPLETED, completion=stopped()),
        JobState.STOPPED,
        "job stopped",
    ),
    "succeeded": (
        job(task(0), state=State.COMPLETED, completion=SUCCESS, retried=RetryPolicyStatus(2, 2)),
        JobState.SUCCEEDED,
        "job succeeded after 2 retries (1 worker)",
    ),
    "succeeded-although": (
        job(task(0, ended(1)), state=State.COMPLETED, completion=SUCCESS, summary=Summary(2, 0, 1, 1)),
        JobState.SUCCEEDED,
        "job succeeded (1 worker, 1 failed)",
    ),
    "runs": (job(task(0), task(1)), JobState.RUNNING, "job is running: 2 of 2 tasks"),
    "runs-again": (
        job(task(0), retried=RetryPolicyStatus(1, 1)),
        JobState.RUNNING,
        "job is running: 1 of 1 task (attempt 2)",
    ),
    "running-with-a-failed-task": (
        job(task(0), task(1, ended(9))),
        JobState.RUNNING,
        "job is running: 1 of 2 tasks; worker-1 exited with code 9",
    ),
    "ends": (
        job(task(0, ended(3)), state=State.ATTEMPT_DELETING, completion=by("worker", 0, ended(3))),
        JobState.STOPPING,
        "job is stopping: worker-0 exited with code 3; its pods are being deleted",
    ),
    "suspended": (
        job(task(0), state=PENDING, suspend=True),
        JobState.SUSPENDED,
        "job is suspended",
    ),
    "held": (
        job(task(0), state=PENDING, execution_type=ExecutionType.CREATE),
        JobState.HELD,
        "job is held: its executionType is Create",
    ),
    "name-taken": (
        job(task(0), state=PENDING, conditions=condition("NameTaken", "it is Bob's")),
        JobState.BLOCKED,
        "job is blocked: it is Bob's",
    ),
    "invalid": (
        job(task(0), state=PENDING, conditions=condition("Invalid", "spec.x makes no sense")),
        JobState.BLOCKED,
        "job is blocked: spec.x makes no sense",
    ),
    "about-to-start": (
        job(state=PENDING, retried=RetryPolicyStatus(1, 1)),
        JobState.PENDING,
        "job is about to start attempt 1",
    ),
}


@pytest.mark.parametrize(("framework", "state", "words"), SENTENCES.values(), ids=SENTENCES.keys())
def test_summary_sentence(framework: Framework, state: JobState, words: str) -> None:
    found = explained(framework)
    assert (found.state, found.message) == (state, words)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "job was just submitted; no controller has processed it yet"),
        (300, "job is pending: it was submitted 5 min ago, and no controller has processed it"),
    ],
)
def test_summary_without_a_controller(seconds: float, words: str) -> None:
    found = explained(builders.framework("job"), now=at(seconds))
    assert (found.state, found.message) == (JobState.SUBMITTED, words)
    assert bool(found.advice) == (seconds > 100)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (90061, "1 d 1 h"),
        (-5, "0 s"),
    ],
)
def test_duration_format(seconds: float, words: str) -> None:
    assert verdict.format_duration(seconds) == words


# Pending tasks


def pod(index: int = 0, **status: Any) -> Pod:
    body = {
        "metadata": {"name": f"job-worker-{index}", "uid": f"pod-{index}"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Pending", **status},
    }
    return msgspec.convert(body, Pod)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}]
    }


def warning(reason: str, message: str, uid: str = "pod-0") -> Event:
    return Event(NOW, NOW, 1, "Warning", reason, "worker-0", message, uid)


UNSCHEDULABLE: dict[str, Any] = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu.",
        }
    ]
}
NO_NODE = "no suitable node: the only node has too few free CPUs"
WAITS: dict[str, tuple[tuple[Pod, ...], tuple[Event, ...], str]] = {
    "scheduler": ((pod(**UNSCHEDULABLE),), (), NO_NODE),
    "image": ((pod(**waiting("ImagePullBackOff", "no such image")),), (), "its image cannot be pulled"),
    "init-container": (
        (
            pod(
                initContainerStatuses=[{"name": "barrier", "state": {"running": {}}}],
                **waiting("PodInitializing"),
            ),
        ),
        (),
        "its init container barrier is running",
    ),
    "volume": (
        (pod(**waiting("ContainerCreating")),),
        (warning("FailedMount", "no such volume"),),
        "FailedMount: no such volume",
    ),
    "warning-of-another-pod": (
        (pod(**waiting("ContainerCreating")),),
        (warning("FailedMount", "no such volume", "pod-9"),),
        pending.STARTING,
    ),
    "quota": ((), (warning("Postponed", "exceeded quota", "job-uid"),), "Postponed: exceeded quota"),
    "nothing-yet": ((), (), pending.NO_POD),
}


@pytest.mark.parametrize(("pods", "events", "reason"), WAITS.values(), ids=WAITS.keys())
def test_reasons_of_pending_tasks(pods: tuple[Pod, ...], events: tuple[Event, ...], reason: str) -> None:
    framework = job(task(0, state=State.ATTEMPT_PREPARING), state=State.ATTEMPT_PREPARING)
    found = explained(framework, pods=pods, events=events)
    assert [(wait.tasks, wait.reason) for wait in found.waits] == [(("worker-0",), reason)]
    assert found.message == f"job is pending: worker-0: {reason}"


def test_pending_tasks_are_grouped_by_reason() -> None:
    tasks = [task(index, state=State.ATTEMPT_PREPARING) for index in range(6)]
    framework = job(*tasks, state=State.ATTEMPT_PREPARING)
    found = explained(framework, pods=tuple(pod(index, **UNSCHEDULABLE) for index in range(6)))
    assert found.message.startswith(
        "job is pending: worker-0, worker-1, worker-2 and 3 more: no suitable node"
    )


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"start_after": (StartAfter("worker", StartCondition.READY),)}, "waiting for 2 workers to be ready"),
        ({"parallelism": 1}, "waiting for another evaluator to end (parallelism 1)"),
    ],
)
def test_reason_of_tasks_that_the_controller_holds_back(limits: dict[str, Any], reason: str) -> None:
    """The other role has started, or a task with a lower index runs."""
    first = State.ATTEMPT_RUNNING if "parallelism" in limits else State.ATTEMPT_CREATION_PENDING
    framework = job(task(0), task(1))
    assert framework.status is not None
    held = TaskRoleStatus(
        name="evaluator", task_statuses=(task(0, state=first), task(1, state=State.ATTEMPT_CREATION_PENDING))
    )
    attempt = msgspec.structs.replace(
        framework.status.attempt_status,
        task_role_statuses=(*framework.status.attempt_status.roles, held),
    )
    role = msgspec.structs.replace(builders.role("evaluator", 2), **limits)
    spec = msgspec.structs.replace(framework.spec, task_roles=(*framework.spec.task_roles, role))
    status = msgspec.structs.replace(framework.status, attempt_status=attempt)
    found = explained(msgspec.structs.replace(framework, spec=spec, status=status))
    assert [wait.reason for wait in found.waits] == [reason]
    assert reason in found.message


@pytest.mark.parametrize("spec", [{"suspend": True}, {"execution_type": ExecutionType.CREATE}])
def test_job_that_does_not_start_has_no_pending_tasks(spec: dict[str, Any]) -> None:
    found = explained(job(task(0, state=State.ATTEMPT_CREATION_PENDING), state=PENDING, **spec))
    assert found.waits == ()
    assert found.advice


def test_restarting_container_is_explained() -> None:
    last = {"terminated": {"exitCode": 7}}
    status = {
        "name": "main",
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": last,
    }
    found = explained(job(task(0)), pods=(pod(containerStatuses=[status]),))
    (wait,) = found.waits
    assert wait.reason == "CrashLoopBackOff: container main was restarted 3 times after exit code 7"


# On a cluster


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


def ask(place: Place, name: str, lines: int = 10) -> Explanation:
    async def work(connection: Connection) -> Explanation:
        return await explanation.read(connection, name, lines=lines)

    return place.use(work)


def test_log_lines_come_from_a_kept_pod(place: Place) -> None:
    """The log has more lines than the status."""
    roles = (
        jobs.role("ps", 1, jobs.FOREVER),
        jobs.role("worker", 2, jobs.fails(137, message="from the status")),
    )
    place.submit(jobs.framework("kept", *roles, completedPods="Keep"))
    place.wait_for_completed("kept")
    for pod_name in ("kept-worker-0", "kept-worker-1"):
        for at_ in range(5):
            place.write(pod_name, f"line {at_}\n", at=at_)
    found = ask(place, "kept", lines=2)
    failure = found.failure
    assert failure is not None
    assert failure.task in ("worker-0", "worker-1")
    assert (failure.code, failure.failure_class) == (137, "Transient")
    assert (failure.lines, failure.lines_from, failure.node) == (("line 3", "line 4"), "log", "hollow")


def test_status_lines_replace_a_removed_log(place: Place) -> None:
    role = jobs.role("worker", 1, jobs.fails(137, message="from the status"))
    place.submit(jobs.framework("lost", role, completedPods="Keep"))
    place.wait_for_completed("lost")
    place.lose_log("lost-worker-0")
    failure = ask(place, "lost").failure
    assert failure is not None
    assert (failure.lines, failure.lines_from) == (("from the status",), "status")


def test_status_lines_replace_deleted_pods(place: Place) -> None:
    place.submit(jobs.framework("gone", jobs.role(life=jobs.fails(3, message="one\nlast words\n"))))
    place.wait_for_completed("gone")
    wait_for("its pods to be gone", lambda: not place.pods("gone"))
    found = ask(place, "gone", lines=1)
    assert re.fullmatch(r"gone failed: worker-0 exited with code 3( (within|after) \d+ s)?", found.message)
    assert found.failure is not None
    assert (found.failure.lines, found.failure.lines_from) == (("last words",), "status")
    assert found.job_retries is not None
    assert found.job_retries.reason == "no retries allowed (maxRetryCount 0)"


def test_earlier_attempts_come_from_events(place: Place) -> None:
    role = jobs.role(life=jobs.fails(9))
    made = place.submit(jobs.framework("again", role, retryPolicy={"maxRetryCount": 1}))
    place.wait_for_completed("again")
    place.wait_for_events(made["metadata"]["uid"], "FrameworkRetried")
    found = ask(place, "again")
    assert found.attempt == 1
    assert found.job_retries is not None
    assert (found.job_retries.total, found.job_retries.follows) == (1, False)
    assert "FrameworkRetried" in [event.reason for event in found.history]


def test_unschedulable_job_is_explained(place: Place) -> None:
    place.submit(jobs.framework("pending", jobs.role(tasks=2, life=jobs.PENDING)))
    place.wait_for_state("pending", "AttemptPreparing")
    status = {"phase": "Pending", **UNSCHEDULABLE}
    for index in range(2):
        wait_for("the pod", lambda index=index: f"pending-worker-{index}" in place.pods())  # type: ignore[misc]
        path = place.path("pods", f"pending-worker-{index}", "status")
        place.client.patch(path, {"status": status}).expect(200)
    found = ask(place, "pending")
    assert found.message == f"pending is pending: worker-0, worker-1: {NO_NODE}"
    assert found.advice


def test_successful_job_is_explained(place: Place) -> None:
    place.submit(jobs.framework("fine", jobs.role(life=jobs.SUCCEEDS)))
    place.wait_for_completed("fine")
    assert ask(place, "fine").message.endswith(" s (1 worker)")


def test_unknown_job_is_reported(place: Place) -> None:
    with pytest.raises(ObjectNotFoundError, match='no job "missing"'):
        ask(place, "missing")


def test_cluster_without_a_controller_is_explained() -> None:
    with scripted_cluster.running(has_controller=False) as lonely:
        place = lonely.new_scripted_place()
        place.submit(jobs.framework("alone"))
        found = ask(place, "alone")
    assert (found.state, found.failure) == (JobState.SUBMITTED, None)
