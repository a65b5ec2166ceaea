"""The executor: store, act, record what came of it, look again."""

from datetime import timedelta
from typing import Any

import builders
import msgspec
import pytest
from builders import NOW
from tests.controller.benches import Bench, RecordingApi

from windlass.controller.engine.adaptive_batching import MIN_STATUS_DELAY
from windlass.controller.engine.api import (
    AlreadyExistsError,
    ConflictError,
    Listed,
    NotFoundError,
    RefusedError,
    RequestError,
    UnknownOutcomeError,
)
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import MAX_SLEEP, SETTLE_PER_TASK, Executor
from windlass.decide import decide, initial_status
from windlass.decide.types import ReasonKind, Rules
from windlass.model.failures import ApiFailure
from windlass.model.framework import CompletedPods, ExecutionType, Framework, RetryPolicySpec
from windlass.model.states import State
from windlass.model.status import FrameworkStatus


def bench_with(tasks: int = 2) -> Bench:
    return Bench(builders.framework("job", builders.role("worker", tasks)))


def prepared(tasks: int = 2) -> Bench:
    """All pods are created, and the watch has shown them."""
    bench = bench_with(tasks)
    bench.run()
    bench.show()
    bench.run()
    bench.show()
    return bench


def test_status_is_stored_before_actions_and_announced_afterwards() -> None:
    bench = bench_with()
    assert bench.run() == ["create ConfigMap"], "it says itself whose it is: that need not be stored before"
    bench.show()
    assert bench.run() == [
        "store AttemptPreparing",
        "create job-worker-0",
        "create job-worker-1",
        "announce",
    ]
    assert [reason.kind for reason in bench.api.reasons] == [ReasonKind.ATTEMPT_STARTED]


def test_pass_with_actions_is_followed_by_another() -> None:
    bench = bench_with()
    bench.run()
    assert bench.is_due_now


@pytest.mark.parametrize("error", [ConflictError(), NotFoundError(), UnknownOutcomeError()])
def test_failed_store_prevents_actions_and_is_retried(error: RequestError) -> None:
    bench = bench_with()
    bench.run()
    bench.show()
    bench.api.errors["store AttemptPreparing"] = error
    assert bench.run() == ["store AttemptPreparing"]
    assert not bench.is_due_now, "not at once"
    assert bench.queue.next_time() is not None
    bench.api.errors.clear()
    read = ["read"] if isinstance(error, UnknownOutcomeError) else []
    created = ["create job-worker-0", "create job-worker-1", "announce"]
    assert bench.run_when_due() == [*read, "store AttemptPreparing", *created]


def test_unanswered_store_is_followed_by_a_read_before_any_action() -> None:
    """The store was not answered and took effect; the watch is behind."""
    bench = bench_with()
    bench.run()
    bench.show()
    bench.api.errors["store AttemptPreparing"] = UnknownOutcomeError()
    bench.run()
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    status = decide(framework, bench.cache.observe(bench.key, NOW, 0.0), NOW).status
    assert status is not None
    bench.api.stored = framework.with_status(status, "150")
    bench.api.errors.clear()
    created = ["create job-worker-0", "create job-worker-1"]
    done = bench.run_when_due()
    assert done == ["read", "announce", *created], "what it would have stored is stored already, and told now"
    assert bench.cache.framework(bench.key) is bench.api.stored


def test_change_without_actions_is_deferred_briefly() -> None:
    bench = prepared()
    assert bench.run() == []
    assert bench.state is State.ATTEMPT_PREPARING
    assert bench.queue.next_time() == bench.seconds + MIN_STATUS_DELAY
    bench.wait(0.3)
    bench.set_phases("Running")
    assert bench.run() == [], "still gathering, from the first change on"
    bench.wait(0.2)
    assert bench.run() == ["store AttemptRunning"]
    assert bench.run() == []


def test_completion_is_stored_at_once() -> None:
    bench = Bench(builders.framework("job", builders.role("worker", 1), completed_pods=CompletedPods.KEEP))
    bench.run()
    bench.show()
    bench.run()
    bench.show()
    bench.set_phases("Succeeded")
    assert bench.run() == ["store Completed", "announce"]


def test_permanently_rejected_pod_fails_its_task() -> None:
    bench = bench_with(1)
    bench.api.errors["create job-worker-0"] = RefusedError(ApiFailure(422, "Invalid", "spec: bad"))
    bench.run()
    bench.show()
    bench.run()
    assert bench.run()[0] == "store AttemptDeletionPending"
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    assert framework.status is not None
    completion = framework.status.attempt_status.completion_status
    assert completion is not None
    assert completion.code == -200
    assert "spec: bad" in completion.diagnostics


