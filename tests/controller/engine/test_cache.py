"""The cache: answers are the newest truth, older news is ignored, what was seen and is not here is gone."""

import itertools

import builders
import msgspec
import pytest
from builders import NOW, at
from tests.decide.worlds import World

from windlass.controller.engine.cache import Cache
from windlass.controller.engine.expectations import Expectations
from windlass.controller.engine.keys import key_of
from windlass.controller.engine.port import DeletedPods, Listed
from windlass.controller.engine.related_objects import MAX_UNUSED_UIDS
from windlass.decide import initial_status
from windlass.decide.types import CreatedPod, Observed
from windlass.model.framework import Framework
from windlass.model.names import CONTROLLER_GROUP, LAUNCHER_GROUP
from windlass.model.pods import ConfigMapView, PodView


def framework(resource_version: str = "1", group: str = CONTROLLER_GROUP) -> Framework:
    made = builders.framework(
        "job", builders.role("worker", 2), group=group, resource_version=resource_version
    )
    return made.with_status(initial_status.framework_status(made, NOW))


JOB = framework()
KEY = key_of(JOB)


def pod(uid: str = "pod-1", resource_version: str = "10", *, phase: str = "Pending") -> PodView:
    assert JOB.status is not None
    task = JOB.status.attempt_status.roles[0].task_statuses[0]
    return builders.pod(JOB, task, uid=uid, resource_version=resource_version, phase=phase)


def config_map(uid: str = "cm-1", resource_version: str = "10") -> ConfigMapView:
    return builders.config_map(JOB, uid, resource_version=resource_version)


def cache_with(*frameworks: Framework) -> Cache:
    cache = Cache()
    for made in frameworks or (JOB,):
        cache.put_framework(made)
    return cache


def seen(cache: Cache) -> Observed:
    return cache.observe(KEY, NOW, 0.0)


def record(cache: Cache) -> Expectations:
    found = cache.expectations_for(JOB)
    assert found is not None
    return found


def test_object_concerns_frameworks_of_both_groups_with_its_name() -> None:
    other = framework(group=LAUNCHER_GROUP)
    cache = cache_with(JOB, other)
    assert cache.put(pod()) == {KEY, key_of(other)}
    assert cache.put(config_map()) == {KEY, key_of(other)}


def test_older_event_is_ignored() -> None:
    cache = cache_with()
    assert cache.put(pod(resource_version="12", phase="Running"))
    assert not cache.put(pod(resource_version="11"))
    assert seen(cache).pods["job-worker-0"].status.phase == "Running"


def test_versions_are_compared_as_numbers() -> None:
    cache = cache_with()
    cache.put(pod(resource_version="9", phase="Pending"))
    cache.put(pod(resource_version="10", phase="Running"))
    assert seen(cache).pods["job-worker-0"].status.phase == "Running"


def test_deleted_object_does_not_come_back() -> None:
    cache = cache_with()
    cache.put(pod(resource_version="12"))
    cache.remove(pod(resource_version="13"))
    assert not cache.put(pod(resource_version="12"))
    cache.record_created_pod(JOB, pod(resource_version="10"), CreatedPod("pod-1", "task", 0))
    assert not seen(cache).pods
    assert "pod-1" in seen(cache).known
    assert seen(cache).outcomes.created["job-worker-0"].uid == "pod-1", "the creation is still recorded"


def test_deletion_before_creation_is_recorded() -> None:
    cache = cache_with()
    cache.remove(pod(resource_version="13"))
    assert not cache.put(pod(resource_version="10"))
    assert "pod-1" in seen(cache).known


def test_late_deletion_of_an_earlier_object_keeps_the_new_one() -> None:
    cache = cache_with()
    cache.put(pod("pod-1", "10"))
    cache.put(pod("pod-2", "20"))
    cache.remove(pod("pod-1", "19"))
    assert seen(cache).pods["job-worker-0"].uid == "pod-2"
    assert not cache.put(pod("pod-1", "18"))


