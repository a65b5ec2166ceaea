"""Records of finished attempts: when each is written, and what the retry policies decided."""

from typing import Any

import builders
import msgspec
import pytest
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide import decide_deletion, history, messages
from windlass.decide.types import DeleteConfigMap, RecordAttempt, Rules
from windlass.model.completion import CompletionCode
from windlass.model.framework import CompletedPods, ExecutionType, RetryPolicySpec
from windlass.model.history import AttemptRecord
from windlass.model.states import State
from windlass.model.status import PodTimes

KEEPS = Rules(keeps_records=True)


@pytest.fixture
def running(running_world: NewWorld) -> NewWorld:
    """Create a world of two running workers whose records are kept. The first failure ends an attempt."""

    def make(*, task_retries: int = 0, rules: Rules = KEEPS, **spec: Any) -> ObjectWorld:
        worker = builders.role("worker", 2, retry=RetryPolicySpec(max_retry_count=task_retries))
        return running_world(worker, rules=rules, **spec)

    return make


def retries(count: int) -> RetryPolicySpec:
    return RetryPolicySpec(max_retry_count=count)


def attempts(world: ObjectWorld) -> list[tuple[int, int, bool]]:
    return [(each.spec.attempt, each.spec.code, each.spec.retry.should_retry) for each in world.records]


def is_recorded(world: ObjectWorld) -> bool:
    return world.recorded_attempt == world.status.attempt_status.id


def test_retried_attempt_is_recorded_before_its_config_map_is_deleted(running: NewWorld) -> None:
    world = running(retry_policy=retries(1))
    world.end(0, exit_code=3)
    done = world.settle()
    assert not [each for each in done if isinstance(each, RecordAttempt)], "worker-1 still runs"
    world.vanish("job-worker-0", "job-worker-1")
    done = world.settle()
    kinds = [type(each) for each in done]
    assert kinds.index(RecordAttempt) < kinds.index(DeleteConfigMap)
    (record,) = world.records
    assert (record.spec.code, record.spec.retry.reason) == (3, "retry 1 of 1")
    assert record.spec.retry.is_counted


def test_each_attempt_is_recorded_once(running: NewWorld) -> None:
    world = running(retry_policy=retries(1), completed_pods=CompletedPods.KEEP)
    world.end(0, exit_code=3)
    world.finish()
    assert world.status.attempt_status.id == 1
    world.run(0, 1)
    world.settle()
    world.end(0)
    world.end(1)
    world.finish()
    assert world.state() is State.COMPLETED
    assert attempts(world) == [(0, 3, True), (1, 0, False)]
    assert world.records[1].framework.status == world.status, "the stored status, with its conditions"


def test_restarted_controller_decides_the_same_record_again(running: NewWorld) -> None:
    world = running(completed_pods=CompletedPods.KEEP)
    world.end(0, exit_code=3)
    world.finish()
    first = world.records[-1]
    world.recorded_attempt = -1
    world.settle()
    assert world.records == [first, first], "the same name, and the same content"


def test_attempt_is_not_replaced_before_its_record(running: NewWorld) -> None:
    """The ConfigMap was deleted by another client: the attempt ends at once."""
    world = running(retry_policy=retries(1))
    world.vanish("job-worker-0", "job-worker-1")
    world.vanish_config_map()
    decision = world.step()
    assert [type(each) for each in decision.actions] == [RecordAttempt]
    assert world.status.attempt_status.id == 0
    world.act(decision.actions)
    world.settle()
    assert world.status.attempt_status.id == 1
    assert attempts(world) == [(0, CompletionCode.CONFIG_MAP_EXTERNAL_DELETED, True)]


def test_record_is_not_repeated_while_it_is_postponed(running: NewWorld) -> None:
    world = running(completed_pods=CompletedPods.KEEP)
    world.end(0, exit_code=3)
    world.postponed[f"{world.framework.uid}-0"] = builders.at(60)
    world.finish()
    assert not world.records
    assert world.decide().wake_at == builders.at(60)
    world.wait(60)
    world.settle()
    assert is_recorded(world)


@pytest.mark.parametrize(
    ("spec", "code", "is_retried"),
    [
        ({"suspend": True}, CompletionCode.FRAMEWORK_SUSPENDED, True),
        ({"execution_type": ExecutionType.STOP}, CompletionCode.STOP_FRAMEWORK_REQUESTED, False),
    ],
    ids=["suspended", "stopped"],
)
def test_attempt_that_the_user_ended_is_recorded(
    running: NewWorld, spec: dict[str, Any], code: int, is_retried: bool
) -> None:
    world = running()
    world.edit(**spec)
    world.finish()
    assert attempts(world) == [(0, code, is_retried)]


