"""The states of a Framework and of its tasks (statements 4, 10 to 17, A1): every row and shortcut, and the times."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from windlass.decide.contract import CreateConfigMap, CreatePod, DeletePod
from windlass.model.framework import ExecutionType, Framework, RetryPolicySpec
from windlass.model.states import State
from windlass.testing.builders import at, framework, role

if TYPE_CHECKING:
    from tests.decide.conftest import World

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


def slow(world: World) -> World:
    """A world in which the watch and the deletions wait for the test."""
    world.shows_creations = False
    world.completes_deletions = False
    return world


# The way through (statement 10).


def test_a_framework_goes_the_whole_way(world_of: type[World]) -> None:
    """Statement 10, with statement 27's wait as the place where AttemptCompleted is seen."""
    retry = RetryPolicySpec(fancy_retry_policy=True)
    world = slow(world_of(framework("job", role(), retry_policy=retry)))
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


def test_a_task_whose_pod_has_to_go_goes_the_whole_way(world_of: type[World]) -> None:
    """Statements 10 and 14: the other task's failure ends the attempt, and with it this task's pod."""
    world = slow(world_of(framework("job", role(tasks=2))))
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


def test_a_framework_ends_in_completed_and_stays_there(world_of: type[World]) -> None:
    """Statement 10: nothing that is seen later moves it."""
    world = world_of(framework("job", role()))
    world.start()
    world.succeed()
    world.settle()
    assert world.state is COMPLETED
    before = world.status
    world.edit_role("worker", task_number=3)
    world.advance(60)
    decision = world.settle()
    assert (decision.status, decision.actions) == (before, ())


# Shortcuts (statement 11).


def to_pending(world: World) -> None:
    world.settle()


def to_requested(world: World) -> None:
    world.settle()


def to_preparing(world: World) -> None:
    world.settle()
    world.confirm()
    world.settle()


def to_task_requested(world: World) -> None:
    to_preparing(world)


def to_task_preparing(world: World) -> None:
    to_preparing(world)
    world.confirm()
    world.settle()


def to_running(world: World) -> None:
    to_task_preparing(world)
    world.run_pods()
    world.settle()


def to_deletion_pending(world: World) -> None:
    """The attempt has failed, and the pod of the other task is still there: its ConfigMap cannot go yet."""
    to_running(world)
    world.fail(index=0)
    world.step()


def to_deletion_requested(world: World) -> None:
    to_deletion_pending(world)
    world.settle()
    world.finish_deletions()
    world.settle()


def to_task_deletion_requested(world: World) -> None:
    to_deletion_pending(world)
    world.settle()


FRAMEWORK_WAYS = [
    pytest.param(to_requested, REQUESTED, id="requested"),
    pytest.param(to_preparing, PREPARING, id="preparing"),
    pytest.param(to_running, RUNNING, id="running"),
    pytest.param(to_deletion_pending, DELETION_PENDING, id="deletion-pending"),
    pytest.param(to_deletion_requested, DELETION_REQUESTED, id="deletion-requested"),
]
TASK_WAYS = [
    pytest.param(to_task_requested, REQUESTED, id="requested"),
    pytest.param(to_task_preparing, PREPARING, id="preparing"),
    pytest.param(to_running, RUNNING, id="running"),
    pytest.param(to_deletion_pending, DELETION_PENDING, id="deletion-pending"),
    pytest.param(to_task_deletion_requested, DELETION_REQUESTED, id="deletion-requested"),
]


@pytest.mark.parametrize(("way", "state"), FRAMEWORK_WAYS)
def test_a_config_map_seen_deleting(
    world_of: type[World], way: Callable[[World], None], state: State
) -> None:
    """Statement 11: every state with an object → AttemptDeleting."""
    world = slow(world_of(framework("job", role(tasks=2))))
    way(world)
    assert world.state is state
    world.show_config_map_deleting()
    world.settle()
    assert world.state is DELETING
    assert world.code is not None


