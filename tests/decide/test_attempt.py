"""An attempt is over when nothing of it exists any more (statements 34 and 40)."""

from builders import framework, role
from tests.decide.worlds import World

from windlass.decide.types import CreatePod, DeleteConfigMap, RelistObjects
from windlass.model.framework import RetryPolicySpec
from windlass.model.states import State


def test_attempt_waits_for_its_ended_pods_to_be_deleted() -> None:
    world = World(framework("job", role(tasks=2), retry_policy=RetryPolicySpec(max_retry_count=1)))
    world.start()
    world.completes_deletions = False
    world.fail(index=0)
    world.settle()
    world.remove_pod(index=1)
    world.remove_config_map(and_pods=False)
    world.settle()
    assert all(world.task(index=index).state is State.COMPLETED for index in range(2))
    assert world.state.is_ending
    assert world.status.attempt_status.id == 0
    world.remove_pod(index=0)
    world.settle()
    assert world.status.attempt_status.id == 1


def test_attempt_waits_for_a_list_after_a_creation_without_a_response() -> None:
    world = World(framework("job", role()))
    while CreatePod("worker", 0) not in world.decide().actions:
        world.step()
    world.step(acts=0)
    world.uncertain.add("job-worker-0")
    world.remove_config_map()
    decision = world.decide()
    assert decision.status is not None
    assert decision.status.state.is_ending
    assert RelistObjects() in decision.actions


def test_attempt_is_not_over_while_the_pod_of_a_task_is_unknown() -> None:
    """A controller that has just started has neither seen the pod nor its deletion."""
    world = World(framework("job", role(), retry_policy=RetryPolicySpec(max_retry_count=1)))
    world.start()
    pod = world.pods.pop("job-worker-0")
    world.known.discard(pod.uid)
    world.remove_config_map(and_pods=False)
    decision = world.decide()
    assert decision.status is not None
    assert decision.status.state.is_ending
    assert decision.status.attempt_status.id == 0
    assert RelistObjects() in decision.actions


def test_config_map_deleted_by_another_client_is_left_to_the_collector() -> None:
    world = World(framework("job", role(tasks=2)))
    world.start()
    world.completes_deletions = False
    world.show_config_map_deleting()
    world.settle()
    world.remove_pod(index=0)
    world.remove_pod(index=1)
    world.settle()
    assert world.state.is_ending
    assert not any(isinstance(action, DeleteConfigMap) for action in world.actions)
