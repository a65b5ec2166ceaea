"""Objects of a deleted Framework: only a new Framework of the same name deletes them.

The objects of all Frameworks of one name are cached together and distinguished by UID.
"""

from datetime import datetime

import builders
import msgspec
import pytest
from builders import NOW, at, role
from tests.decide.worlds import World

from windlass.decide import decide, decide_deletion, initial_status, ownership
from windlass.decide.types import (
    CreateConfigMap,
    Decision,
    DeleteAttemptPods,
    DeleteConfigMap,
    DeletePod,
    Observed,
    Outcomes,
    Rules,
)
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectMetadata, PodView
from windlass.model.status import ConditionType, TaskStatus


def job(uid: str) -> Framework:
    made = builders.framework("job", role("worker", 2, graceful_timeout=60), uid=uid)
    return made.with_status(initial_status.framework_status(made, NOW))


OLD, NEW, STRANGER = job("old"), job("new"), job("stranger")


def task(of: Framework, index: int = 0) -> TaskStatus:
    assert of.status is not None
    return of.status.attempt_status.roles[0].task_statuses[index]


def pod(of: Framework, index: int = 0, deleting_since: datetime | None = None) -> PodView:
    return builders.pod(
        of,
        task(of, index),
        uid=f"pod-{of.uid}-{index}",
        config_map_uid=f"cm-{of.uid}",
        deleting_since=deleting_since,
    )


def config_map(of: Framework) -> ConfigMapView:
    return builders.config_map(of, f"cm-{of.uid}")


def observed(of: Framework, *pods: PodView, **changes: object) -> Observed:
    """With the ConfigMap and the pods of one Framework, in a place that the old one has previous_uids from."""
    found = Observed(
        config_map=config_map(of), pods={each.name: each for each in pods}, previous_uids={"old"}
    )
    return msgspec.structs.replace(found, **changes)


# Whose it is


@pytest.mark.parametrize(
    ("owner", "uids", "expected"),
    [
        (NEW, {"new"}, True),
        (NEW, {"new", "old"}, True),
        (OLD, {"new", "old"}, True),
        (OLD, {"new"}, False),
        (STRANGER, {"new", "old"}, False),
        (OLD, set(), False),
    ],
)
def test_object_is_owned_by_the_framework_of_its_uid(
    owner: Framework, uids: set[str], expected: bool
) -> None:
    assert ownership.is_our_config_map(config_map(owner), uids) is expected
    assert ownership.is_our_pod(pod(owner), uids) is expected


def test_object_without_an_owner_is_not_ours() -> None:
    metadata = ObjectMetadata(name="job-attempt", annotations=pod(OLD).metadata.annotations)
    assert not ownership.is_our_config_map(ConfigMapView(metadata), {"old"})
    assert not ownership.is_our_pod(PodView(metadata), {"old"})


def test_owner_of_another_kind_is_foreign() -> None:
    """UIDs are unique, and yet: a pod is owned by a ConfigMap, a ConfigMap by a Framework."""
    owned_by_framework = msgspec.structs.replace(pod(OLD), metadata=config_map(OLD).metadata)
    owned_by_config_map = msgspec.structs.replace(config_map(OLD), metadata=pod(OLD).metadata)
    assert not ownership.is_our_pod(owned_by_framework, {"old"})
    assert not ownership.is_our_config_map(owned_by_config_map, {"old", "cm-old"})


# What goes


def cleared(found: Observed) -> Decision:
    return decide_deletion(OLD, found, NOW, Rules())