def test_uid_of_a_pod_name_is_that_of_its_current_pod() -> None:
    cache = cache_with()
    place = JOB.namespace, JOB.name, "job-worker-0"
    assert cache.pod_uid(*place) == ""
    cache.put(pod("pod-1", "10"))
    cache.put(pod("pod-2", "20"))
    assert cache.pod_uid(*place) == "pod-2"
    cache.remove(pod("pod-2", "21"))
    assert cache.pod_uid(*place) == ""


def test_uncertain_creation_stays_uncertain_until_pods_are_listed() -> None:
    """The known pod may be from an earlier creation, and the watch may not have reported the other one yet."""
    world = World(JOB)
    world.start()
    cache = cache_with()
    record(cache).uncertain.add("job-worker-0")
    record(cache).record_stored(world.status)
    assert world.task().attempt_status.pod_uid
    assert seen(cache).outcomes.uncertain == {"job-worker-0"}
    cache.replace_objects_of(JOB, Listed("20", None, ()))
    assert not seen(cache).outcomes.uncertain


def test_answer_is_cached_at_once_and_unconfirmed_until_the_watch_shows_it() -> None:
    cache = cache_with()
    cache.record_created_pod(JOB, pod(resource_version="10"), CreatedPod("pod-1", "task", 0))
    assert seen(cache).pods["job-worker-0"].uid == "pod-1"
    assert "pod-1" in seen(cache).unconfirmed
    assert cache.put(pod(resource_version="10")) == {KEY}, "the same version confirms it"
    assert "pod-1" not in seen(cache).unconfirmed
    assert not cache.put(pod(resource_version="10"))


def test_answer_after_the_watch_event_is_confirmed() -> None:
    cache = cache_with()
    cache.put(pod(resource_version="12", phase="Running"))
    cache.record_created_pod(JOB, pod(resource_version="10"), CreatedPod("pod-1", "task", 0))
    assert seen(cache).pods["job-worker-0"].status.phase == "Running"
    assert not seen(cache).unconfirmed


def test_list_removes_older_objects_that_it_lacks() -> None:
    cache = cache_with()
    cache.put(pod(resource_version="10"))
    assert cache.replace(PodView, [], "15") == {KEY}
    assert not seen(cache).pods


def test_list_keeps_objects_created_after_it() -> None:
    cache = cache_with()
    cache.record_created_pod(JOB, pod(resource_version="20"), CreatedPod("pod-1", "task", 0))
    cache.record_created_config_map(JOB, config_map(resource_version="20"))
    cache.replace(PodView, [], "15")
    cache.replace(ConfigMapView, [], "15")
    cache.replace_objects_of(JOB, Listed("15", None, ()))
    assert seen(cache).pods
    assert seen(cache).config_map is not None


def status_naming(pod_uid: str, config_map_uid: str, resource_version: str) -> Framework:
    made = framework()
    assert made.status is not None
    attempt = made.status.attempt_status
    first, second = attempt.roles[0].task_statuses
    named = msgspec.structs.replace(
        first, attempt_status=msgspec.structs.replace(first.attempt_status, pod_uid=pod_uid)
    )
    role = msgspec.structs.replace(attempt.roles[0], task_statuses=(named, second))
    attempt = msgspec.structs.replace(attempt, config_map_uid=config_map_uid, task_role_statuses=(role,))
    status = msgspec.structs.replace(made.status, attempt_status=attempt)
    return made.with_status(status, resource_version)


@pytest.mark.parametrize(
    ("status_version", "list_version", "is_proven"), [("5", "9", True), ("9", "9", True), ("10", "9", False)]
)
def test_only_a_list_as_new_as_the_status_proves_a_deletion(
    status_version: str, list_version: str, is_proven: bool
) -> None:
    """Otherwise the watch of pods may just be behind the watch of Frameworks, and the pod may run."""
    cache = cache_with(status_naming("pod-7", "cm-7", status_version))
    cache.replace(PodView, [], list_version)
    assert ("pod-7" in seen(cache).known) is is_proven
    assert "cm-7" not in seen(cache).known, "a list of pods says nothing about ConfigMaps"
    cache.replace(ConfigMapView, [], list_version)
    assert ("cm-7" in seen(cache).known) is is_proven


