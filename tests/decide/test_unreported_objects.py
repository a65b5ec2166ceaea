"""Created objects that the watch does not report, and objects unknown to the cache (statement 43)."""

import pytest
from builders import at, role
from tests.decide.object_world import NewWorld, ObjectWorld

from windlass.decide.types import (
    Action,
    CreateConfigMap,
    CreatePod,
    DeleteAttemptPods,
    DeleteConfigMap,
    DeletePod,
    RelistObjects,
    Rules,
)
from windlass.model.framework import RetryPolicySpec
from windlass.model.states import State

CONFIG_MAP_TIMEOUT, POD_TIMEOUT = -110, -111


@pytest.fixture
def hidden_config_map(new_world: NewWorld) -> NewWorld:
    """A world whose ConfigMap was created at NOW; the watch has not reported it."""

    def make(rules: Rules | None = None, **spec: object) -> ObjectWorld:
        world = new_world(role(tasks=1), rules=rules, **spec)
        world.act(world.step().actions)
        world.step()
        return world

    return make


@pytest.fixture
def hidden_pod(pending_world: NewWorld) -> NewWorld:
    """A world in which task 1's pod was created at NOW and not reported. Task 0 runs."""

    def make(
        rules: Rules | None = None, min_failed: int = -1, retry: RetryPolicySpec | None = None
    ) -> ObjectWorld:
        world = pending_world(role(tasks=1, min_failed=min_failed, retry=retry), rules=rules)
        world.run()
        world.settle()
        world.edit(role(tasks=2, min_failed=min_failed, retry=retry))
        world.act(world.step().actions)
        world.step()
        return world

    return make


def creations(actions: "list[Action]") -> "list[Action]":
    return [action for action in actions if isinstance(action, CreatePod | CreateConfigMap)]


# ConfigMap


def test_config_map_stays_requested_until_the_watch_reports_it(hidden_config_map: NewWorld) -> None:
    """Statement 10."""
    world = hidden_config_map()
    assert world.state() is State.ATTEMPT_CREATION_REQUESTED
    assert world.config_map_uid == "cm-0"
    assert world.status.attempt_status.instance_uid == "0_cm-0"
    assert world.decide().wake_at == at(300)
    world.show()
    world.step()
    assert world.state() is State.ATTEMPT_PREPARING


@pytest.mark.parametrize("timeout", [60, 300])
def test_unreported_config_map_times_out(hidden_config_map: NewWorld, timeout: int) -> None:
    """The attempt ends with -110 and the ConfigMap is deleted; only then is it completed."""
    world = hidden_config_map(Rules(cache_creation_timeout_sec=timeout))
    assert world.decide().wake_at == at(timeout)
    world.wait(timeout - 0.001)
    assert world.settle(is_shown=False) == []
    assert world.state() is State.ATTEMPT_CREATION_REQUESTED
    world.wait(0.001)
    decision = world.step()
    assert (world.state(), world.code()) == (State.ATTEMPT_DELETION_PENDING, CONFIG_MAP_TIMEOUT)
    assert {type(action) for action in decision.actions} <= {DeleteAttemptPods, DeleteConfigMap}
    world.act(decision.actions)
    done = [*decision.actions, *world.settle(is_shown=False)]
    assert DeleteConfigMap("cm-0") in done
    assert not world.state().is_over, "its deletion has not been observed"
    world.vanish_config_map()
    world.settle()
    assert (world.state(), world.code()) == (State.COMPLETED, CONFIG_MAP_TIMEOUT)
    assert world.task(0).state is State.COMPLETED


def test_deletion_of_an_unreported_config_map_is_confirmed(hidden_config_map: NewWorld) -> None:
    """The watch may not report the deletion either: the response does, or a list."""
    world = hidden_config_map()
    world.wait(300)
    world.step()
    world.emptied.add("cm-0")
    world.deletion_requested.add("cm-0")
    decision = world.step()
    is_stuck = not decision.actions and decision.wake_at is None and not world.state().is_over
    assert not is_stuck


def test_config_map_reported_in_time(hidden_config_map: NewWorld) -> None:
    world = hidden_config_map()
    world.wait(299)
    world.show()
    world.settle()
    world.wait(1000)
    world.settle()
    assert (world.state(), world.code()) == (State.ATTEMPT_PREPARING, None)


