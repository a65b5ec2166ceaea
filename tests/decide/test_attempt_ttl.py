"""Retention of completed Frameworks (statement 45, A4)."""

import pytest
from builders import at, role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import DeleteFramework, Rules
from windlass.model.framework import CompletedPods, RetryPolicySpec
from windlass.model.states import State

DAY = 24 * 3600
ENDED = 50


@pytest.fixture
def completed_world(running_world: NewWorld) -> NewWorld:
    """Create a world whose Framework completed at NOW + ENDED."""

    def make(exit_code: int = 0, rules: Rules | None = None, **spec: object) -> ObjectWorld:
        world = running_world(role(tasks=1), rules=rules, **spec)
        world.wait(ENDED)
        world.end(0, exit_code)
        world.finish()
        assert world.state() is State.COMPLETED
        assert world.status.completion_time == at(ENDED)
        return world

    return make


@pytest.mark.parametrize("exit_code", [0, 1])
@pytest.mark.parametrize("completed_pods", list(CompletedPods))
@pytest.mark.parametrize(
    ("retain", "ttl", "kept_for"),
    [
        (None, None, 30 * DAY),
        (600, None, 600),
        (600, 60, 60),
        (600, 6000, 6000),
        (None, 60 * DAY, 60 * DAY),
    ],
)
def test_completed_framework_is_deleted_after_its_ttl(
    completed_world: NewWorld,
    exit_code: int,
    completed_pods: CompletedPods,
    retain: int | None,
    ttl: int | None,
    kept_for: int,
) -> None:
    """ttlSecondsAfterFinished overrides frameworkCompletedRetainSec, shorter or longer."""
    rules = None if retain is None else Rules(completed_retain_sec=retain)
    world = completed_world(exit_code, rules, ttl_seconds_after_finished=ttl, completed_pods=completed_pods)
    decision = world.decide()
    assert (decision.actions, decision.wake_at) == ((), at(ENDED + kept_for))
    world.now = at(ENDED + kept_for - 0.001)
    assert world.step().actions == ()
    world.now = at(ENDED + kept_for)
    assert world.step().actions == (DeleteFramework("job-uid"),)


@pytest.mark.parametrize("rules", [Rules(completed_retain_sec=0), None])
def test_framework_with_ttl_zero_is_deleted_at_once(running_world: NewWorld, rules: Rules | None) -> None:
    ttl = 0 if rules is None else None
    world = running_world(role(tasks=1), rules=rules, ttl_seconds_after_finished=ttl)
    world.end(0, 0)
    assert world.finish()[-1] == DeleteFramework("job-uid")


def test_deletion_is_requested_once(completed_world: NewWorld) -> None:
    """The action is repeated until its response; afterwards no action and no wake_at remain."""
    world = completed_world(ttl_seconds_after_finished=10)
    world.wait(10)
    assert world.step().actions == world.step().actions == (DeleteFramework("job-uid"),)
    world.act(world.decide().actions)
    decision = world.step()
    assert (decision.actions, decision.wake_at) == ((), None)
    world.delete_framework()
    world.is_framework_deletion_requested = False
    assert DeleteFramework("job-uid") not in world.step().actions


def test_expiry_does_not_change_the_status(completed_world: NewWorld) -> None:
    world = completed_world(ttl_seconds_after_finished=10)
    before = world.status
    world.wait(10)
    world.step()
    assert world.status == before


def test_ttl_set_later_counts_from_completion(completed_world: NewWorld) -> None:
    world = completed_world()
    world.wait(100)
    world.edit(ttl_seconds_after_finished=200)
    assert world.decide().wake_at == at(ENDED + 200)
    world.edit(ttl_seconds_after_finished=100)
    assert world.step().actions == (DeleteFramework("job-uid"),)


def test_ttl_does_not_affect_a_running_framework(running_world: NewWorld) -> None:
    world = running_world(role(tasks=1), ttl_seconds_after_finished=0)
    assert (world.decide().actions, world.decide().wake_at) == ((), None)


def test_ttl_counts_from_completion_not_from_the_last_failed_attempt(
    running_world: NewWorld,
) -> None:
    world = running_world(
        role(tasks=1), ttl_seconds_after_finished=100, retry_policy=RetryPolicySpec(max_retry_count=1)
    )
    world.wait(10)
    world.end(0, 1)
    world.finish()
    assert world.state() is State.ATTEMPT_PREPARING
    world.wait(500)
    world.end(0, 1)
    world.finish()
    assert world.decide().wake_at == at(610)
