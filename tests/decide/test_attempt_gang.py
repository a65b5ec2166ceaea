"""Features on request: the Service before the attempt, the Gang once every task has an address (statement 47)."""

from collections.abc import Callable, Mapping

import msgspec
import pytest
from builders import NOW, at, framework, role
from tests.decide.worlds import World

from windlass.decide.types import Action, CreateConfigMap, CreatePod, CreateService, PublishGang
from windlass.model import names
from windlass.model.framework import RetryPolicySpec
from windlass.model.gang import GangMember, Members, fingerprint, members_of
from windlass.model.states import State
from windlass.model.status import ConditionType, FrameworkAttemptStatus, TaskRoleStatus, TaskStatus

replace = msgspec.structs.replace

RUNTIME, BARRIER = names.RUNTIME_ANNOTATION, names.BARRIER_ANNOTATION
ANNOTATIONS = {"runtime": RUNTIME, "barrier": BARRIER}
AS_OFTEN_AS_IT_TAKES = RetryPolicySpec(max_retry_count=-1)


def world_of(asked: Mapping[str, str], tasks: int = 2) -> World:
    """A role whose failed tasks are retried without ending the attempt."""
    roles = (
        role("worker", tasks, min_failed=-1, retry=AS_OFTEN_AS_IT_TAKES),
        role("ps", 1, min_failed=-1, retry=AS_OFTEN_AS_IT_TAKES),
    )
    annotations = {ANNOTATIONS[key]: value for key, value in asked.items()}
    return World(framework("job", *roles, annotations=annotations))


def published(world: World) -> list[str]:
    return [action.fingerprint for action in world.actions if isinstance(action, PublishGang)]


def first_actions(world: World) -> list[Action]:
    """Return the actions before the first pod is created."""
    world.settle()
    until = next(index for index, action in enumerate(world.actions) if isinstance(action, CreatePod))
    return list(world.actions[:until])


# Requested features


@pytest.mark.parametrize(
    ("asked", "has_service", "has_gang"),
    [
        ({}, False, False),
        ({"runtime": "tensorflow"}, True, False),
        ({"runtime": "plain"}, True, False),
        ({"barrier": "true"}, False, True),
        ({"barrier": "own"}, False, True),
        ({"barrier": "false"}, False, False),
        ({"runtime": "pytorch", "barrier": "true"}, True, True),
        ({"runtime": "jax", "barrier": "false"}, True, False),
        ({"runtime": "mpi"}, True, True),
        ({"runtime": "mpi", "barrier": "own"}, True, True),
    ],
    ids=str,
)
def test_framework_without_annotations_has_no_service_and_no_gang(
    asked: dict[str, str], has_service: bool, has_gang: bool
) -> None:
    world = world_of(asked)
    service = [CreateService()] if has_service else []
    assert first_actions(world) == [*service, CreateConfigMap()], "names first, then what needs them"
    world.start()
    assert len(published(world)) == has_gang


# The Service


def test_service_is_created_before_the_config_map() -> None:
    """An attempt does not start without its Service."""
    world = world_of({"runtime": "tensorflow"})
    assert world.step().actions == (CreateService(),)
    assert world.decide().actions == (CreateConfigMap(),)


def test_crash_after_the_service_creates_it_once_more() -> None:
    world = world_of({"runtime": "tensorflow"})
    world.step()
    world.restart()
    assert world.step().actions == (CreateService(),)
    world.settle()
    assert world.state is State.ATTEMPT_PREPARING


def test_postponed_service_delays_the_config_map() -> None:
    world = world_of({"runtime": "tensorflow"})
    world.step(acts=0)
    world.postponed["job"] = at(7)
    waiting = world.step()
    assert (waiting.actions, waiting.wake_at) == ((), at(7))
    world.advance(7)
    assert world.step().actions == (CreateService(),)


