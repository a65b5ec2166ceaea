"""Deferred statuses keep what was observed and when, and are announced once."""

import builders
import msgspec
import pytest
from builders import at
from tests.controller.benches import Bench

from windlass.controller.engine.adaptive_batching import MIN_STATUS_DELAY, UPDATE_SAMPLES
from windlass.controller.engine.api import ConflictError, UnknownOutcomeError
from windlass.decide.builder import MAX_REPORTED_FAILURES
from windlass.decide.types import ReasonKind
from windlass.model.framework import CompletedPods, FrameworkSpec, RetryBackoff, RetryPolicySpec
from windlass.model.pods import ContainerState, ContainerStatus, ContainerTerminated
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus

SLOW = 0.1
"""Seconds that a store took: then a status waits for five."""


def running(*roles: object, **spec: object) -> Bench:
    """All tasks run, which is stored, by a server that has become slow."""
    framework = builders.framework("job", *roles, **spec)  # type: ignore[arg-type]
    bench = Bench(framework)
    bench.run()
    bench.show()
    bench.run()
    bench.show()
    bench.set_phases("Running")
    bench.run()
    bench.wait(MIN_STATUS_DELAY)
    assert "store AttemptRunning" in bench.run()
    bench.api.reasons.clear()
    for _ in range(UPDATE_SAMPLES):
        bench.executor._batching.record_update(SLOW, bench.seconds)
    return bench


def end(bench: Bench, index: int, code: int) -> None:
    ended = ContainerState(terminated=ContainerTerminated(code))
    bench.set_pod(
        f"job-worker-{index}",
        phase="Failed" if code else "Succeeded",
        container_statuses=(ContainerStatus(name="main", state=ended),),
    )


def vanish(bench: Bench, index: int) -> None:
    pods = bench.cache.observe(bench.key, bench.now(), bench.seconds).pods
    bench.cache.remove(pods[f"job-worker-{index}"])


def status_of(bench: Bench) -> FrameworkStatus:
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    assert framework.status is not None
    return framework.status


def task_of(bench: Bench, index: int) -> TaskStatus:
    return status_of(bench).attempt_status.roles[0].task_statuses[index]


def test_deferred_result_survives_the_deletion_of_its_pod() -> None:
    """A user may delete ended pods at once."""
    bench = running(builders.role("worker", 2))
    end(bench, 0, code=0)
    assert bench.run() == [], "it waits"
    vanish(bench, 0)
    bench.wait(1)
    assert bench.run() == [], "it waits still"
    bench.wait(5)
    assert bench.run() == ["store AttemptRunning"]
    completion = task_of(bench, 0).attempt_status.completion_status
    assert completion is not None
    assert completion.code == 0


def test_deferred_completion_has_the_time_of_its_observation() -> None:
    """Statement 16."""
    bench = running(builders.role("worker", 3))
    seen = []
    for index in (2, 0):
        bench.wait(2)
        end(bench, index, code=0)
        assert bench.run() == []
        seen.append(at(int(bench.seconds)))
    bench.wait(5)
    bench.run()
    assert [task_of(bench, index).completion_time for index in (2, 0)] == seen


def test_trigger_is_the_task_that_met_the_policy() -> None:
    """Statements 30 and 31: that of the two that was the second, whatever its number."""
    bench = running(builders.role("worker", 6, min_failed=2))
    end(bench, 5, code=5)
    assert bench.run() == []
    bench.wait(2)
    end(bench, 1, code=77)
    bench.run()
    completion = status_of(bench).attempt_status.completion_status
    assert completion is not None
    assert completion.code == 77


def test_retry_delay_starts_when_the_task_ended() -> None:
    """A5."""
    policy = RetryPolicySpec(max_retry_count=1, retry_backoff=RetryBackoff(initial_sec=2, max_sec=2))
    role = builders.role("worker", 2)
    role = msgspec.structs.replace(role, task=msgspec.structs.replace(role.task, retry_policy=policy))
    bench = running(role)
    end(bench, 0, code=1)
    assert bench.run() == []
    bench.wait(1)
    assert bench.run() == []
    bench.wait(1.5)
    assert [entry for entry in bench.run() if entry.startswith("delete")] == ["delete job-worker-0"]


def test_reasons_are_announced_once_after_the_store() -> None:
    bench = running(builders.role("worker", 4, min_failed=4))
    for index in (0, 1, 2):
        end(bench, index, code=1)
        assert bench.run() == []
        bench.wait(0.5)
    assert bench.api.reasons == []
    bench.wait(5)
    assert bench.run() == ["store AttemptRunning", "announce"]
    assert [reason.index for reason in bench.api.reasons] == [0, 1, 2]
    bench.wait(5)
    assert bench.run() == []


def test_first_of_many_failures_are_reported_by_name() -> None:
    """However often they were looked at before they were stored."""
    tasks = MAX_REPORTED_FAILURES + 30
    bench = running(builders.role("worker", tasks, min_failed=tasks))
    for index in range(tasks - 1):
        end(bench, index, code=1)
        if index % 20 == 0:
            bench.wait(0.1)
            assert bench.run() == []
    bench.wait(6)
    bench.run()
    told = [reason for reason in bench.api.reasons if reason.kind is ReasonKind.TASK_FAILED]
    assert len(told) == MAX_REPORTED_FAILURES + 1
    assert told[-1].message == "29 more tasks failed"


