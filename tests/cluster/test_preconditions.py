"""A write that was made for another state of the object than the present one does nothing."""

from typing import Any

import pytest

from conformance.objects import SIZED, Namespace, Widgets, config_map, definition, establish, lease, version
from conformance.transcript import RecordingClient

ANOTHER_UID = "11111111-2222-3333-4444-555555555555"


def test_an_update_of_an_older_version_conflicts(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    old = api.post(maps, config_map("a", {"k": "1"})).version
    new = api.put(f"{maps}/a", config_map("a", {"k": "2"}, resourceVersion=old)).expect(200).version
    assert new != old
    refused = api.put(f"{maps}/a", config_map("a", {"k": "3"}, resourceVersion=old)).expect(409)
    assert refused.reason == "Conflict"
    assert api.get(f"{maps}/a").body["data"] == {"k": "2"}
    api.put(f"{maps}/a", config_map("a", {"k": "4"}, resourceVersion=new)).expect(200)


def test_an_update_without_a_version_is_unconditional(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    first = api.post(maps, config_map("a", {"k": "1"}))
    second = api.put(f"{maps}/a", config_map("a", {"k": "2"})).expect(200)
    assert second.uid == first.uid
    assert int(second.version) > int(first.version)


def test_an_update_of_another_object_of_that_name_conflicts(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    api.put(f"{maps}/a", config_map("a", {"k": "2"}, uid=ANOTHER_UID)).expect(409)


def test_a_custom_resource_is_updated_with_a_version_only(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    created = api.post(widgets.path(), widgets.body("a", spec={"size": 1})).expect(201)
    api.put(widgets.path("a"), widgets.body("a", spec={"size": 2})).expect(422)
    versioned = {"resourceVersion": created.version}
    api.put(widgets.path("a"), widgets.body("a", spec={"size": 2}, metadata=versioned)).expect(200)
    api.put(widgets.path("a"), widgets.body("a", spec={"size": 3}, metadata=versioned)).expect(409)


def test_a_lease_is_created_by_an_update(api: RecordingClient, namespace: Namespace) -> None:
    leases = namespace.path("leases")
    api.put(f"{leases}/a", lease("a", holderIdentity="me")).expect(201)
    api.put(f"{leases}/a", lease("a", holderIdentity="you")).expect(422)
    held = api.get(f"{leases}/a").expect(200)
    assert held.body["spec"] == {"holderIdentity": "me"}
    taken = {**lease("a", holderIdentity="you"), "metadata": {"name": "a", "resourceVersion": held.version}}
    api.put(f"{leases}/a", taken).expect(200)
    api.put(f"{leases}/a", taken).expect(409)


def test_a_config_map_is_not_created_by_an_update(api: RecordingClient, namespace: Namespace) -> None:
    api.put(namespace.path("configmaps", "a"), config_map("a")).expect(404)


DELETIONS: dict[str, tuple[dict[str, Any], int]] = {
    "another-uid": ({"uid": ANOTHER_UID}, 409),
    "another-version": ({"resourceVersion": "1"}, 409),
    "its-uid": ({"uid": "ITS"}, 200),
    "its-version": ({"resourceVersion": "ITS"}, 200),
    "both": ({"uid": "ITS", "resourceVersion": "ITS"}, 200),
    "its-uid-another-version": ({"uid": "ITS", "resourceVersion": "1"}, 409),
}


@pytest.mark.parametrize(("conditions", "code"), DELETIONS.values(), ids=DELETIONS)
def test_a_deletion_has_conditions(
    api: RecordingClient, namespace: Namespace, conditions: dict[str, str], code: int
) -> None:
    maps = namespace.path("configmaps")
    created = api.post(maps, config_map("a"))
    metadata = created.body["metadata"]
    given = {key: metadata[key] if value == "ITS" else value for key, value in conditions.items()}
    api.delete(f"{maps}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": given}).expect(
        code
    )
    assert api.get(f"{maps}/a").code == (404 if code == 200 else 200)


def test_a_json_patch_of_another_version_conflicts(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    old = api.post(maps, config_map("a", {"k": "1"})).version

    def patch(number: str, value: str) -> list[dict[str, str]]:
        return [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": number},
            {"op": "replace", "path": "/data/k", "value": value},
        ]

    new = api.patch(f"{maps}/a", patch(old, "2"), "json").expect(200).version
    assert api.patch(f"{maps}/a", patch(old, "3"), "json").expect(409).reason == "Conflict"
    api.patch(f"{maps}/a", patch(new, "4"), "json").expect(200)


@pytest.mark.parametrize("kind", ["merge", "strategic"])
def test_a_patch_may_name_the_version(api: RecordingClient, namespace: Namespace, kind: str) -> None:
    maps = namespace.path("configmaps")
    old = api.post(maps, config_map("a", {"k": "1"})).version
    body = {"metadata": {"resourceVersion": old}, "data": {"k": "2"}}
    api.patch(f"{maps}/a", body, kind).expect(200)
    api.patch(f"{maps}/a", body, kind).expect(409)


def test_a_test_that_fails_stops_a_json_patch(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a", {"k": "1"}))
    change = {"op": "replace", "path": "/data/k", "value": "2"}
    api.patch(f"{maps}/a", [{"op": "test", "path": "/data/k", "value": "0"}, change], "json").expect(422)
    assert api.get(f"{maps}/a").body["data"] == {"k": "1"}
    api.patch(f"{maps}/a", [{"op": "test", "path": "/data/k", "value": "1"}, change], "json").expect(200)


def test_an_update_that_changes_nothing_keeps_the_version(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    created = api.post(maps, config_map("a", {"k": "1"}))
    again = api.put(f"{maps}/a", created.body).expect(200)
    assert again.version == created.version


def test_what_is_created_has_no_version_yet(api: RecordingClient, namespace: Namespace) -> None:
    api.post(namespace.path("configmaps"), config_map("a", resourceVersion="5")).expect(500)
    api.get(namespace.path("configmaps", "a")).expect(404)


def test_the_server_says_who_and_when(api: RecordingClient, namespace: Namespace) -> None:
    """A client's own uid and creationTimestamp are not taken."""
    wanted: dict[str, Any] = {"uid": ANOTHER_UID, "creationTimestamp": "2001-01-01T00:00:00Z"}
    created = api.post(namespace.path("configmaps"), config_map("a", **wanted)).expect(201)
    assert created.uid != ANOTHER_UID
    assert not created.body["metadata"]["creationTimestamp"].startswith("2001")
    changed = {
        **created.body,
        "metadata": {**created.body["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z"},
    }
    kept = api.put(namespace.path("configmaps", "a"), changed).expect(200)
    assert kept.body["metadata"]["creationTimestamp"] == created.body["metadata"]["creationTimestamp"]