def test_list_of_one_framework_settles_uncertain_pods() -> None:
    named = status_naming("pod-7", "cm-7", "5")
    cache = cache_with(named)
    record(cache).uncertain.add("job-worker-1")
    assert seen(cache).outcomes.uncertain == {"job-worker-1"}
    cache.replace_objects_of(named, Listed("3", None, ()))
    assert {"pod-7", "cm-7"} <= seen(cache).known
    assert not seen(cache).outcomes.uncertain


def test_deletecollection_covers_returned_and_cached_pods() -> None:
    cache = cache_with()
    cache.put(pod("pod-1", "10"))
    assert JOB.status is not None
    unseen = builders.pod(
        JOB, JOB.status.attempt_status.roles[0].task_statuses[1], uid="pod-2", resource_version="11"
    )
    cache.record_deleted_pods(JOB, "cm-0", DeletedPods((unseen,)), cached=cache.pods_of_attempt(JOB, "cm-0"))
    assert seen(cache).outcomes.deletion_requested == {"pod-1", "pod-2"}
    assert seen(cache).outcomes.collection_deletion_requested == {"cm-0"}
    assert seen(cache).pods["job-worker-1"].uid == "pod-2", "what the watch has not shown is waited for"
    cache.remove(unseen)
    assert seen(cache).outcomes.deletion_requested == {"pod-1"}


def test_store_clears_the_outcomes_that_it_contains() -> None:
    cache = cache_with()
    cache.record_created_pod(JOB, pod(), CreatedPod("pod-1", "task", 0))
    record(cache).postpone("job-worker-1", 5.0)
    cache.record_stored(framework("11"))
    assert not seen(cache).outcomes.created
    assert seen(cache).outcomes.postponed == {"job-worker-1": at(5)}


def test_successful_creation_ends_its_backoff() -> None:
    cache = cache_with()
    record(cache).postpone("job-worker-0", 5.0)
    record(cache).postpone("job-worker-0", 9.0)
    assert record(cache).failures("job-worker-0") == 2
    cache.record_created_pod(JOB, pod(), CreatedPod("pod-1", "task", 0))
    assert record(cache).failures("job-worker-0") == 0
    assert not seen(cache).outcomes.postponed


def test_recreated_framework_has_new_expectations() -> None:
    cache = cache_with()
    record(cache).is_framework_deletion_requested = True
    record(cache).name_taken_message = "taken"
    again = builders.framework("job", uid="another", resource_version="30")
    cache.put_framework(again)
    assert not seen(cache).outcomes.is_framework_deletion_requested
    assert not seen(cache).outcomes.name_taken_message
    assert not cache.remove_framework(JOB), (
        "the deletion of an old Framework does not affect a new one of that name"
    )
    assert cache.framework(KEY) is again


def test_list_replaces_frameworks() -> None:
    gone, newer = framework("3"), builders.framework("other", resource_version="20")
    cache = cache_with(gone, newer)
    fresh = builders.framework("fresh", resource_version="8")
    assert cache.replace_frameworks([fresh], "10") == {KEY, key_of(fresh)}
    assert set(cache.keys()) == {key_of(newer), key_of(fresh)}


def test_objects_without_label_and_other_config_maps_are_ignored() -> None:
    cache = cache_with()
    stray = pod()
    unlabelled = msgspec.structs.replace(
        stray, metadata=msgspec.structs.replace(stray.metadata, labels=type(stray.metadata.labels)())
    )
    assert cache.put(unlabelled) == set()
    assert cache.remove(unlabelled) == set()
    made = config_map()
    renamed = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name="else"))
    assert cache.put(renamed) == set()
    assert seen(cache).config_map is None


def test_uids_of_deleted_objects_are_pruned() -> None:
    cache = cache_with()
    for number in range(3 * MAX_UNUSED_UIDS):
        cache.put(pod(f"pod-{number}", str(100 + 2 * number)))
        cache.remove(pod(f"pod-{number}", str(101 + 2 * number)))
        cache.record_stored(framework(str(10_000 + number)))
    assert len(seen(cache).known) <= MAX_UNUSED_UIDS + 1


