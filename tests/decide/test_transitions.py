"""The states of a Framework and its tasks (statements 4, 10 to 17, A1): all transitions, and the times."""

import pytest
from builders import at, framework, role
from msgspec.structs import replace
from tests.decide.worlds import World, slow

from windlass.decide.types import CreatePod
from windlass.model.framework import Framework, RetryPolicySpec
from windlass.model.states import State

ALWAYS = RetryPolicySpec(max_retry_count=-2)
PENDING = State.ATTEMPT_CREATION_PENDING
REQUESTED = State.ATTEMPT_CREATION_REQUESTED
PREPARING = State.ATTEMPT_PREPARING
RUNNING = State.ATTEMPT_RUNNING
DELETION_PENDING = State.ATTEMPT_DELETION_PENDING
DELETION_REQUESTED = State.ATTEMPT_DELETION_REQUESTED
DELETING = State.ATTEMPT_DELETING
ATTEMPT_COMPLETED = State.ATTEMPT_COMPLETED
COMPLETED = State.COMPLETED


# The regular path (statement 10)


def test_framework_passes_through_all_states() -> None:
    """Statement 10; AttemptCompleted is observed during the delay of statement 27."""
    retry = RetryPolicySpec(fancy_retry_policy=True)
    world = slow(World(framework("job", role(), retry_policy=retry)))
    world.settle()
    world.confirm()
    world.settle()
    world.run()
    world.settle()
    world.fail(exit_code=201)
    world.settle()
    world.finish_deletions()  # the pod
    world.settle()
    world.show_config_map_deleting()
    world.settle()
    world.finish_deletions()  # the ConfigMap
    world.wake()
    expected = [PENDING, REQUESTED, PREPARING, RUNNING, DELETION_PENDING, DELETION_REQUESTED, DELETING]
    assert world.states()[:9] == [*expected, ATTEMPT_COMPLETED, PENDING]
    assert world.status.attempt_status.id == 1


def test_task_with_a_deleted_pod_passes_through_all_states() -> None:
    """Statements 10 and 14: the failure of the other task ends the attempt and deletes this task's pod."""
    world = slow(World(framework("job", role(tasks=2))))
    world.settle()
    world.confirm()
    world.settle()
    world.confirm()
    world.settle()
    world.run_pods()
    world.settle()
    world.fail(index=0)
    world.settle()
    world.show_pod_deleting(index=1)
    world.settle()
    world.finish_deletions()
    world.settle()
    expected = [PENDING, REQUESTED, PREPARING, RUNNING, DELETION_PENDING, DELETION_REQUESTED, DELETING]
    assert world.task_states(index=1) == [*expected, COMPLETED]


def test_completed_framework_stays_completed() -> None:
    """Statement 10: no later observation changes it."""
    world = World(framework("job", role()))
    world.start()
    world.succeed()
    world.settle()
    assert world.state is COMPLETED
    before = world.status
    world.edit_role("worker", task_number=3)
    world.advance(60)
    decision = world.settle()
    assert (decision.status, decision.actions) == (before, ())


# Preparing and Running (statements 12 and 13).


def test_framework_runs_when_any_task_runs() -> None:
    """Statement 12."""
    world = World(framework("job", role("ps"), role("worker", 2)))
    world.settle()
    assert world.state is PREPARING
    world.run("worker", 1)
    world.settle()
    assert world.state is RUNNING


@pytest.mark.parametrize("phase", ["Pending", "Unknown"])
def test_framework_never_returns_to_preparing(phase: str) -> None:
    """Statement 12: the only task that ran fails and starts again, and its new pod does not run yet."""
    world = World(framework("job", role(tasks=2, retry=ALWAYS)))
    world.settle()
    world.run(index=0)
    world.settle()
    world.fail(index=0)
    world.settle()
    world.show_pod(phase, index=0)
    world.settle()
    assert world.task(index=0).attempt_status.id == 1
    assert world.task(index=0).state is PREPARING
    assert world.state is RUNNING


