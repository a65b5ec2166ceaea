"""Pods that cannot be created (statement 23): which errors end a task attempt, and the consequences."""

import pytest
from builders import at, framework, role
from tests.decide.worlds import World

from windlass.decide.types import CreatePod, DeleteConfigMap, RejectedPod, RelistObjects
from windlass.model.failures import ApiFailure
from windlass.model.framework import ExecutionType, RetryPolicySpec
from windlass.model.states import State

NAME = "job-worker-0"
QUOTA = 'pods "job-worker-0" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2'
GARBLED = "the object provided is unrecognized (must be of type Pod): unexpected end of JSON input"
INVALID = ApiFailure(422, "Invalid", 'Pod "job-worker-0" is invalid: spec.containers: Required value')
FORBIDDEN = ApiFailure(
    403, "Forbidden", 'pods "job-worker-0" is forbidden: violates PodSecurity "restricted"'
)


@pytest.mark.parametrize(
    ("failure", "code", "phrase", "attributes"),
    [
        (ApiFailure(400, "BadRequest", "bad"), -310, "PodCreationUnknownError", ()),
        (FORBIDDEN, -310, "PodCreationUnknownError", ()),
        (INVALID, -200, "PodCreationPermanentError", ("Permanent",)),
        (ApiFailure(413, "RequestEntityTooLarge", "big"), -200, "PodCreationPermanentError", ("Permanent",)),
    ],
    ids=lambda value: value.reason if isinstance(value, ApiFailure) else None,
)
def test_rejected_pod_ends_the_task_attempt(
    failure: ApiFailure, code: int, phrase: str, attributes: tuple[str, ...]
) -> None:
    """Statements 18 and 23; the task decides the Framework attempt like any failed task."""
    world = World(framework("job", role(tasks=2)))
    world.refusals[NAME] = failure
    world.settle()
    ended = world.task().attempt_status.completion_status
    assert ended is not None
    assert (ended.code, ended.phrase, ended.type.attributes) == (code, phrase, attributes)
    assert ended.type.is_failed
    assert failure.message in ended.diagnostics
    assert (world.state, world.code) == (State.COMPLETED, code)
    assert world.task_code(index=1) == -220
    assert world.task().attempt_status.pod_uid is None
    assert (world.pods, world.config_map) == ({}, None)


@pytest.mark.parametrize(
    "failure",
    [
        ApiFailure(403, "Forbidden", QUOTA),
        ApiFailure(400, "BadRequest", GARBLED),
        ApiFailure(409, "AlreadyExists", 'pods "job-worker-0" already exists'),
        ApiFailure(409, "Conflict", "the object has been modified"),
        ApiFailure(429, "TooManyRequests", "slow down"),
        ApiFailure(500, "InternalError", "no"),
        ApiFailure(503, "ServiceUnavailable", "no"),
        ApiFailure(504, "Timeout", "no"),
        ApiFailure(401, "Unauthorized", "who are you"),
        ApiFailure(0, "", "no answer"),
    ],
    ids=lambda failure: f"{failure.code}-{failure.reason}",
)
def test_other_errors_are_retried(failure: ApiFailure) -> None:
    """Statements 18 and 23: -120 never ends an attempt."""
    world = World(framework("job", role(tasks=2)))
    world.refusals[NAME] = failure
    for _ in range(5):
        world.step()
    assert NAME in world.rejected
    assert (world.task().state, world.task_code()) == (State.ATTEMPT_CREATION_PENDING, None)
    assert world.code is None
    world.refusals.clear()
    world.rejected.clear()
    world.settle()
    assert world.has_pod()


def test_postponed_creation_waits() -> None:
    """Statement 23, "try again later": the creation waits for its time, and other tasks do not wait for it."""
    world = World(framework("job", role(tasks=2)))
    world.postponed[NAME] = at(30)
    decision = world.settle()
    assert (world.has_pod(index=0), world.has_pod(index=1)) == (False, True)
    assert decision.wake_at == at(30)
    world.advance(29)
    assert world.settle().actions == ()
    world.advance(1)
    world.settle()
    assert world.has_pod(index=0)


@pytest.mark.parametrize(
    ("policy", "failure", "is_retried", "accountable"),
    [
        (RetryPolicySpec(False, 0), FORBIDDEN, False, 0),
        (RetryPolicySpec(False, 1), FORBIDDEN, True, 1),
        (RetryPolicySpec(True, 1), FORBIDDEN, True, 1),
        (RetryPolicySpec(True, 0), FORBIDDEN, False, 0),
        (RetryPolicySpec(False, 1), INVALID, True, 1),
        (RetryPolicySpec(True, 1), INVALID, False, 0),
        (RetryPolicySpec(True, -2), INVALID, False, 0),
    ],
)
@pytest.mark.parametrize("kind", ["framework", "task"])
def test_rejected_pod_is_retried_by_its_completion_type(
    kind: str,
    policy: RetryPolicySpec,
    failure: ApiFailure,
    is_retried: bool,
    accountable: int,
) -> None:
    """Statements 23 and 26: the rejection of one attempt does not affect the next."""
    if kind == "framework":
        world = World(framework("job", role(tasks=2), retry_policy=policy))
    else:
        world = World(framework("job", role(tasks=2, retry=policy)))
    world.refusals[NAME] = failure
    while NAME not in world.rejected:
        world.step()
    world.refusals.clear()
    world.settle()
    status = world.status if kind == "framework" else world.task()
    retries = status.retry_policy_status
    assert (retries.total_retried_count, retries.accountable_retried_count) == (int(is_retried), accountable)
    assert (status.state is State.COMPLETED) == (not is_retried)
    assert world.has_pod() == is_retried