def test_taken_name_is_reported_and_retried_until_it_is_free() -> None:
    world = world_of({"runtime": "tensorflow"})
    world.step(acts=0)
    world.name_taken_message = "Service job already exists: it does not belong to this Framework"
    world.postponed["job"] = at(1)
    world.step()
    condition = world.status.condition(ConditionType.NAME_TAKEN)
    assert condition is not None
    assert (condition.is_true, condition.message) == (True, world.name_taken_message)
    world.advance(1)
    assert world.step().actions == (CreateService(),)
    world.name_taken_message = ""
    world.settle()
    assert world.state is State.ATTEMPT_PREPARING
    condition = world.status.condition(ConditionType.NAME_TAKEN)
    assert condition is None or not condition.is_true


def test_every_attempt_creates_the_service() -> None:
    """Another client may have deleted the Service meanwhile."""
    world = World(
        framework(
            "job",
            role("worker", 1),
            retry_policy=RetryPolicySpec(max_retry_count=1),
            annotations={RUNTIME: "plain"},
        )
    )
    world.start()
    world.fail()
    world.settle()
    world.start()
    assert world.status.attempt_status.id == 1
    creations = [action for action in world.actions if isinstance(action, CreateService | CreateConfigMap)]
    assert creations == [CreateService(), CreateConfigMap()] * 2


# Members


def owner_uid_of(**roles: list[TaskStatus]) -> FrameworkAttemptStatus:
    return FrameworkAttemptStatus(
        start_time=NOW,
        config_map_name="job-attempt",
        task_role_statuses=tuple(
            TaskRoleStatus(name=name, instance_uid=f"{name}-role", task_statuses=tuple(tasks))
            for name, tasks in roles.items()
        ),
    )


def task(index: int, ip: str | None, pod: str | None = None, *, is_scaled_away: bool = False) -> TaskStatus:
    made = world_of({}, index + 1)
    made.step()
    blank = made.task("worker", index)
    attempt = replace(blank.attempt_status, pod_uid=pod or f"pod-{index}", pod_ip=ip)
    return replace(blank, attempt_status=attempt, deletion_pending=is_scaled_away)


A, B = "10.0.0.1", "10.0.0.2"
BOTH = (GangMember("pod-0", A), GangMember("pod-1", B))


@pytest.mark.parametrize(
    ("workers", "attempt", "members"),
    [
        (2, owner_uid_of(worker=[task(0, A), task(1, B)]), {"worker": BOTH}),
        (2, owner_uid_of(worker=[task(0, A), task(1, None)]), None),
        (2, owner_uid_of(worker=[task(0, A), task(1, "")]), None),
        (2, owner_uid_of(worker=[task(0, A)]), None),
        (2, owner_uid_of(), None),
        (1, owner_uid_of(worker=[task(0, A), task(1, None, is_scaled_away=True)]), {"worker": BOTH[:1]}),
        (1, owner_uid_of(worker=[task(0, A), task(1, B, is_scaled_away=True)]), {"worker": BOTH[:1]}),
        (2, owner_uid_of(worker=[task(0, A), task(1, B, is_scaled_away=True)]), None),
        (1, owner_uid_of(worker=[task(0, A)], ps=[task(0, None)]), {"worker": BOTH[:1]}),
        (0, owner_uid_of(), {"worker": ()}),
    ],
    ids=[
        "all have addresses",
        "one without an address",
        "one with an empty one",
        "one that the status does not have yet",
        "no status at all",
        "scaled away without an address",
        "scaled away with one",
        "wanted again while the old one goes",
        "a role that the spec has no more",
        "a role of no tasks",
    ],
)
def test_members_are_none_until_all_tasks_have_addresses(
    workers: int, attempt: FrameworkAttemptStatus, members: Members | None
) -> None:
    """Statement 47: all tasks of the spec, and no others."""
    spec = framework("job", role("worker", workers)).spec
    assert members_of(spec, attempt) == members