def test_deleted_task_does_not_make_the_framework_run() -> None:
    """Statements 12 and 37: its pod may run briefly before it is deleted."""
    world = World(framework("job", role(tasks=2)))
    world.settle()
    world.completes_deletions = False
    world.edit_role("worker", task_number=1)
    world.settle()
    assert world.task(index=1).deletion_pending
    world.run(index=1)
    world.settle()
    assert world.state is PREPARING


@pytest.mark.parametrize(
    ("phases", "state"),
    [
        (["Pending"], PREPARING),
        (["Running"], RUNNING),
        (["Pending", "Running"], RUNNING),
        (["Unknown"], PREPARING),
        (["Pending", "Unknown"], PREPARING),
        (["Running", "Unknown"], RUNNING),
        (["Running", "Unknown", "Running"], RUNNING),
    ],
    ids="-".join,
)
def test_task_state_follows_its_pod(phases: list[str], state: State) -> None:
    """Statement 13."""
    world = World(framework("job", role()))
    world.settle()
    for phase in phases:
        world.show_pod(phase)
        world.settle()
    assert world.task().state is state


def test_node_and_addresses_follow_the_pod() -> None:
    """Statement 13: podNodeName, podIP, podHostIP."""
    world = World(framework("job", role()))
    world.settle()
    attempt = world.task().attempt_status
    assert not any((attempt.pod_node_name, attempt.pod_ip, attempt.pod_host_ip))
    world.run()
    world.settle()
    attempt = world.task().attempt_status
    assert (attempt.pod_node_name, attempt.pod_ip, attempt.pod_host_ip) == (
        "node-0",
        "10.0.0.1",
        "192.168.0.1",
    )


def test_addresses_assigned_one_by_one_are_stored() -> None:
    """Statement 13: each by itself, also when the pod runs already."""
    world = World(framework("job", role()))
    world.start()
    shown = world.pod()
    for ip, host_ip in [("", ""), ("10.0.9.9", ""), ("10.0.9.9", "192.168.9.9")]:
        world.pods[shown.name] = replace(shown, status=replace(shown.status, pod_ip=ip, host_ip=host_ip))
        world.settle()
        attempt = world.task().attempt_status
        assert (attempt.pod_ip or "", attempt.pod_host_ip or "") == (ip, host_ip)


# Deletion states (statements 14 and 15).


def failed_and_waiting(world: World) -> World:
    """The first task has failed, which ends the attempt; deleted objects remain."""
    world.start()
    world.completes_deletions = False
    world.fail(index=0, exit_code=7)
    world.settle()
    assert world.state.is_ending
    return world