@pytest.mark.parametrize(("way", "state"), FRAMEWORK_WAYS)
def test_a_config_map_that_is_gone(world_of: type[World], way: Callable[[World], None], state: State) -> None:
    """Statement 11: every state with an object → AttemptCompleted; and no retry is wanted here, so Completed."""
    world = slow(world_of(framework("job", role(tasks=2))))
    way(world)
    assert world.state is state
    world.remove_config_map(and_pods=True)
    world.settle()
    assert world.state is COMPLETED
    assert {DELETING} & set(world.states()) == set()


@pytest.mark.parametrize(("way", "state"), TASK_WAYS)
def test_a_pod_seen_deleting(world_of: type[World], way: Callable[[World], None], state: State) -> None:
    """Statement 11: every state with an object → AttemptDeleting."""
    world = slow(world_of(framework("job", role(tasks=2))))
    way(world)
    assert world.task(index=1).state is state
    world.show_pod_deleting(index=1)
    world.settle()
    assert world.task(index=1).state is DELETING


@pytest.mark.parametrize(("way", "state"), TASK_WAYS)
def test_a_pod_that_is_gone(world_of: type[World], way: Callable[[World], None], state: State) -> None:
    """Statement 11: every state with an object → AttemptCompleted, without AttemptDeleting in between."""
    world = slow(world_of(framework("job", role(tasks=2))))
    way(world)
    assert world.task(index=1).state is state
    world.remove_pod(index=1)
    world.settle()
    assert world.task(index=1).state is COMPLETED
    assert DELETING not in world.task_states(index=1)


def test_a_framework_that_ends_before_it_has_an_object(world_of: type[World]) -> None:
    """Statement 11: CreationPending → AttemptCompleted, and no object is ever made."""
    world = world_of(framework("job", role(), execution_type=ExecutionType.CREATE))
    world.settle()
    world.edit(execution_type=ExecutionType.STOP)
    world.settle()
    assert (world.state, world.code) == (COMPLETED, -210)
    assert world.actions == ()


def test_a_task_that_ends_before_it_has_an_object(world_of: type[World]) -> None:
    """Statement 11: CreationPending → AttemptCompleted, for a task whose pod was never made."""
    world = world_of(framework("job", role(tasks=2)))
    world.postponed["job-worker-1"] = at(3600)
    world.start()
    assert world.task(index=1).state is PENDING
    world.fail(index=0)
    world.settle()
    assert (world.task(index=1).state, world.task_code(index=1)) == (COMPLETED, -220)
    assert CreatePod("worker", 1) not in world.actions


# Preparing and Running (statements 12 and 13).


def test_a_framework_runs_when_any_task_does(world_of: type[World]) -> None:
    """Statement 12."""
    world = world_of(framework("job", role("ps"), role("worker", 2)))
    world.settle()
    assert world.state is PREPARING
    world.run("worker", 1)
    world.settle()
    assert world.state is RUNNING


@pytest.mark.parametrize("phase", ["Pending", "Unknown"])
def test_a_framework_never_goes_back_to_preparing(world_of: type[World], phase: str) -> None:
    """Statement 12: the only task that ran fails and starts again, and its new pod does not run yet."""
    world = world_of(framework("job", role(tasks=2, retry=ALWAYS)))
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


def test_a_task_that_is_scaled_away_makes_no_framework_run(world_of: type[World]) -> None:
    """Statements 12 and 37: its pod may run a moment before it goes."""
    world = world_of(framework("job", role(tasks=2)))
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
def test_a_task_follows_its_pod(world_of: type[World], phases: list[str], state: State) -> None:
    """Statement 13."""
    world = world_of(framework("job", role()))
    world.settle()
    for phase in phases:
        world.show_pod(phase)
        world.settle()
    assert world.task().state is state


def test_where_a_pod_is_follows_the_pod(world_of: type[World]) -> None:
    """Statement 13: podNodeName, podIP, podHostIP."""
    world = world_of(framework("job", role()))
    world.settle()
    attempt = world.task().attempt_status
    assert not (attempt.pod_node_name or attempt.pod_ip or attempt.pod_host_ip)
    world.run()
    world.settle()
    attempt = world.task().attempt_status
    assert (attempt.pod_node_name, attempt.pod_ip, attempt.pod_host_ip) == (
        "node-0",
        "10.0.0.1",
        "192.168.0.1",
    )


# Deletion states (statements 14 and 15).