def test_members_are_in_the_order_of_the_spec() -> None:
    """The status may have its roles in another order."""
    spec = framework("job", role("ps", 1), role("worker", 1)).spec
    found = members_of(spec, owner_uid_of(worker=[task(0, A)], ps=[task(0, B, "pod-1")]))
    assert found is not None
    assert list(found.items()) == [("ps", BOTH[1:]), ("worker", BOTH[:1])]


@pytest.mark.parametrize(
    ("other", "is_the_same"),
    [
        ({"worker": BOTH}, True),
        ({"worker": (BOTH[0], GangMember("pod-2", B))}, False),
        ({"worker": (BOTH[0], GangMember("pod-1", A))}, False),
        ({"worker": BOTH[::-1]}, False),
        ({"worker": BOTH[:1]}, False),
        ({"worker": BOTH[:1], "ps": BOTH[1:]}, False),
        ({"ps": BOTH}, False),
    ],
    ids=["same", "another pod", "another address", "another order", "fewer", "another role", "renamed"],
)
def test_fingerprint_changes_with_pods_and_addresses(other: Members, is_the_same: bool) -> None:
    assert (fingerprint({"worker": BOTH}) == fingerprint(other)) is is_the_same


# Publication


def test_gang_is_published_when_the_last_task_has_an_address() -> None:
    world = world_of({"barrier": "true"})
    world.settle()
    for name, index in (("worker", 0), ("ps", 0)):
        world.run(name, index)
        world.settle()
        assert published(world) == [], "worker-1 has none"
    world.run("worker", 1)
    decision = world.step()
    assert decision.actions == (PublishGang(world.published_gang),)
    assert not decision.may_wait, "the barriers wait for nothing else"
    world.settle()
    assert len(published(world)) == 1


def scale_away_the_one_that_waits(world: World) -> None:
    world.edit_role("worker", task_number=1)


def scale_up(world: World) -> None:
    world.edit_role("worker", task_number=3)


def retry_a_task(world: World) -> None:
    world.fail("worker", 1)


def lose_an_address(world: World) -> None:
    """A restarting kubelet briefly reports a pod without its address."""
    pod = world.pod("worker", 1)
    world.pods[pod.name] = replace(pod, status=replace(pod.status, pod_ip=""))


def succeed(world: World) -> None:
    world.succeed("worker", 1)


def restart(world: World) -> None:
    world.restart()


@pytest.mark.parametrize(
    ("change", "times_at_first", "times_at_last"),
    [
        (retry_a_task, 1, 2),
        (scale_up, 1, 2),
        (succeed, 1, 1),
        (lose_an_address, 1, 1),
        (restart, 2, 2),
    ],
)
def test_gang_is_published_again_when_an_address_changes(
    change: Callable[[World], None], times_at_first: int, times_at_last: int
) -> None:
    """The Gang is published after the change, when the new pod has an address. A new controller does not know what
    was published."""
    world = world_of({"barrier": "true"})
    world.start()
    assert len(published(world)) == 1
    change(world)
    world.settle()
    assert len(published(world)) == times_at_first, "an incomplete gang is not published"
    world.run_pods()
    world.settle()
    assert len(published(world)) == times_at_last
    assert len(set(published(world))) == (1 if change is restart else times_at_last)


def test_gang_does_not_wait_for_deleted_tasks() -> None:
    world = world_of({"barrier": "true"})
    world.settle()
    world.run("worker", 0)
    world.run("ps", 0)
    world.settle()
    assert published(world) == []
    scale_away_the_one_that_waits(world)
    world.settle()
    assert len(published(world)) == 1


def test_ending_attempt_publishes_no_gang() -> None:
    """All tasks ran and failed between two observations."""
    world = World(framework("job", role("worker", 2), annotations={BARRIER: "true"}))
    world.settle()
    world.fail("worker", 0)
    world.run("worker", 1)
    world.settle()
    assert (world.state, published(world)) == (State.COMPLETED, [])