def test_completion_is_stored_before_anything_is_deleted() -> None:
    """Statement 14: the world rejects a deletion whose reason is not stored; this is what is stored with it."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.fail(index=0, exit_code=7)
    decision = world.step()
    assert decision.actions
    assert (world.state, world.code) == (DELETION_PENDING, 7)
    assert (world.task_code(index=0), world.task_code(index=1)) == (7, -220)


def test_ending_framework_creates_no_pods() -> None:
    """Statement 15: a failed task of it is not retried either."""
    world = failed_and_waiting(
        World(framework("job", role(tasks=2), role("ps", 1, retry=ALWAYS, min_failed=-1)))
    )
    made = len([action for action in world.actions if isinstance(action, CreatePod)])
    world.fail("ps", 0)
    world.settle()
    world.finish_deletions()
    world.settle()
    world.finish_deletions()
    world.settle()
    assert world.state is COMPLETED
    assert len([action for action in world.actions if isinstance(action, CreatePod)]) == made
    assert world.task("ps").retry_policy_status.total_retried_count == 0


@pytest.mark.parametrize("tasks", [1, 4])
def test_ending_framework_is_not_rescaled(tasks: int) -> None:
    """Statement 15."""
    world = failed_and_waiting(World(framework("job", role(tasks=2))))
    before = [task.index for task in world.status.attempt_status.roles[0].task_statuses]
    world.edit_role("worker", task_number=tasks)
    decision = world.settle()
    assert decision.actions == ()
    assert [task.index for task in world.status.attempt_status.roles[0].task_statuses] == before
    assert not any(task.deletion_pending for task in world.status.attempt_status.roles[0].task_statuses)


def test_no_policy_applies_to_an_ending_framework() -> None:
    """Statement 15: a later success decides nothing."""
    world = failed_and_waiting(World(framework("job", role(tasks=2, min_succeeded=1))))
    world.succeed(index=1)
    world.settle()
    world.finish_deletions()
    world.settle()
    world.finish_deletions()
    world.settle()
    assert (world.state, world.code) == (COMPLETED, 7)
    assert world.task_code(index=1) == -220


# Times (statement 16).


def test_times_of_a_framework_and_its_task() -> None:
    """Statement 16."""
    world = World(framework("job", role()))
    world.settle()
    world.advance(10)
    world.run()
    world.settle()
    world.advance(10)
    world.succeed()
    world.settle()
    for status in (world.status, world.task()):
        assert (status.start_time, status.run_time, status.completion_time) == (at(0), at(10), at(20))
        attempt = status.attempt_status
        assert (attempt.start_time, attempt.run_time, attempt.completion_time) == (at(0), at(10), at(20))
        assert status.transition_time == at(20)


def test_times_of_a_second_attempt() -> None:
    """Statement 16: runTime at the *first* Running; the attempt has its own."""
    world = World(framework("job", role(), retry_policy=ALWAYS))
    world.settle()
    world.advance(10)
    world.run()
    world.settle()
    world.advance(10)
    world.fail()
    world.settle()
    world.advance(10)
    world.run()
    world.settle()
    status, attempt = world.status, world.status.attempt_status
    assert (attempt.id, attempt.start_time, attempt.run_time) == (1, at(20), at(30))
    assert (status.start_time, status.run_time, status.completion_time) == (at(0), at(10), None)
    assert attempt.completion_time is None


def test_times_of_a_second_task_attempt() -> None:
    """Statement 16, for a task that is retried within its Framework attempt."""
    world = World(framework("job", role(retry=RetryPolicySpec(max_retry_count=1))))
    world.settle()
    world.advance(10)
    world.run()
    world.settle()
    world.advance(10)
    world.fail()
    world.settle()
    world.advance(10)
    world.run()
    world.settle()
    task, attempt = world.task(), world.task().attempt_status
    assert (attempt.id, attempt.start_time, attempt.run_time) == (1, at(20), at(30))
    assert (task.start_time, task.run_time, task.completion_time) == (at(0), at(10), None)


def test_completion_time_is_the_end_of_the_attempt_not_of_the_retry_decision() -> None:
    """Statement 16: completionTime at AttemptCompleted, when the objects are gone."""
    world = failed_and_waiting(World(framework("job", role(tasks=2))))
    assert world.status.attempt_status.completion_time is None
    world.advance(5)
    world.finish_deletions()
    world.settle()
    world.advance(5)
    world.finish_deletions()
    world.settle()
    assert world.task(index=0).completion_time == at(0)
    assert world.task(index=1).completion_time == at(5)
    assert world.status.completion_time == at(10)


def test_completion_of_a_task_never_changes() -> None:
    """Statement 16: not even if its pod changes or is deleted later."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.start()
    world.succeed(index=0)
    world.settle()
    before = world.task(index=0)
    world.fail(index=0, exit_code=9)
    world.settle()
    assert world.task(index=0) == before
    world.remove_pod(index=0)
    world.settle()
    assert world.task(index=0) == before


# No tasks (statement 17)


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(framework("job", role(tasks=0)), id="one-role"),
        pytest.param(framework("job", role("ps", 0), role("worker", 0)), id="two-roles"),
    ],
)
def test_framework_without_tasks_waits(empty: Framework) -> None:
    """Statement 17; and it runs as soon as it has one."""
    world = World(empty)
    world.settle()
    world.advance(10_000)
    world.settle()
    assert (world.state.is_over, world.code) == (False, None)
    world.edit_role("worker", task_number=1)
    world.start()
    world.succeed()
    world.settle()
    assert (world.state, world.code) == (COMPLETED, 0)


def test_framework_scaled_to_zero_waits() -> None:
    """Statement 17: also after it has run."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.edit_role("worker", task_number=0)
    world.settle()
    assert world.pods == {}
    assert world.code is None
    assert world.state is RUNNING