def failed_and_waiting(world: World) -> World:
    """The first task has failed, which ends the attempt; nothing that is deleted goes."""
    world.start()
    world.completes_deletions = False
    world.fail(index=0, exit_code=7)
    world.settle()
    assert world.state.is_ending
    return world


def test_how_an_attempt_ended_is_stored_before_anything_is_deleted(world_of: type[World]) -> None:
    """Statement 14: the world refuses a deletion whose reason is not stored; here is what is stored with it."""
    world = world_of(framework("job", role(tasks=2)))
    world.start()
    world.fail(index=0, exit_code=7)
    decision = world.step()
    assert decision.actions
    assert (world.state, world.code) == (DELETION_PENDING, 7)
    assert (world.task_code(index=0), world.task_code(index=1)) == (7, -220)


def test_an_ending_framework_makes_no_pods(world_of: type[World]) -> None:
    """Statement 15: a failed task of it is not retried either."""
    world = failed_and_waiting(
        world_of(framework("job", role(tasks=2), role("ps", 1, retry=ALWAYS, min_failed=-1)))
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
def test_an_ending_framework_is_not_rescaled(world_of: type[World], tasks: int) -> None:
    """Statement 15."""
    world = failed_and_waiting(world_of(framework("job", role(tasks=2))))
    before = [task.index for task in world.status.attempt_status.roles[0].task_statuses]
    world.edit_role("worker", task_number=tasks)
    decision = world.settle()
    assert decision.actions == ()
    assert [task.index for task in world.status.attempt_status.roles[0].task_statuses] == before
    assert not any(task.deletion_pending for task in world.status.attempt_status.roles[0].task_statuses)


def test_no_policy_applies_to_an_ending_framework(world_of: type[World]) -> None:
    """Statement 15: a success that comes too late decides nothing."""
    world = failed_and_waiting(world_of(framework("job", role(tasks=2, min_succeeded=1))))
    world.succeed(index=1)
    world.settle()
    world.finish_deletions()
    world.settle()
    world.finish_deletions()
    world.settle()
    assert (world.state, world.code) == (COMPLETED, 7)
    assert world.task_code(index=1) == -220


# Times (statement 16).


def test_the_times_of_a_framework_and_its_task(world_of: type[World]) -> None:
    """Statement 16."""
    world = world_of(framework("job", role()))
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


def test_the_times_of_a_second_attempt(world_of: type[World]) -> None:
    """Statement 16: runTime at the *first* Running; the attempt has its own."""
    world = world_of(framework("job", role(), retry_policy=ALWAYS))
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


def test_the_times_of_a_second_task_attempt(world_of: type[World]) -> None:
    """Statement 16, for a task that is retried within its Framework attempt."""
    world = world_of(framework("job", role(retry=RetryPolicySpec(max_retry_count=1))))
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


def test_the_completion_time_is_that_of_the_end_not_of_the_verdict(world_of: type[World]) -> None:
    """Statement 16: completionTime at AttemptCompleted, when the objects are gone."""
    world = failed_and_waiting(world_of(framework("job", role(tasks=2))))
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


def test_how_a_task_ended_never_changes(world_of: type[World]) -> None:
    """Statement 16: not even where its pod tells another story later, or goes."""
    world = world_of(framework("job", role(tasks=2, min_failed=-1)))
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


# Nothing to do (statement 17).


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(framework("job", role(tasks=0)), id="one-role"),
        pytest.param(framework("job", role("ps", 0), role("worker", 0)), id="two-roles"),
    ],
)
def test_a_framework_without_tasks_waits(world_of: type[World], empty: Framework) -> None:
    """Statement 17; and it runs as soon as it has one."""
    world = world_of(empty)
    world.settle()
    world.advance(10_000)
    world.settle()
    assert world.code is None
    assert not world.state.is_over
    world.edit_role("worker", task_number=1)
    world.start()
    world.succeed()
    world.settle()
    assert (world.state, world.code) == (COMPLETED, 0)


def test_a_framework_that_is_scaled_to_nothing_waits(world_of: type[World]) -> None:
    """Statement 17: also after it has run."""
    world = world_of(framework("job", role(tasks=2)))
    world.start()
    world.edit_role("worker", task_number=0)
    world.settle()
    assert world.pods == {}
    assert world.code is None
    assert world.state is RUNNING


