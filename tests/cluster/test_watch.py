"""Watches: every change once and in order, after the requested resourceVersion."""

from typing import Any

import pytest

from conformance.objects import SIZED, Namespace, Widgets, config_map, definition, establish, pod, version
from conformance.transcript import RecordingClient


def types_and_names(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def versions(events: list[Any]) -> list[int]:
    return [int(event["object"]["metadata"]["resourceVersion"]) for event in events]


def test_watch_events_are_in_order(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    start = api.get(maps).version
    with api.watch(maps, resourceVersion=start) as watch:
        api.post(maps, config_map("a", {"k": "1"}))
        api.put(f"{maps}/a", config_map("a", {"k": "2"}))
        api.post(maps, config_map("b"))
        api.patch(f"{maps}/a", {"data": {"k": "3"}})
        api.delete(f"{maps}/a")
        events = watch.take(5)
    assert types_and_names(events) == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    assert versions(events) == sorted(set(versions(events)))
    assert [event["object"].get("data", {}).get("k") for event in events] == ["1", "2", None, "3", "3"]


def test_watch_resumes_after_resource_version(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    second = api.post(maps, config_map("b")).version
    api.delete(f"{maps}/a")
    api.post(maps, config_map("c"))
    with api.watch(maps, resourceVersion=second) as watch:
        assert types_and_names(watch.take(2)) == [("DELETED", "a"), ("ADDED", "c")]
        api.delete(f"{maps}/b")
        assert types_and_names([watch.next()]) == [("DELETED", "b")]


@pytest.mark.parametrize(
    "start", [{}, {"resourceVersion": "0"}, {"resourceVersion": ""}], ids=["unset", "0", "empty"]
)
def test_watch_without_version_starts_with_existing_objects(
    api: RecordingClient, namespace: Namespace, start: dict[str, Any]
) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    api.post(maps, config_map("b"))
    with api.watch(maps, **start) as watch:
        assert types_and_names(watch.take_in_any_order(2)) == [("ADDED", "a"), ("ADDED", "b")]
        api.post(maps, config_map("c"))
        assert types_and_names([watch.next()]) == [("ADDED", "c")]


def test_all_watchers_get_same_events(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    start = api.get(maps).version
    with api.watch(maps, resourceVersion=start) as one, api.watch(maps, resourceVersion=start) as other:
        for name in ("a", "b", "c"):
            api.unrecorded.post(maps, config_map(name))
        assert one.take(3) == other.take(3)


def test_object_that_stops_matching_selector_is_deleted_event(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    start = api.get(maps).version

    def label(value: str, data: str) -> None:
        api.put(f"{maps}/a", config_map("a", {"k": data}, labels={"app": value})).expect(200)

    with api.watch(maps, resourceVersion=start, labelSelector="app=blue") as watch:
        api.post(maps, config_map("other", labels={"app": "red"}))
        api.post(maps, config_map("a", {"k": "1"}, labels={"app": "blue"}))
        label("blue", "2")
        label("red", "3")
        label("red", "4")
        label("blue", "5")
        api.delete(f"{maps}/other")
        api.delete(f"{maps}/a")
        events = watch.take(5)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert [event["object"]["data"]["k"] for event in events] == ["1", "2", "2", "5", "5"]
    assert versions(events) == sorted(set(versions(events)))


def test_watch_of_one_object_by_name(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    api.post(maps, config_map("b"))
    with api.watch(maps, fieldSelector="metadata.name=a") as watch:
        assert types_and_names([watch.next()]) == [("ADDED", "a")]
        api.patch(f"{maps}/b", {"data": {"k": "1"}})
        api.patch(f"{maps}/a", {"data": {"k": "1"}})
        api.delete(f"{maps}/b")
        api.delete(f"{maps}/a")
        assert types_and_names(watch.take(2)) == [("MODIFIED", "a"), ("DELETED", "a")]


def test_field_selector_change_adds_and_deletes_object(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    start = api.get(pods).version
    with api.watch(pods, resourceVersion=start, fieldSelector="status.phase=Running") as watch:
        api.post(pods, pod("a")).expect(201)
        api.patch(f"{pods}/a/status", {"status": {"phase": "Running"}}).expect(200)
        api.patch(f"{pods}/a/status", {"status": {"phase": "Succeeded"}}).expect(200)
        assert types_and_names(watch.take(2)) == [("ADDED", "a"), ("DELETED", "a")]


def test_watch_across_all_namespaces(api: RecordingClient, namespace: Namespace, unique: str) -> None:
    start = api.unrecorded.get("/api/v1/configmaps").version
    with api.watch("/api/v1/configmaps", resourceVersion=start, labelSelector=f"of={unique}") as watch:
        api.post(namespace.path("configmaps"), config_map("a", labels={"of": unique}))
        assert watch.next()["object"]["metadata"]["namespace"] == namespace.name


def test_watch_of_custom_resources(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    api.post(widgets.path(), widgets.body("a", spec={"size": 1})).expect(201)
    with api.watch(widgets.path()) as watch:
        assert types_and_names([watch.next()]) == [("ADDED", "a")]
        api.patch(widgets.path("a"), {"spec": {"size": 2}}).expect(200)
        api.delete(widgets.path("a")).expect(200)
        events = watch.take(2)
    assert types_and_names(events) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0]["object"]["spec"] == {"size": 2}


def test_watch_from_compacted_version_is_expired(
    api: RecordingClient, namespace: Namespace, widgets: Widgets
) -> None:
    """The history is limited in length, and starts when a kind is defined."""
    path = namespace.path("configmaps")
    api.unrecorded.post(path, config_map("a")).expect(201)
    for number in range(600):
        api.unrecorded.patch(f"{path}/a", {"data": {"number": str(number)}}).expect(200)
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    with api.watch(widgets.path(), resourceVersion="1") as watch:
        event = watch.next()
        assert watch.rest() == []
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_bookmarks_have_current_resource_version(api: RecordingClient, namespace: Namespace) -> None:
    """Bookmarks skip changes that the selector excludes, so that a client can resume after them."""
    maps = namespace.path("configmaps")
    start = api.post(maps, config_map("a")).version
    asked: dict[str, Any] = {
        "labelSelector": "app=blue",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "5",
    }
    with api.watch(maps, resourceVersion=start, **asked) as watch:
        api.post(maps, config_map("b", labels={"app": "red"}))
        bookmark = watch.next()
    assert bookmark["type"] == "BOOKMARK"
    reached = bookmark["object"]["metadata"]["resourceVersion"]
    assert int(reached) > int(start)
    api.post(maps, config_map("c"))
    with api.watch(maps, resourceVersion=reached) as watch:
        assert types_and_names([watch.next()]) == [("ADDED", "c")]


def test_watch_ends_after_timeout(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    with api.watch(maps, timeoutSeconds="1") as watch:
        assert types_and_names(watch.rest()) == [("ADDED", "a")]


def test_deletion_with_finalizer_is_modified_then_deleted_event(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    start = api.post(maps, config_map("a", finalizers=["example.com/hold"])).version
    with api.watch(maps, resourceVersion=start) as watch:
        api.delete(f"{maps}/a")
        api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})
        events = watch.take(2)
    assert types_and_names(events) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert "deletionTimestamp" in events[0]["object"]["metadata"]


def test_unchanged_update_sends_no_event(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    start = api.post(maps, config_map("a", {"k": "1"})).version
    with api.watch(maps, resourceVersion=start) as watch:
        assert api.put(f"{maps}/a", config_map("a", {"k": "1"})).version == start
        assert api.patch(f"{maps}/a", {"data": {"k": "1"}}).version == start
        api.put(f"{maps}/a", config_map("a", {"k": "2"}), dryRun="All").expect(200)
        api.delete(f"{maps}/a", dryRun="All").expect(200)
        api.post(maps, config_map("b"), dryRun="All").expect(201)
        api.post(maps, config_map("last"))
        assert types_and_names([watch.next()]) == [("ADDED", "last")]


@pytest.mark.parametrize(
    "params", [{"labelSelector": "a==b==c"}, {"fieldSelector": "spec.nothing=1"}], ids=["labels", "fields"]
)
def test_invalid_watch_is_rejected(
    api: RecordingClient, namespace: Namespace, params: dict[str, Any]
) -> None:
    with api.watch(namespace.path("configmaps"), **params) as watch:
        assert watch.answer.code == 400


def test_watched_objects_have_kind_and_version(api: RecordingClient, namespace: Namespace) -> None:
    """Objects in a watch have apiVersion and kind, unlike the items of a list."""
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    with api.watch(maps) as watch:
        found = watch.next()["object"]
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")
    assert all("kind" not in item for item in api.get(maps).body["items"])