def test_spec_change_drops_the_deferred_decision() -> None:
    """A decision on another spec may be wrong, so it is made again."""
    bench = running(builders.role("worker", 6, min_failed=2))
    end(bench, 5, code=5)
    assert bench.run() == []
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    bench.api.version += 1
    metadata = msgspec.structs.replace(framework.metadata, resource_version=str(bench.api.version))
    spec: FrameworkSpec = builders.framework("job", builders.role("worker", 6, min_failed=1)).spec
    bench.cache.put_framework(msgspec.structs.replace(framework, metadata=metadata, spec=spec))
    assert bench.run()[0] == "store AttemptDeletionPending"
    completion = status_of(bench).attempt_status.completion_status
    assert completion is not None
    assert completion.code == 5
    told = [reason.kind for reason in bench.api.reasons]
    assert told.count(ReasonKind.TASK_FAILED) == 1


@pytest.mark.parametrize("error", [ConflictError(), UnknownOutcomeError()])
def test_failed_store_is_retried_and_announced_once(error: Exception) -> None:
    bench = running(builders.role("worker", 2, min_failed=2))
    end(bench, 0, code=3)
    assert bench.run() == []
    seen = at(int(bench.seconds))
    bench.wait(5)
    bench.api.errors["store AttemptRunning"] = error  # type: ignore[assignment]
    assert bench.run() == ["store AttemptRunning"]
    assert bench.api.reasons == []
    bench.api.errors.clear()
    done = bench.run_when_due()
    assert done[-2:] == ["store AttemptRunning", "announce"]
    assert [reason.kind for reason in bench.api.reasons] == [ReasonKind.TASK_FAILED]
    assert task_of(bench, 0).completion_time == seen
    assert bench.state is State.ATTEMPT_RUNNING


def test_missing_framework_is_read_again_after_an_unanswered_store() -> None:
    """A server that has just started may not serve Frameworks yet, and no watch reports that."""
    bench = running(builders.role("worker", 2, min_failed=2))
    end(bench, 0, code=3)
    bench.run()
    bench.wait(5)
    bench.api.errors["store AttemptRunning"] = UnknownOutcomeError()
    bench.run()
    bench.api.errors.clear()
    bench.api.is_unknown = True
    assert bench.run_when_due() == ["read"]
    assert bench.run_when_due() == ["read"], "nothing is done on a status that may have been written over"
    bench.api.is_unknown = False
    assert bench.run_when_due() == ["read", "store AttemptRunning", "announce"]


def test_store_with_lost_answer_is_announced() -> None:
    bench = running(builders.role("worker", 2, min_failed=2))
    end(bench, 0, code=3)
    assert bench.run() == []
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    waiting = bench.executor._pending[bench.key].deferred_decision(framework)
    assert waiting is not None
    assert waiting.status is not None
    bench.wait(5)
    bench.api.errors["store AttemptRunning"] = UnknownOutcomeError()
    bench.run()
    bench.api.errors.clear()
    bench.api.stored = framework.with_status(waiting.status, "900")
    assert bench.run_when_due() == ["read", "announce"]
    assert [reason.kind for reason in bench.api.reasons] == [ReasonKind.TASK_FAILED]
    assert bench.run() == []


def test_edit_of_the_retry_policy_retries_a_failure_not_stored_yet() -> None:
    bench = Bench(builders.framework("job", builders.role("worker", 2, min_failed=2)))
    for _ in range(2):
        bench.run()
        bench.show()
    bench.set_phases("Running")
    bench.run()
    bench.wait(MIN_STATUS_DELAY)
    assert "store AttemptRunning" in bench.run()
    failed = ContainerStatus(name="main", state=ContainerState(terminated=ContainerTerminated(5)))
    bench.set_pod("job-worker-1", phase="Failed", container_statuses=(failed,))
    assert bench.run() == [], "the failure waits to be stored"

    framework = bench.cache.framework(bench.key)
    assert framework is not None
    bench.api.version += 1
    metadata = msgspec.structs.replace(framework.metadata, resource_version=str(bench.api.version))
    retried = builders.role("worker", 2, min_failed=2, retry=RetryPolicySpec(max_retry_count=1))
    spec = builders.framework("job", retried).spec
    bench.cache.put_framework(msgspec.structs.replace(framework, metadata=metadata, spec=spec))
    bench.run()
    bench.wait(MIN_STATUS_DELAY)
    bench.run()

    stored = bench.cache.framework(bench.key)
    assert stored is not None
    assert stored.status is not None
    task = stored.status.attempt_status.roles[0].task_statuses[1]
    assert task.retry_policy_status.total_retried_count == 1
    assert task.state is not State.COMPLETED


def test_saturated_server_stores_one_status_between_the_first_and_the_last() -> None:
    """Pods start and end one after the other, over a minute."""
    bench = Bench(builders.framework("job", builders.role("worker", 3), completed_pods=CompletedPods.KEEP))
    stored = [entry for _ in range(2) for entry in _pass(bench)]
    for _ in range(UPDATE_SAMPLES):
        bench.executor._batching.record_update(1.0, bench.seconds)
    for phase in ("Running", "Succeeded"):
        for index in range(3):
            bench.wait(7)
            bench.executor._batching.record_update(1.0, bench.seconds)
            bench.set_pod(f"job-worker-{index}", phase=phase)
            stored += _pass(bench)
    assert [entry for entry in stored if entry.startswith("store")] == [
        "store AttemptPreparing",
        "store AttemptRunning",
        "store Completed",
    ]


def _pass(bench: Bench) -> list[str]:
    done = bench.run()
    bench.show()
    return done