@pytest.mark.parametrize(
    "error",
    [
        RefusedError(ApiFailure(403, "Forbidden", "exceeded quota: compute")),
        AlreadyExistsError("pods job-worker-0 already exists"),
        UnknownOutcomeError("timed out"),
    ],
)
def test_temporarily_rejected_pod_is_retried_with_backoff(error: RequestError) -> None:
    bench = bench_with(1)
    bench.api.errors["create job-worker-0"] = error
    bench.run()
    bench.show()
    assert "create job-worker-0" in bench.run()
    waits = []
    for _ in range(5):
        assert bench.run() == [], "it is postponed, whatever else happens"
        due = bench.queue.next_time()
        assert due is not None
        waits.append(due - bench.seconds)
        bench.seconds = due
        assert bench.run() == ["create job-worker-0"]
    assert waits[-1] > waits[0]
    assert waits[-1] >= 0.8


def test_config_map_of_another_owner_is_reported_and_retried() -> None:
    bench = bench_with()
    bench.api.errors["create ConfigMap"] = AlreadyExistsError("configmaps job-attempt already exists")
    bench.run()
    bench.wait(1)
    bench.api.errors.clear()
    assert bench.run() == ["store AttemptCreationPending", "create ConfigMap", "announce"]
    assert [reason.kind for reason in bench.api.reasons] == [ReasonKind.NAME_TAKEN]


def test_failed_deletion_is_retried_without_repeating_others() -> None:
    bench = prepared(3)
    bench.run()
    bench.wait(1)
    bench.run()
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    role = msgspec.structs.replace(framework.spec.task_roles[0], task_number=1)
    spec = msgspec.structs.replace(framework.spec, task_roles=(role,))
    bench.cache.put_framework(
        msgspec.structs.replace(
            framework, spec=spec, metadata=msgspec.structs.replace(framework.metadata, resource_version="500")
        )
    )
    bench.api.version = 600
    bench.api.errors["delete job-worker-1"] = UnknownOutcomeError()
    done = bench.run()
    assert done == ["store AttemptPreparing", "delete job-worker-1", "delete job-worker-2"]
    bench.api.errors.clear()
    assert "delete job-worker-1" in (done := bench.run_when_due())
    assert "delete job-worker-2" not in done


def test_unknown_object_in_status_leads_to_a_list() -> None:
    bench = prepared(1)
    bench.run()
    bench.wait(1)
    assert bench.run() == ["store AttemptPreparing"]
    stored = bench.cache.framework(bench.key)
    assert stored is not None
    elsewhere = Bench(stored)
    elsewhere.api.listed = Listed("900", builders.config_map(stored, "cm-1", resource_version="101"), ())
    assert elsewhere.run() == ["list"]
    assert elsewhere.run()[0] == "store AttemptDeletionPending", "the pod is proven to be gone"


def _gone(bench: Bench) -> None:
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    bench.cache.remove_framework(framework)


def test_objects_of_deleted_framework_are_deleted_and_its_key_forgotten() -> None:
    bench = prepared()
    bench.run()
    _gone(bench)
    assert bench.run() == ["empty cm-1"]
    for pod in tuple(bench.cache.observe(bench.key, NOW, 0.0).pods.values()):
        assert bench.cache.remove(pod) == {bench.key}, "its key is woken"
    assert bench.run() == ["delete job-attempt cm-1"]
    config_map = bench.cache.observe(bench.key, NOW, 0.0).config_map
    assert config_map is not None
    bench.cache.remove(config_map)
    assert bench.run() == []
    assert bench.queue.next_time() is None


def test_deleted_framework_without_objects_is_forgotten() -> None:
    bench = bench_with()
    _gone(bench)
    assert bench.run() == []
    assert bench.queue.next_time() is None


def test_failed_cleanup_is_retried() -> None:
    bench = prepared()
    bench.run()
    _gone(bench)
    bench.api.errors["empty cm-1"] = UnknownOutcomeError()
    assert bench.run() == ["empty cm-1"]
    bench.api.errors.clear()
    assert bench.run_when_due() == ["empty cm-1"]


def test_recreated_framework_deletes_objects_of_the_old_one() -> None:
    bench = prepared()
    bench.run()
    anew = builders.framework("job", builders.role("worker", 2), uid="fw-2", resource_version="900")
    bench.cache.put_framework(anew)
    assert bench.run() == ["store AttemptCreationPending", "empty cm-1"]


def test_known_pods_are_deleted_as_of_the_newest_version() -> None:
    bench = prepared()
    bench.run()
    pods = bench.cache.observe(bench.key, NOW, 0.0).pods.values()
    newest = max(int(pod.metadata.resource_version) for pod in pods)
    _gone(bench)
    bench.run()
    assert bench.api.emptied_as_of == [str(newest)]