@pytest.mark.parametrize(
    ("code", "attributes", "reason", "is_counted"),
    [
        (200, ("Transient",), "transient failure", False),
        (201, ("Transient", "Conflict"), "transient failure", False),
        (210, ("Permanent",), "permanent failure", False),
        (3, (), "retry 1 of 1", True),
    ],
    ids=["transient", "conflict", "permanent", "unknown"],
)
def test_failure_class_and_decision_are_recorded(
    running: NewWorld, code: int, attributes: tuple[str, ...], reason: str, is_counted: bool
) -> None:
    policy = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=1)
    world = running(retry_policy=policy, completed_pods=CompletedPods.KEEP)
    world.end(0, exit_code=code)
    world.finish()
    spec = world.records[0].spec
    assert (spec.code, spec.type.attributes) == (code, attributes)
    assert (spec.retry.reason, spec.retry.is_counted) == (reason, is_counted)
    assert spec.retry.should_retry == ("Permanent" not in attributes)
    assert (spec.retry.delay_sec > 0) == ("Conflict" in attributes)


def test_suspended_job_has_a_record_of_each_attempt(running: NewWorld) -> None:
    world = running(completed_pods=CompletedPods.KEEP)
    world.edit(suspend=True)
    world.finish()
    world.wait(60)
    world.edit(suspend=False)
    world.finish()
    world.run(0, 1)
    world.settle()
    world.end(0)
    world.end(1)
    world.finish()
    assert attempts(world) == [(0, CompletionCode.FRAMEWORK_SUSPENDED, True), (1, 0, False)]
    assert world.records[0].spec.retry.reason == "the job was suspended"


def test_tasks_of_a_job_that_is_rescaled_between_retries_are_recorded(running: NewWorld) -> None:
    """worker-1 is retried, worker-2 is added and retried, and both are removed."""
    world = running(task_retries=1, completed_pods=CompletedPods.KEEP)
    retry = RetryPolicySpec(max_retry_count=1)
    world.end(1, exit_code=4)
    world.finish()
    world.edit(builders.role("worker", 3, retry=retry))
    world.finish()
    world.run(1, 2)
    world.settle()
    world.end(2, exit_code=5)
    world.finish()
    world.edit(builders.role("worker", 1, retry=retry))
    world.finish()
    world.end(0)
    world.finish()
    (record,) = world.records
    found = [(each.index, each.attempt.id, codes(each)) for each in record.task_attempts()]
    removed = CompletionCode.DELETE_TASK_REQUESTED
    assert sorted(found) == [(0, 0, 0), (1, 0, 4), (1, 1, removed), (2, 0, 5), (2, 1, removed)]


def test_earlier_attempts_of_tasks_are_recorded_with_their_reasons(running: NewWorld) -> None:
    world = running(task_retries=2, completed_pods=CompletedPods.KEEP)
    for code in (4, 5, 6):
        world.end(0, exit_code=code)
        world.finish()
        if world.state().is_active:
            world.run(0)
            world.settle()
    (record,) = world.records
    found = [
        (ended.attempt.id, ended.attempt.completion_status.code, ended.retry and ended.retry.reason)
        for ended in record.task_attempts()
        if ended.index == 0 and ended.attempt.completion_status is not None
    ]
    assert found == [(0, 4, "retry 1 of 2"), (1, 5, "retry 2 of 2"), (2, 6, "all 2 retries are used")]


def test_earlier_attempts_do_not_accumulate_over_attempts_of_the_job(running: NewWorld) -> None:
    world = running(task_retries=1, retry_policy=retries(1))
    world.end(0, exit_code=4)
    world.finish()
    assert len(world.status.earlier_attempts) == 1
    world.run(0)
    world.settle()
    world.end(0, exit_code=5)
    world.finish()
    assert world.status.attempt_status.id == 1
    assert not world.status.earlier_attempts


def test_number_of_earlier_attempts_is_limited(running: NewWorld) -> None:
    status = running().status
    task = status.attempt_status.roles[0].task_statuses[0]
    for _ in range(history.MAX_EARLIER_ATTEMPTS + 5):
        status = history.with_ended_attempt(status, "worker", task, None)
    assert len(status.earlier_attempts) == history.MAX_EARLIER_ATTEMPTS