def test_unreported_config_map_is_retried_as_transient(hidden_config_map: NewWorld) -> None:
    """Statements 18 and 25."""
    world = hidden_config_map(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    world.wait(300)
    world.finish()
    assert world.status.attempt_status.id == 1
    assert world.status.retry_policy_status.accountable_retried_count == 0


# Pod


def test_pod_stays_requested_until_the_watch_reports_it(hidden_pod: NewWorld) -> None:
    world = hidden_pod()
    assert world.task(1).state is State.ATTEMPT_CREATION_REQUESTED
    assert world.task(1).attempt_status.pod_uid == "pod-2"
    assert world.decide().wake_at == at(300)
    world.show()
    world.step()
    assert world.task(1).state is State.ATTEMPT_PREPARING


@pytest.mark.parametrize("timeout", [60, 300])
def test_unreported_pod_times_out(hidden_pod: NewWorld, timeout: int) -> None:
    """The attempt ends with -111 and the pod is deleted by its UID; only then is it completed."""
    world = hidden_pod(Rules(cache_creation_timeout_sec=timeout))
    assert world.decide().wake_at == at(timeout)
    world.wait(timeout - 0.001)
    assert world.settle(is_shown=False) == []
    assert world.task_code(1) is None
    world.wait(0.001)
    decision = world.step()
    assert decision.actions == (DeletePod("job-worker-1", "pod-2"),)
    assert (world.task(1).state, world.task_code(1)) == (State.ATTEMPT_DELETION_PENDING, POD_TIMEOUT)
    world.deletion_requested.add("pod-2")
    world.step()
    world.vanish("job-worker-1")
    assert world.settle() == []
    assert (world.task(1).state, world.task_code(1)) == (State.COMPLETED, POD_TIMEOUT)
    assert (world.state(), world.code()) == (State.ATTEMPT_RUNNING, None)


def test_deletion_of_an_unreported_pod_is_confirmed(hidden_pod: NewWorld) -> None:
    """Same as for the ConfigMap."""
    world = hidden_pod()
    world.wait(300)
    world.step()
    world.deletion_requested.add("pod-2")
    decision = world.step()
    is_stuck = not decision.actions and decision.wake_at is None and not world.task(1).state.is_over
    assert not is_stuck


def test_unreported_pod_fails_by_the_completion_policy(hidden_pod: NewWorld) -> None:
    """Statement 31."""
    world = hidden_pod(min_failed=1)
    world.wait(300)
    world.finish()
    assert (world.state(), world.code()) == (State.COMPLETED, POD_TIMEOUT)


def test_unreported_pod_is_retried_as_transient(hidden_pod: NewWorld) -> None:
    world = hidden_pod(retry=RetryPolicySpec(fancy_retry_policy=True))
    old = world.task(1)
    world.wait(300)
    done = world.finish()
    assert creations(done) == [CreatePod("worker", 1)]
    assert world.task(1).instance_uid == old.instance_uid
    assert world.task(1).attempt_status.id == 1


def test_pod_reported_after_its_timeout_is_deleted(hidden_pod: NewWorld) -> None:
    """Statement 16: completionStatus never changes once set, whatever the pod does now."""
    world = hidden_pod()
    world.wait(300)
    world.step()
    world.show()
    world.run(1)
    assert world.step().actions == (DeletePod("job-worker-1", "pod-2"),)
    assert world.task_code(1) == POD_TIMEOUT
    world.finish()
    assert (world.task(1).state, world.task_code(1)) == (State.COMPLETED, POD_TIMEOUT)


def test_pod_deleted_before_it_was_reported(hidden_pod: NewWorld) -> None:
    """Statement 11: Requested → AttemptCompleted, with -101."""
    world = hidden_pod()
    world.vanish("job-worker-1")
    world.settle()
    assert (world.task(1).state, world.task_code(1)) == (State.COMPLETED, -101)


# Never heard of


def test_status_with_unknown_objects_lists_once(running_world: NewWorld) -> None:
    """After a restart, with empty caches: nothing is decided before the objects are listed."""
    world = running_world(role(tasks=2))
    before = world.status
    config_map, pods = world.config_map, dict(world.pods)
    world.config_map = None
    world.pods.clear()
    world.known.clear()
    assert world.step().actions == (RelistObjects(),)
    assert world.status == before
    # They were there all the time.
    assert config_map is not None
    world.put_config_map(config_map)
    for pod in pods.values():
        world.put(pod)
    assert world.step().actions == ()
    assert world.status == before


def test_task_with_an_unknown_pod_waits_while_others_proceed(pending_world: NewWorld) -> None:
    world = pending_world(role(tasks=2))
    hidden = world.pods.pop("job-worker-1")
    world.known.discard(hidden.uid)
    still = world.task(1)
    world.run(0)
    assert world.step().actions == (RelistObjects(),)
    assert world.task(1) == still
    assert world.task(0).state is State.ATTEMPT_RUNNING
    assert world.state() is State.ATTEMPT_RUNNING


def test_unknown_pod_that_is_not_found_counts_as_deleted(pending_world: NewWorld) -> None:
    world = pending_world(role(tasks=2, min_failed=-1))
    hidden = world.pods.pop("job-worker-1")
    world.known.discard(hidden.uid)
    world.settle()
    assert (world.task(1).state, world.task_code(1)) == (State.COMPLETED, -101)


def test_unknown_config_map_delays_the_end_of_the_framework(running_world: NewWorld) -> None:
    """Its pods are observed; whether it exists is unknown, so it is neither considered deleted nor recreated."""
    world = running_world(role(tasks=1))
    world.config_map = None
    world.known.discard("cm-0")
    assert world.step().actions == (RelistObjects(),)
    assert (world.state(), world.code()) == (State.ATTEMPT_RUNNING, None)


def test_unknown_pod_of_a_deleted_task_is_listed(running_world: NewWorld) -> None:
    """Statement 38: it is not dropped as if it had none."""
    world = running_world(role(tasks=2))
    hidden = world.pods.pop("job-worker-1")
    world.known.discard(hidden.uid)
    world.edit(role(tasks=1))
    assert world.step().actions == (RelistObjects(),)
    assert world.indices() == [0, 1]
    world.put(hidden)
    assert DeletePod("job-worker-1", hidden.uid) in world.settle()


def test_creation_without_a_response_lists_before_retrying(
    pending_world: NewWorld,
) -> None:
    """Statement 40: the pod may have been created all the same."""
    world = pending_world(role(tasks=1))
    world.edit(role(tasks=2))
    world.step()
    world.uncertain.add("job-worker-1")
    world.postponed["job-worker-1"] = at(5)
    world.wait(5)
    decision = world.step()
    assert decision.actions in (
        (CreatePod("worker", 1),),  # the name is its own guard: a second pod cannot be
        (RelistObjects(),),
    )