@pytest.mark.parametrize("stale", ["another attempt", "another task"])
def test_rejection_of_another_instance_is_ignored(stale: str) -> None:
    """Statements 4 and 23: identity is by UID, never by name."""
    world = World(framework("job", role()))
    while CreatePod("worker", 0) not in world.decide().actions:
        world.step()
    task = world.task()
    assert task.instance_uid is not None
    if stale == "another attempt":
        world.rejected[NAME] = RejectedPod(INVALID, task.instance_uid, task.attempt_status.id + 1)
    else:
        world.rejected[NAME] = RejectedPod(INVALID, "somebody", task.attempt_status.id)
    world.settle()
    assert world.has_pod()
    assert world.task_code() is None


def test_rejected_task_does_not_make_the_framework_run() -> None:
    """Statements 11 and 12: CreationPending → AttemptCompleted, and the Framework continues with the other tasks."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.refusals[NAME] = INVALID
    world.settle()
    assert (world.task().state, world.state) == (State.COMPLETED, State.ATTEMPT_PREPARING)
    assert world.task_states() == [State.ATTEMPT_CREATION_PENDING, State.COMPLETED]
    world.run(index=1)
    world.settle()
    world.succeed(index=1)
    world.settle()
    assert (world.state, world.code, world.task_code()) == (State.COMPLETED, 0, -200)


# Creations without a response: the pod may exist


def waiting_for_an_answer(world: World) -> World:
    """Create the first task's pod without a response and without the pod becoming visible."""
    world.postponed[NAME] = at(3600)
    world.start()
    world.uncertain.add(NAME)
    assert world.task().state is State.ATTEMPT_CREATION_PENDING
    return world


def test_objects_are_listed_before_a_task_ends_without_a_pod() -> None:
    """Statements 33 and 40: nothing runs after its attempt completed."""
    world = waiting_for_an_answer(World(framework("job", role(tasks=2))))
    world.fail(index=1)
    decision = world.step()
    assert RelistObjects() in decision.actions
    assert not world.task().state.is_over
    world.settle()
    assert (world.state, world.task().state, world.task_code()) == (State.COMPLETED, State.COMPLETED, -220)


def test_config_map_is_kept_while_a_pod_is_uncertain() -> None:
    """Statements 34 and 40: the ConfigMap must exist as the pod's owner until the pod is known not to exist."""
    world = waiting_for_an_answer(World(framework("job", role(tasks=2))))
    world.fail(index=1)
    world.step(acts=0)
    assert world.config_map is not None
    world.emptied.add(world.config_map.uid)
    world.pods.clear()
    decision = world.decide()
    assert RelistObjects() in decision.actions
    assert DeleteConfigMap(world.config_map.uid) not in decision.actions


def test_attempt_does_not_complete_while_a_pod_is_uncertain() -> None:
    """Statements 34 and 40: another client has deleted the ConfigMap and all known pods."""
    world = waiting_for_an_answer(
        World(framework("job", role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=1)))
    )
    world.remove_config_map()
    decision = world.step(acts=0)
    assert RelistObjects() in decision.actions
    assert (world.state.is_over, world.status.attempt_status.id, world.code) == (False, 0, -100)
    world.settle()
    assert world.status.attempt_status.id == 1


def test_attempt_does_not_complete_while_a_second_pod_is_uncertain() -> None:
    """Statement 40: two creations had no response, and the watch has shown only the first pod, which was deleted."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.uncertain.add(NAME)
    world.remove_config_map()
    decision = world.step(acts=0)
    assert RelistObjects() in decision.actions
    assert not world.state.is_over
    world.settle()
    assert world.state is State.COMPLETED


def test_deleted_task_waits_while_its_pod_is_uncertain() -> None:
    """Statements 36 and 40: its pod is listed, and none is created."""
    world = waiting_for_an_answer(World(framework("job", role("ps", 1), role("worker", 1))))
    world.edit_role("worker", task_number=0)
    world.advance(7200)
    decision = world.step()
    assert decision.actions == (RelistObjects(),)
    world.settle()
    assert [task.name for task in world.status.attempt_status.roles if task.task_statuses] == ["ps"]
    assert world.actions.count(CreatePod("worker", 0)) == 0


def test_objects_are_listed_before_a_rejection_ends_a_task() -> None:
    """Statements 23 and 40: the second request was rejected, the first may have been served."""
    world = waiting_for_an_answer(World(framework("job", role(tasks=2))))
    task = world.task()
    assert task.instance_uid is not None
    world.rejected[NAME] = RejectedPod(INVALID, task.instance_uid, task.attempt_status.id)
    decision = world.step()
    assert RelistObjects() in decision.actions
    assert not world.task().state.is_over
    world.settle()
    assert (world.task().state, world.task_code()) == (State.COMPLETED, -200)


def test_old_uncertainty_does_not_block_a_task() -> None:
    """Statement 33: a name is still in doubt when the Framework is stopped between two attempts.

    The creation of the pod had no response; then the pod appeared, ran, and was deleted with its attempt. The name
    stays uncertain.
    """
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.uncertain.add(NAME)
    world.edit(suspend=True)
    world.settle()
    assert (world.state, world.status.attempt_status.id) == (State.ATTEMPT_CREATION_PENDING, 1)
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert (world.state, world.code) == (State.COMPLETED, -210)
    assert [world.task(index=index).state for index in range(2)] == [State.COMPLETED] * 2
    assert [world.task_code(index=index) for index in range(2)] == [-220, -220]
