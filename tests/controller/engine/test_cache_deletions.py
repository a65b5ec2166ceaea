"""Frameworks that are gone are remembered while objects of theirs are left, and no longer."""

from datetime import datetime

import builders
import msgspec
import pytest
from builders import NOW

from windlass.controller.engine.cache import Cache
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.decide import initial_status
from windlass.decide.types import CreatedPod
from windlass.model.framework import Framework
from windlass.model.names import CONTROLLER_GROUP, LAUNCHER_GROUP
from windlass.model.pods import ConfigMapView, PodView


def job(uid: str = "old", resource_version: str = "5", group: str = CONTROLLER_GROUP) -> Framework:
    made = builders.framework(
        "job", builders.role("worker", 2), uid=uid, resource_version=resource_version, group=group
    )
    return made.with_status(initial_status.framework_status(made, NOW))


OLD = job()
KEY = key_of(OLD)
GONE = job(resource_version="20")
"""As the watch shows its removal."""


def pod(of: Framework = OLD, index: int = 0) -> PodView:
    assert of.status is not None
    task = of.status.attempt_status.roles[0].task_statuses[index]
    return builders.pod(
        of, task, uid=f"pod-{of.uid}-{index}", config_map_uid=f"cm-{of.uid}", resource_version=str(10 + index)
    )


def config_map(of: Framework = OLD) -> ConfigMapView:
    return builders.config_map(of, f"cm-{of.uid}", resource_version="9")


def populated() -> Cache:
    cache = Cache()
    cache.put_framework(OLD)
    cache.put(config_map())
    cache.put(pod(index=0))
    cache.put(pod(index=1))
    return cache


def departed_in(cache: Cache, key: FrameworkKey = KEY, now: datetime = NOW) -> set[str]:
    return set(cache.observe(key, now, 0.0).previous_uids)


def test_deleted_framework_with_objects_is_kept() -> None:
    cache = populated()
    assert cache.deleted_framework(KEY) is None, "while it is here it is not"
    assert cache.remove_framework(GONE)
    assert cache.framework(KEY) is None
    left = cache.deleted_framework(KEY)
    assert left is OLD, "as it was last known, with its status"
    assert departed_in(cache) == {"old"}


def test_framework_missing_in_a_list_is_kept_for_its_objects() -> None:
    cache = populated()
    assert cache.replace_frameworks([], "20") == {KEY}
    assert cache.deleted_framework(KEY) is OLD


def test_recreated_framework_keeps_the_old_one_for_its_objects() -> None:
    """The watch went on from a list, and the deletion was between the two."""
    cache = populated()
    new = job("new", "30")
    assert cache.put_framework(new)
    assert cache.framework(KEY) is new
    assert departed_in(cache) == {"old"}


def test_deleted_framework_without_objects_is_forgotten() -> None:
    cache = Cache()
    cache.put_framework(OLD)
    cache.remove_framework(GONE)
    assert cache.deleted_framework(KEY) is None
    assert cache.expectations_for(OLD) is None


def test_invalid_framework_is_not_deleted() -> None:
    cache = populated()
    cache.invalidate(KEY)
    assert cache.framework(KEY) is None
    assert cache.deleted_framework(KEY) is None
    assert departed_in(cache) == set()
    assert cache.put_framework(job(resource_version="6")), "nor is it buried"
    assert set(cache.observe(KEY, NOW, 0.0).pods) == {"job-worker-0", "job-worker-1"}


def test_deleted_invalid_framework_is_kept_for_its_objects() -> None:
    cache = populated()
    cache.invalidate(KEY)
    assert cache.remove_invalid(KEY)
    assert cache.deleted_framework(KEY) is OLD, "as it could be read last"
    assert not cache.remove_invalid(KEY), "once"


@pytest.mark.parametrize(
    ("uid", "departed"), [("old", set()), ("new", {"old"})], ids=["repaired", "recreated"]
)
def test_invalid_framework_replaced_by_another_is_deleted(uid: str, departed: set[str]) -> None:
    cache = populated()
    cache.invalidate(KEY)
    assert cache.put_framework(job(uid, "30"))
    assert departed_in(cache) == departed
    assert not cache.remove_invalid(KEY), "it has come back"
    assert departed_in(cache) == departed


@pytest.mark.parametrize(
    ("namespace", "group", "unreadable", "changed"),
    [
        ("", "", (), {KEY}),
        (KEY.namespace, CONTROLLER_GROUP, (), {KEY}),
        (KEY.namespace, CONTROLLER_GROUP, (KEY,), set()),
        ("elsewhere", "", (), set()),
        ("", LAUNCHER_GROUP, (), set()),
    ],
    ids=["gone", "gone from its namespace", "still unreadable", "another namespace", "another group"],
)
def test_invalid_framework_missing_in_a_list_is_deleted(
    namespace: str, group: str, unreadable: tuple[FrameworkKey, ...], changed: set[FrameworkKey]
) -> None:
    cache = populated()
    cache.invalidate(KEY)
    assert cache.replace_frameworks([], "30", namespace, group, unreadable) == changed
    assert cache.deleted_framework(KEY) is (OLD if changed else None)


def test_framework_that_was_never_valid_has_no_known_objects() -> None:
    cache = Cache()
    cache.invalidate(KEY)
    assert not cache.remove_invalid(KEY)