def test_pods_are_listed_before_deletion_if_some_may_be_unknown() -> None:
    bench = bench_with()
    bench.run()
    bench.show()
    bench.api.errors["create job-worker-1"] = UnknownOutcomeError()
    bench.run()
    bench.show()
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    stopped = msgspec.structs.replace(framework.spec, execution_type=ExecutionType.STOP)
    metadata = msgspec.structs.replace(framework.metadata, resource_version="900")
    bench.cache.put_framework(msgspec.structs.replace(framework, spec=stopped, metadata=metadata))
    assert bench.run() == ["store AttemptDeletionPending", "list", "empty cm-1", "announce"]


def test_many_pods_are_deleted_by_several_requests() -> None:
    bench = prepared()
    bench.run()
    _gone(bench)
    bench.api.continue_tokens = ["after-500", "after-1000"]
    log = [line for _ in range(4) for line in bench.run()]
    assert log == ["empty cm-1", "empty cm-1 from after-500", "empty cm-1 from after-1000"]


def test_changes_of_a_large_framework_are_processed_together() -> None:
    tasks = 200
    bench = prepared(tasks)
    bench.run()
    bench.queue.add(bench.key)
    assert bench.queue.take(bench.seconds) is None
    bench.seconds += SETTLE_PER_TASK * tasks
    assert bench.is_due_now


def test_reasons_are_not_announced_without_a_store() -> None:
    bench = Bench(builders.framework("job", builders.role("worker", 1), completed_pods=CompletedPods.KEEP))
    bench.run()
    bench.show()
    bench.run()
    bench.show()
    bench.set_phases("Succeeded")
    bench.api.reasons.clear()
    bench.api.errors["store Completed"] = ConflictError()
    for _ in range(3):
        assert bench.run() == ["store Completed"]
        bench.wait(60)
    assert not bench.api.reasons
    bench.api.errors.clear()
    bench.run()
    kinds = [reason.kind for reason in bench.api.reasons]
    assert kinds == [ReasonKind.ATTEMPT_ENDING, ReasonKind.FRAMEWORK_COMPLETED]


def test_reasons_are_announced_after_the_store_even_if_an_action_failed() -> None:
    bench = prepared(1)
    bench.set_phases("Failed")
    bench.api.reasons.clear()
    bench.api.errors["empty cm-1"] = UnknownOutcomeError()
    assert bench.run() == ["store AttemptDeletionPending", "empty cm-1", "announce"]


class DeletingApi(RecordingApi):
    """The Framework is deleted, and the watch says so, while the answer to a store is under way."""

    cache: Cache

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        answer = await super().store_status(framework, status)
        gone = msgspec.structs.replace(answer.metadata, resource_version=str(self.version + 1))
        self.cache.remove_framework(msgspec.structs.replace(answer, metadata=gone))
        return answer


def test_no_action_for_framework_deleted_during_the_store() -> None:
    bench = bench_with()
    bench.run()
    bench.show()
    api = DeletingApi()
    api.cache = bench.cache
    bench.executor = Executor(api, bench.cache, bench.queue, bench, Rules())
    bench.run()
    assert api.log == ["store AttemptPreparing"]
    assert bench.cache.framework(bench.key) is None


def test_clock_that_steps_back_delays_nothing() -> None:
    bench = prepared()
    assert bench.run() == []
    bench.steps_back = timedelta(hours=1)
    bench.wait(0.5)
    assert bench.run() == ["store AttemptPreparing"]


def test_distant_deadline_is_checked_at_intervals() -> None:
    """Its timer may be wrong when the clock steps forward."""
    bench = Bench(builders.framework("job", active_deadline_seconds=86_400))
    bench.run()
    bench.show()
    bench.run()
    bench.show()
    bench.run()
    bench.wait(1)
    bench.run()
    assert bench.run() == []
    assert bench.queue.next_time() == pytest.approx(bench.seconds + MAX_SLEEP)


def test_rejected_pod_of_a_task_without_instance_uid_ends_its_attempt() -> None:
    """As the reference left them before it gave tasks UIDs."""
    bench = bench_with(1)
    bench.run()
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    framework = framework.with_status(initial_status.framework_status(framework, NOW))
    assert framework.status is not None
    role = framework.status.attempt_status.roles[0]
    task = msgspec.structs.replace(role.task_statuses[0], instance_uid=None)
    role = msgspec.structs.replace(role, task_statuses=(task,))
    attempt = msgspec.structs.replace(framework.status.attempt_status, task_role_statuses=(role,))
    status = msgspec.structs.replace(framework.status, attempt_status=attempt)
    bench.api.version += 1
    bench.cache.put_framework(framework.with_status(status, str(bench.api.version)))
    bench.api.errors["create job-worker-0"] = RefusedError(ApiFailure(422, "Invalid", "spec: bad"))
    bench.show()
    bench.run()
    assert bench.run()[0] == "store AttemptDeletionPending"


