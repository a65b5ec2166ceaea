"""Completed pods (A1): their task completes at once, and they remain until their name is needed."""

import pytest
from builders import framework, role
from tests.decide.worlds import World

from windlass.decide.builder import MAX_REPORTED_FAILURES
from windlass.decide.types import CreatePod, DeletePod, ReasonKind
from windlass.model.framework import RetryPolicySpec
from windlass.model.states import State

ALWAYS = RetryPolicySpec(max_retry_count=-2)
DELETION_STATES = {State.ATTEMPT_DELETION_PENDING, State.ATTEMPT_DELETION_REQUESTED, State.ATTEMPT_DELETING}


@pytest.mark.parametrize("was_running", [True, False], ids=["Running", "Preparing"])
@pytest.mark.parametrize(("exit_code", "code"), [(0, 0), (3, 3)])
def test_completed_pod_completes_its_task_at_once(was_running: bool, exit_code: int, code: int) -> None:
    """A1: no deletion state is passed, and the pod remains."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.settle()
    if was_running:
        world.run()
        world.settle()
    if exit_code:
        world.fail(exit_code=exit_code)
    else:
        world.succeed()
    decision = world.step()
    assert (world.task().state, world.task_code()) == (State.COMPLETED, code)
    assert decision.actions == ()
    assert not DELETION_STATES & set(world.task_states())
    world.settle()
    assert world.has_pod()


def test_completed_pod_is_deleted_when_a_retry_needs_its_name() -> None:
    """A1: the new pod is created only when the old one is deleted."""
    world = World(framework("job", role(tasks=2, retry=ALWAYS)))
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


def test_completed_pod_is_deleted_when_its_task_is() -> None:
    """A1 and statement 38: its name may be needed again."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
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


def test_completed_pod_is_deleted_with_its_attempt() -> None:
    """A1: `completedPods` is absent."""
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.succeed(index=0)
    world.settle()
    world.succeed(index=1)
    world.settle()
    assert (world.state, world.pods, world.config_map) == (State.COMPLETED, {}, None)


@pytest.mark.parametrize("is_stored", [True, False], ids=["CreationRequested", "CreationPending"])
@pytest.mark.parametrize(("phase", "exit_code"), [("Succeeded", 0), ("Failed", 3)])
def test_pod_first_seen_completed(is_stored: bool, phase: str, exit_code: int) -> None:
    """A1 and statement 13: all earlier states were missed; the exit code counts."""
    world = World(framework("job", role(tasks=2, min_failed=-1)))
    world.shows_creations = False
    while not world.pods:
        world.confirm()
        world.step()
    if is_stored:
        world.settle()
    expected = State.ATTEMPT_CREATION_REQUESTED if is_stored else State.ATTEMPT_CREATION_PENDING
    assert world.task().state is expected
    world.show_pod(phase, exit_code=exit_code)
    world.settle()
    assert (world.task().state, world.task_code()) == (State.COMPLETED, exit_code)
    assert world.task().attempt_status.pod_uid == world.pod().uid


def test_failures_of_a_gang_are_reported_individually_up_to_a_limit() -> None:
    """A1: all tasks complete at once, with a limited number of events."""
    world = World(framework("job", role(tasks=MAX_REPORTED_FAILURES + 7, min_failed=1)))
    world.start()
    for index in range(MAX_REPORTED_FAILURES + 7):
        world.fail(index=index)
    reasons = [reason for reason in world.decide().reasons if reason.kind is ReasonKind.TASK_FAILED]
    assert len(reasons) == MAX_REPORTED_FAILURES + 1
    assert reasons[0].message == "worker-0 exited with code 1 within 1 s"
    assert reasons[-1].message == "7 more tasks failed"