def test_pods_are_deleted_with_one_request_before_the_config_map() -> None:
    pods = pod(OLD, 0), pod(OLD, 1)
    assert cleared(observed(OLD, *pods)).actions == (DeleteAttemptPods("cm-old"),)
    asked = Outcomes(deletion_requested={each.uid for each in pods}, collection_deletion_requested={"cm-old"})
    assert cleared(observed(OLD, *pods, outcomes=asked)).actions == (), "they are on their way out"
    emptied = Outcomes(collection_deletion_requested={"cm-old"})
    assert cleared(observed(OLD, outcomes=emptied)).actions == (DeleteConfigMap("cm-old"),)
    done = msgspec.structs.replace(emptied, deletion_requested={"cm-old"})
    assert cleared(observed(OLD, outcomes=done)).actions == ()


def test_pods_without_a_config_map_are_deleted_individually() -> None:
    found = observed(OLD, pod(OLD, 0), pod(OLD, 1), config_map=None)
    assert cleared(found).actions == (
        DeletePod("job-worker-0", "pod-old-0"),
        DeletePod("job-worker-1", "pod-old-1"),
    )


def test_hanging_pod_is_force_deleted_after_its_timeout() -> None:
    stuck = pod(OLD, deleting_since=NOW)
    asked = Outcomes(deletion_requested={stuck.uid}, collection_deletion_requested={"cm-old"})
    found = observed(OLD, stuck, outcomes=asked)
    assert cleared(found).wake_at == at(60)
    later = decide_deletion(OLD, found, at(60), Rules())
    assert later.actions == (DeletePod("job-worker-0", "pod-old-0", force=True),)


@pytest.mark.parametrize("other", [NEW, STRANGER], ids=["its successor's", "a stranger's"])
def test_foreign_objects_are_kept(other: Framework) -> None:
    assert cleared(observed(other, pod(other, 0), pod(other, 1))).actions == ()


def test_status_of_a_deleted_framework_is_not_stored() -> None:
    decision = cleared(observed(OLD, pod(OLD)))
    assert decision.status is OLD.status
    never_run = msgspec.structs.replace(OLD, status=None)
    assert decide_deletion(never_run, observed(OLD, pod(OLD)), NOW, Rules()).status is None


# What its successor does


def test_new_framework_deletes_objects_of_its_predecessor_first() -> None:
    left = observed(OLD, pod(OLD, 0), pod(OLD, 1))
    assert decide(NEW, left, NOW).actions == (DeleteAttemptPods("cm-old"),)
    emptied = Outcomes(collection_deletion_requested={"cm-old"})
    assert decide(NEW, observed(OLD, outcomes=emptied), NOW).actions == (DeleteConfigMap("cm-old"),)
    assert decide(NEW, Observed(previous_uids={"old"}), NOW).actions == (CreateConfigMap(),)


def test_unknown_predecessor_takes_the_name() -> None:
    decision = decide(NEW, observed(OLD, pod(OLD), previous_uids=frozenset()), NOW)
    assert not [action for action in decision.actions if not isinstance(action, CreateConfigMap)]


def test_foreign_config_map_is_kept_despite_known_predecessors() -> None:
    taken = Outcomes(name_taken_message="ConfigMap job-attempt already exists")
    decision = decide(NEW, observed(STRANGER, pod(STRANGER), outcomes=taken), NOW)
    assert not [action for action in decision.actions if not isinstance(action, CreateConfigMap)]
    assert decision.status is not None
    condition = decision.status.condition(ConditionType.NAME_TAKEN)
    assert condition is not None
    assert condition.is_true


@pytest.mark.parametrize(("previous_uids", "is_deleted"), [({"old"}, True), (set(), False)])
def test_pod_of_a_predecessor_is_deleted_while_the_attempt_runs(
    previous_uids: set[str], is_deleted: bool
) -> None:
    """It came to light late, under a name that the attempt does not use."""
    world = World(builders.framework("job", role("worker", 1), uid="new"))
    world.start()
    late = pod(OLD, 1)
    world.pods[late.name] = late
    found = msgspec.structs.replace(world.observed, previous_uids=previous_uids)
    expected = (DeletePod("job-worker-1", "pod-old-1"),) if is_deleted else ()
    assert decide(world.framework, found, world.now).actions == expected