def test_order_of_events_does_not_change_the_view() -> None:
    """A pod is created, runs, is deleted, and another takes its name."""
    events = [
        ("put", pod("pod-1", "10")),
        ("put", pod("pod-1", "11", phase="Running")),
        ("remove", pod("pod-1", "12")),
        ("put", pod("pod-2", "13")),
        ("put", pod("pod-2", "14", phase="Running")),
    ]
    for order in itertools.permutations(events):
        cache = cache_with()
        for verb, found in order:
            cache.put(found) if verb == "put" else cache.remove(found)
        assert seen(cache).pods["job-worker-0"] == pod("pod-2", "14", phase="Running"), order
        assert {"pod-1", "pod-2"} <= seen(cache).known


def test_deleted_framework_does_not_come_back_with_a_late_answer_or_event() -> None:
    cache = cache_with(framework("5"))
    deleted = framework("9")
    assert cache.remove_framework(deleted)
    assert not cache.record_stored(framework("8")), "the answer to a store that the deletion overtook"
    assert not cache.put_framework(framework("7"))
    assert cache.framework(KEY) is None
    assert cache.put_framework(builders.framework("job", uid="another", resource_version="12"))


def test_answers_for_a_deleted_framework_are_ignored() -> None:
    cache = cache_with()
    cache.remove_framework(framework("9"))
    again = builders.framework("job", uid="another", resource_version="12")
    cache.put_framework(again)
    cache.record_created_pod(JOB, pod(), CreatedPod("pod-1", "task", 0))
    cache.record_created_config_map(JOB, config_map())
    cache.record_deleted_pods(JOB, "cm-0", DeletedPods((pod(),)), cached=set())
    cache.replace_objects_of(JOB, Listed("20", config_map(), (pod(),)))
    assert seen(cache).config_map is None
    assert not seen(cache).pods
    assert not seen(cache).outcomes.collection_deletion_requested


def test_deletecollection_does_not_cover_pods_created_later() -> None:
    """A late request has created the pod, and its deletion was not requested yet."""
    cache = cache_with()
    asked_for = cache.pods_of_attempt(JOB, "cm-0")
    cache.put(pod("late"))
    cache.record_deleted_pods(JOB, "cm-0", DeletedPods(()), asked_for)
    assert "late" not in seen(cache).outcomes.deletion_requested


def test_relabelled_pod_is_removed_from_its_framework() -> None:
    other = builders.framework("other", resource_version="2")
    cache = cache_with(JOB, other)
    cache.put(pod(resource_version="10"))
    moved = pod(resource_version="11")
    labels = msgspec.structs.replace(moved.metadata.labels, framework_name="other")
    moved = msgspec.structs.replace(moved, metadata=msgspec.structs.replace(moved.metadata, labels=labels))
    assert cache.put(moved) == {KEY, key_of(other)}
    assert not seen(cache).pods
    assert "pod-1" in seen(cache).known


def test_taken_name_is_cleared_when_the_attempt_has_its_config_map() -> None:
    cache = cache_with()
    record(cache).name_taken_message = "taken"
    record(cache).postpone("job-attempt", 5.0)
    cache.record_stored(status_naming("pod-1", "cm-1", "20"))
    assert not seen(cache).outcomes.name_taken_message
    assert not seen(cache).outcomes.postponed


def test_backoff_is_reported_as_wall_clock_time() -> None:
    """Whatever that clock did meanwhile: three seconds are left."""
    cache = cache_with()
    record(cache).postpone("job-worker-0", 8.0)
    assert cache.observe(KEY, at(-3600), 5.0).outcomes.postponed == {"job-worker-0": at(-3597)}


def test_event_older_than_the_last_list_is_ignored() -> None:
    """A watch goes on where the list ended; nothing that went before it may come back."""
    cache = cache_with()
    cache.replace(PodView, [], "50")
    cache.replace(ConfigMapView, [], "50")
    assert not cache.put(pod("pod-9", "49"))
    assert not cache.put(config_map("cm-9", "49"))
    assert cache.put(pod("pod-9", "51"))
    assert cache.put(config_map("cm-9", "51"))