@pytest.mark.parametrize(
    "field", ["active_deadline_seconds", "pending_deadline_seconds", "ttl_seconds_after_finished"]
)
def test_deadline_beyond_the_maximum_date_is_ignored(field: str) -> None:
    spec: dict[str, Any] = {field: 2**53}
    bench = Bench(builders.framework("job", completed_pods=CompletedPods.KEEP, **spec))
    bench.run()
    bench.show()
    bench.run()
    bench.show()
    bench.set_phases("Succeeded")
    assert bench.run() == ["store Completed", "announce"]
    assert bench.run() == []


def test_task_retried_without_limit_after_rejections_backs_off() -> None:
    bench = Bench(
        builders.framework("job", builders.role("worker", 1, retry=RetryPolicySpec(max_retry_count=-1)))
    )
    bench.api.errors["create job-worker-0"] = RefusedError(ApiFailure(403, "Forbidden", "not allowed"))
    bench.run()
    bench.show()
    bench.run()
    for _ in range(100):
        bench.wait(0.1)
        bench.run()
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    assert framework.status is not None
    (task,) = framework.status.attempt_status.roles[0].task_statuses
    assert 3 <= task.attempt_status.id <= 8, "in ten seconds"


def creations(done: list[str]) -> int:
    return sum(entry.startswith("create job-worker") for entry in done)


def test_exhausted_quota_is_probed_with_few_pods() -> None:
    bench = bench_with(40)
    over_quota = RefusedError(ApiFailure(403, "Forbidden", "exceeded quota: pods"))
    bench.api.errors = {f"create job-worker-{index}": over_quota for index in range(40)}
    bench.run()
    bench.show()
    assert creations(bench.run()) == 40, "the gang, all at once"
    tried = 0
    for _ in range(300):
        bench.wait(0.1)
        tried += creations(bench.run())
    assert 3 <= tried <= 150, "in half a minute; forty at every turn would be a thousand"
    bench.api.errors.clear()
    waves = []
    for _ in range(1500):
        bench.wait(0.1)
        bench.show()
        if wave := creations(bench.run()):
            waves.append(wave)
    assert sum(waves) == 40
    assert max(waves) > 1, "the more there are, the more are tried at a time"


def test_backoff_after_a_failed_batch_applies_to_all_pods() -> None:
    """A gang that is created in slices, of which the first was turned down as a whole."""
    bench = bench_with(1000)
    over_quota = RefusedError(ApiFailure(403, "Forbidden", "exceeded quota: pods"))
    bench.api.errors = {f"create job-worker-{index}": over_quota for index in range(1000)}
    bench.run()
    bench.show()
    tried = 0
    for _ in range(600):
        bench.wait(0.1)
        tried += creations(bench.run())
    assert tried < 400, "in a minute"
    assert "create pods: RefusedError" in bench.api.failures, "the failure is reported"


@pytest.mark.parametrize(
    "error", [None, UnknownOutcomeError(), RefusedError(ApiFailure(403, "Forbidden", "no"))]
)
def test_reason_about_an_action_is_announced_after_the_action(error: RequestError | None) -> None:
    job = builders.framework("job", builders.role("worker", 1), ttl_seconds_after_finished=0)
    bench = Bench(job)
    bench.run()
    bench.show()
    bench.run()
    bench.show()
    if error is not None:
        bench.api.errors["delete Framework"] = error
    bench.set_phases("Succeeded")
    log: list[str] = []
    for _ in range(6):
        bench.wait(1)
        log += bench.run()
        for pod in tuple(bench.cache.observe(bench.key, NOW, 0.0).pods.values()):
            bench.cache.remove(pod)
        config_map = bench.cache.observe(bench.key, NOW, 0.0).config_map
        if "delete job-attempt cm-1" in log and config_map is not None:
            bench.cache.remove(config_map)
    assert "delete Framework" in log
    kinds = [reason.kind for reason in bench.api.reasons]
    assert ReasonKind.FRAMEWORK_COMPLETED in kinds
    assert (ReasonKind.FRAMEWORK_EXPIRED in kinds) is (error is None)


def test_task_with_a_taken_pod_name_does_not_block_others() -> None:
    bench = bench_with(3)
    bench.api.errors["create job-worker-0"] = AlreadyExistsError("job-worker-0")
    bench.run()
    bench.show()
    assert creations(bench.run()) == 3
    assert set(bench.cache.observe(bench.key, NOW, 0.0).pods) == {"job-worker-1", "job-worker-2"}