# Ended pods (A1).


@pytest.mark.parametrize("was_running", [True, False], ids=["Running", "Preparing"])
@pytest.mark.parametrize(("exit_code", "code"), [(0, 0), (3, 3)])
def test_an_ended_pod_completes_its_task_at_once(
    world_of: type[World], was_running: bool, exit_code: int, code: int
) -> None:
    """A1: without any deletion state, and the pod stays where it is."""
    world = world_of(framework("job", role(tasks=2, min_failed=-1)))
    world.settle()
    if was_running:
        world.run()
        world.settle()
    if exit_code:
        world.fail(exit_code=exit_code)
    else:
        world.succeed()
    decision = world.step()
    assert (world.task().state, world.task_code()) == (COMPLETED, code)
    assert decision.actions == ()
    assert not {DELETION_PENDING, DELETION_REQUESTED, DELETING} & set(world.task_states())
    world.settle()
    assert world.has_pod()


def test_an_ended_pod_is_deleted_when_a_task_retry_needs_its_name(world_of: type[World]) -> None:
    """A1: the new pod is created when the old one is gone, and not before."""
    world = world_of(framework("job", role(tasks=2, retry=ALWAYS)))
    world.start()
    world.completes_deletions = False
    old = world.pod()
    world.fail()
    world.settle()
    assert DeletePod("job-worker-0", old.uid) in world.actions
    assert world.actions.count(CreatePod("worker", 0)) == 1
    world.finish_deletions()
    world.settle()
    assert world.actions.count(CreatePod("worker", 0)) == 2
    assert world.pod().uid != old.uid
    assert world.task().attempt_status.pod_uid == world.pod().uid


def test_an_ended_pod_is_deleted_when_its_task_is_scaled_away(world_of: type[World]) -> None:
    """A1 and statement 38: its name may be wanted again."""
    world = world_of(framework("job", role(tasks=2, min_failed=-1)))
    world.start()
    world.fail(index=1)
    world.settle()
    old = world.pod(index=1)
    world.edit_role("worker", task_number=1)
    world.settle()
    assert not world.has_pod(index=1)
    world.edit_role("worker", task_number=2)
    world.settle()
    assert world.pod(index=1).uid != old.uid


def test_an_ended_pod_is_deleted_with_its_attempt(world_of: type[World]) -> None:
    """A1: `completedPods` is absent."""
    world = world_of(framework("job", role(tasks=2)))
    world.start()
    world.succeed(index=0)
    world.settle()
    world.succeed(index=1)
    world.settle()
    assert (world.state, world.pods, world.config_map) == (COMPLETED, {}, None)


# Identity (statement 4).


def test_instances_are_named_by_attempt_and_object(world_of: type[World]) -> None:
    """Statement 4, over a retry of a task and one of the Framework."""
    retry = RetryPolicySpec(max_retry_count=1)
    world = world_of(framework("job", role(retry=retry), retry_policy=retry))
    seen = []
    for _ in range(3):
        world.start()
        assert world.config_map is not None
        attempt, task_attempt = world.status.attempt_status, world.task().attempt_status
        assert attempt.instance_uid == f"{attempt.id}_{world.config_map.uid}"
        assert task_attempt.instance_uid == f"{task_attempt.id}_{world.pod().uid}"
        seen.append((attempt.id, task_attempt.id))
        world.fail()
        world.settle()
    assert seen == [(0, 0), (0, 1), (1, 0)]
    assert world.actions.count(CreateConfigMap()) == 2


def test_roles_and_tasks_have_fresh_uuids(world_of: type[World]) -> None:
    """Statement 4: unlike in every role, task, Framework attempt and Framework."""
    found = []
    for uid in ("one", "two"):
        world = world_of(framework("job", role("ps", 2), role("worker", 2), uid=uid, retry_policy=ALWAYS))
        for _ in range(2):
            world.start()
            for status in world.status.attempt_status.roles:
                found += [status.instance_uid, *(task.instance_uid for task in status.task_statuses)]
            world.fail()
            world.settle()
    assert len(found) == 2 * 2 * 6
    assert len({str(uuid.UUID(item)) for item in found}) == len(found)
