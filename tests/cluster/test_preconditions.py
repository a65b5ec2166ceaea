"""Writes with a stale resourceVersion or another UID are rejected."""

from typing import Any

import pytest

from conformance.objects import SIZED, Namespace, Widgets, config_map, definition, establish, lease, version
from conformance.transcript import RecordingClient

ANOTHER_UID = "11111111-2222-3333-4444-555555555555"


def test_update_of_older_version_conflicts(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    old = api.post(maps, config_map("a", {"k": "1"})).version
    new = api.put(f"{maps}/a", config_map("a", {"k": "2"}, resourceVersion=old)).expect(200).version
    assert new != old
    refused = api.put(f"{maps}/a", config_map("a", {"k": "3"}, resourceVersion=old)).expect(409)
    assert refused.reason == "Conflict"
    assert api.get(f"{maps}/a").body["data"] == {"k": "2"}
    api.put(f"{maps}/a", config_map("a", {"k": "4"}, resourceVersion=new)).expect(200)


def test_update_without_version_is_unconditional(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    first = api.post(maps, config_map("a", {"k": "1"}))
    second = api.put(f"{maps}/a", config_map("a", {"k": "2"})).expect(200)
    assert second.uid == first.uid
    assert int(second.version) > int(first.version)


def test_update_with_other_uid_conflicts(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    api.put(f"{maps}/a", config_map("a", {"k": "2"}, uid=ANOTHER_UID)).expect(409)


def test_custom_resource_update_requires_version(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    created = api.post(widgets.path(), widgets.body("a", spec={"size": 1})).expect(201)
    api.put(widgets.path("a"), widgets.body("a", spec={"size": 2})).expect(422)
    versioned = {"resourceVersion": created.version}
    api.put(widgets.path("a"), widgets.body("a", spec={"size": 2}, metadata=versioned)).expect(200)
    api.put(widgets.path("a"), widgets.body("a", spec={"size": 3}, metadata=versioned)).expect(409)


def test_update_creates_missing_lease(api: RecordingClient, namespace: Namespace) -> None:
    leases = namespace.path("leases")
    api.put(f"{leases}/a", lease("a", holderIdentity="me")).expect(201)
    api.put(f"{leases}/a", lease("a", holderIdentity="you")).expect(422)
    held = api.get(f"{leases}/a").expect(200)
    assert held.body["spec"] == {"holderIdentity": "me"}
    taken = {**lease("a", holderIdentity="you"), "metadata": {"name": "a", "resourceVersion": held.version}}
    api.put(f"{leases}/a", taken).expect(200)
    api.put(f"{leases}/a", taken).expect(409)


def test_update_of_missing_config_map_is_not_found(api: RecordingClient, namespace: Namespace) -> None:
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
def test_delete_preconditions_must_match(
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


def test_json_patch_of_other_version_conflicts(api: RecordingClient, namespace: Namespace) -> None:
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
def test_patch_with_resource_version_checks_it(api: RecordingClient, namespace: Namespace, kind: str) -> None:
    maps = namespace.path("configmaps")
    old = api.post(maps, config_map("a", {"k": "1"})).version
    body = {"metadata": {"resourceVersion": old}, "data": {"k": "2"}}
    api.patch(f"{maps}/a", body, kind).expect(200)
    api.patch(f"{maps}/a", body, kind).expect(409)


def test_failed_test_operation_stops_json_patch(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a", {"k": "1"}))
    change = {"op": "replace", "path": "/data/k", "value": "2"}
    api.patch(f"{maps}/a", [{"op": "test", "path": "/data/k", "value": "0"}, change], "json").expect(422)
    assert api.get(f"{maps}/a").body["data"] == {"k": "1"}
    api.patch(f"{maps}/a", [{"op": "test", "path": "/data/k", "value": "1"}, change], "json").expect(200)


def test_unchanged_update_keeps_resource_version(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    created = api.post(maps, config_map("a", {"k": "1"}))
    again = api.put(f"{maps}/a", created.body).expect(200)
    assert again.version == created.version


def test_create_with_resource_version_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    api.post(namespace.path("configmaps"), config_map("a", resourceVersion="5")).expect(500)
    api.get(namespace.path("configmaps", "a")).expect(404)


def test_client_cannot_set_uid_and_creation_timestamp(api: RecordingClient, namespace: Namespace) -> None:
    """The uid and creationTimestamp that a client sends are ignored."""
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