def test_objects_of_a_deleted_framework_concern_its_key() -> None:
    cache = populated()
    cache.remove_framework(GONE)
    assert cache.remove(pod(index=0)) == {KEY}
    assert cache.remove(pod(index=1)) == {KEY}
    assert cache.deleted_framework(KEY) is OLD, "its ConfigMap is left"
    cache.remove(config_map())
    assert cache.deleted_framework(KEY) is None


@pytest.mark.parametrize("left", ["pods", "ConfigMap"])
def test_deleted_framework_is_kept_while_objects_are_left(left: str) -> None:
    cache = populated()
    cache.remove_framework(GONE)
    if left == "pods":
        cache.remove(config_map())
        cache.remove(pod(index=0))
    else:
        cache.replace(PodView, [], "30")
    assert cache.deleted_framework(KEY) is OLD
    assert departed_in(cache) == {"old"}


@pytest.mark.parametrize("asks", ["its own pass", "its successor's"])
def test_deleted_framework_is_forgotten_when_only_foreign_objects_are_left(asks: str) -> None:
    cache = populated()
    new = job("new", "30")
    cache.put_framework(new)
    cache.remove(config_map())
    cache.record_created_config_map(new, builders.config_map(new, "cm-new", resource_version="31"))
    assert departed_in(cache) == {"old"}
    cache.remove(pod(index=0))
    cache.remove(pod(index=1))
    if asks == "its own pass":
        assert cache.deleted_framework(KEY) is None
    assert departed_in(cache) == set()


def test_groups_share_objects_but_not_deleted_frameworks() -> None:
    cache = populated()
    other = job("other", "6", LAUNCHER_GROUP)
    cache.put_framework(other)
    cache.remove_framework(GONE)
    assert cache.deleted_framework(KEY) is OLD
    assert cache.deleted_framework(key_of(other)) is None
    assert departed_in(cache, key_of(other)) == {"old"}, "a Framework that waits for the name may clear it"
    assert cache.remove(pod()) == {KEY, key_of(other)}


def test_outcomes_of_cleanup_are_recorded_until_objects_are_deleted() -> None:
    cache = populated()
    cache.remove_framework(GONE)
    record = cache.expectations_for(OLD)
    assert record is not None
    record.record_deletion("pod-old-0")
    again = cache.expectations_for(OLD)
    assert again is record
    assert cache.observe(KEY, NOW, 0.0).outcomes.deletion_requested == {"pod-old-0"}
    cache.remove(pod(index=0))
    assert cache.observe(KEY, NOW, 0.0).outcomes.deletion_requested == set()


def test_expectations_end_with_the_framework() -> None:
    cache = populated()
    living = cache.expectations_for(OLD)
    assert living is not None
    living.is_framework_deletion_requested = True
    cache.remove_framework(GONE)
    assert not cache.observe(KEY, NOW, 0.0).outcomes.is_framework_deletion_requested


def test_recreated_framework_does_not_share_expectations() -> None:
    cache = populated()
    cache.remove_framework(GONE)
    clearing = cache.expectations_for(OLD)
    assert clearing is not None
    clearing.name_taken_message = "taken"
    new = job("new", "30")
    cache.put_framework(new)
    assert cache.expectations_for(OLD) is None
    assert cache.observe(KEY, NOW, 0.0).outcomes.name_taken_message == ""


def test_pod_created_after_the_deletion_is_cached_for_cleanup() -> None:
    cache = populated()
    cache.remove_framework(GONE)
    late = msgspec.structs.replace(
        pod(), metadata=msgspec.structs.replace(pod().metadata, uid="late", name="job-worker-2")
    )
    cache.record_created_pod(OLD, late, CreatedPod("late", "task", 0))
    assert "job-worker-2" in cache.observe(KEY, NOW, 0.0).pods


def test_store_after_the_deletion_returns_false() -> None:
    """Nothing may be created for it any more, though its objects are still being cleared away."""
    cache = populated()
    cache.remove_framework(GONE)
    assert not cache.record_stored(job(resource_version="15"))
    assert cache.framework(KEY) is None


def test_other_controller_of_a_deleted_framework_is_forgotten() -> None:
    cache = populated()
    cache.set_other_controller(KEY, "frameworkcontroller")
    assert cache.observe(KEY, NOW, 0.0).other_controller == "frameworkcontroller"
    cache.remove_framework(GONE)
    cache.put_framework(job("new", "30"))
    assert cache.observe(KEY, NOW, 0.0).other_controller == ""


@pytest.mark.parametrize("rival", ["", "frameworkcontroller"])
def test_store_reports_the_other_controller(rival: str) -> None:
    cache = populated()
    cache.record_stored(job(resource_version="11"))
    if rival:
        cache.set_other_controller(KEY, rival)
    assert not cache.observe(KEY, NOW, 0.0).is_other_controller_reported, (
        "what was stored before says nothing of it"
    )
    assert cache.record_stored(job(resource_version="12"))
    assert cache.observe(KEY, NOW, 0.0).is_other_controller_reported == bool(rival)


def test_report_of_other_controller_ends_with_the_framework() -> None:
    cache = populated()
    cache.set_other_controller(KEY, "frameworkcontroller")
    cache.record_stored(job(resource_version="12"))
    cache.remove_framework(GONE)
    cache.put_framework(job("new", "30"))
    cache.set_other_controller(KEY, "frameworkcontroller")
    assert not cache.observe(KEY, NOW, 0.0).is_other_controller_reported