def test_removed_task_is_recorded(running: NewWorld) -> None:
    world = running(completed_pods=CompletedPods.KEEP)
    world.edit(builders.role("worker", 1))
    world.finish()
    world.end(0)
    world.finish()
    (record,) = world.records
    assert [(each.index, codes(each)) for each in record.task_attempts()] == [
        (0, 0),
        (1, CompletionCode.DELETE_TASK_REQUESTED),
    ]


def codes(ended: Any) -> int:
    code: int = ended.attempt.completion_status.code
    return code


def test_deleted_framework_leaves_the_record_of_its_attempt(running: NewWorld) -> None:
    world = running()
    decision = decide_deletion(world.framework, world.observed(), world.now, KEEPS)
    world.act(each for each in decision.actions if isinstance(each, RecordAttempt))
    (record,) = world.records
    assert record.spec.retry.reason == messages.FRAMEWORK_DELETED
    assert record.spec.code == CompletionCode.CONFIG_MAP_EXTERNAL_DELETED
    again = decide_deletion(world.framework, world.observed(), world.now, KEEPS)
    assert not [each for each in again.actions if isinstance(each, RecordAttempt)]


def test_framework_deleted_in_the_foreground_is_recorded(running: NewWorld) -> None:
    world = running()
    world.delete_framework()
    world.settle()
    assert [each.spec.retry.reason for each in world.records] == [messages.FRAMEWORK_DELETED]


def test_attempt_that_never_started_has_no_record(new_world: NewWorld) -> None:
    world = new_world(builders.role("worker", 1), rules=KEEPS)
    world.step()
    decision = decide_deletion(world.framework, world.observed(), world.now, KEEPS)
    assert not [each for each in decision.actions if isinstance(each, RecordAttempt)]


def test_nothing_is_recorded_by_default(running: NewWorld) -> None:
    world = running(task_retries=1, retry_policy=retries(1), rules=Rules())
    for code in (4, 5):
        world.end(0, exit_code=code)
        world.finish()
        if world.state() is State.ATTEMPT_RUNNING:
            world.run(0)
            world.settle()
    assert world.status.attempt_status.id == 1
    assert not world.records
    assert not world.status.earlier_attempts


def test_record_says_when_and_where_each_task_ran(running: NewWorld) -> None:
    world = running(completed_pods=CompletedPods.KEEP)
    world.wait(30)
    world.end(0)
    world.end(1)
    world.finish()
    record: AttemptRecord = world.records[0]
    times = [
        (each.attempt.pod_node_name, each.attempt.run_time, each.attempt.completion_time)
        for each in record.task_attempts()
    ]
    assert times == [("node-0", builders.at(0), builders.at(30))] * 2
    assert record.spec.completion_time == builders.at(30)


def test_record_has_the_times_of_pods_that_are_deleted(running: NewWorld) -> None:
    """worker-0 ends by itself and worker-1 is deleted. The controller is restarted when both pods are gone."""
    world = running()
    world.wait(30)
    world.end(0, exit_code=3)
    world.wait(10)
    world.settle()
    world.wait(5)
    world.settle()
    world.vanish("job-worker-0", "job-worker-1")
    world.finish()
    ended, deleted = (each.attempt.times_of_pod for each in world.records[0].task_attempts())
    begun = PodTimes(created=builders.NOW, scheduled=builders.NOW, started=builders.NOW)
    assert ended == msgspec.structs.replace(
        begun, ended=builders.at(30), deletion_requested=ended.deletion_requested
    )
    assert deleted == msgspec.structs.replace(begun, deletion_requested=builders.at(40))


def test_retried_task_has_the_times_of_each_of_its_pods(running: NewWorld) -> None:
    world = running(task_retries=1, completed_pods=CompletedPods.KEEP)
    for seconds in (20, 30):
        world.run(0)
        world.settle()
        world.wait(seconds)
        world.end(0, exit_code=4)
        world.finish()
    times = [each.attempt.times_of_pod for each in world.records[0].task_attempts() if each.index == 0]
    assert [each.started for each in times] == [builders.NOW, builders.at(20)]
    assert [each.ended for each in times] == [builders.at(20), builders.at(50)]


def test_times_of_pods_are_not_stored_without_records(running: NewWorld) -> None:
    world = running(completed_pods=CompletedPods.KEEP, rules=Rules())
    world.end(0, exit_code=3)
    world.finish()
    assert world.task(0).attempt_status.pod_times is msgspec.UNSET
