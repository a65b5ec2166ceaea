"""Namespaces: deletion deletes the contents, and a terminating namespace rejects new objects."""

import pytest

from conformance.client import Json
from conformance.objects import (
    SIZED,
    Namespace,
    Widgets,
    config_map,
    definition,
    establish,
    pod,
    secret,
    version,
)
from conformance.transcript import RecordingClient
from conformance.waiting import wait_until, wait_until_gone

SPACES = "/api/v1/namespaces"
HOLD = "example.com/hold"


def namespace_body(name: str, **metadata: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def test_namespace_is_created_and_deleted(api: RecordingClient, unique: str) -> None:
    api.post(SPACES, namespace_body(unique)).expect(201)
    api.post(SPACES, namespace_body(unique)).expect(409)
    assert api.get(f"{SPACES}/{unique}").expect(200).body["status"]["phase"] == "Active"
    deleted = api.delete(f"{SPACES}/{unique}").expect(200)
    assert deleted.body["status"]["phase"] == "Terminating"
    wait_until_gone(api.unrecorded, f"{SPACES}/{unique}")
    api.get(f"{SPACES}/{unique}").expect(404)
    api.post(SPACES, namespace_body(unique)).expect(201)
    api.delete(f"{SPACES}/{unique}").expect(200)


def test_deleting_namespace_deletes_its_objects_first(
    api: RecordingClient, namespace: Namespace, widgets: Widgets
) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a")).expect(201)
    api.unrecorded.post(maps, config_map("held", finalizers=[HOLD])).expect(201)
    api.unrecorded.post(namespace.path("secrets"), secret("a")).expect(201)
    api.unrecorded.post(namespace.path("pods"), pod("a")).expect(201)
    api.unrecorded.post(widgets.path(), widgets.body("a")).expect(201)
    api.delete(f"{SPACES}/{namespace.name}").expect(200)
    for path in (f"{maps}/a", namespace.path("secrets", "a"), namespace.path("pods", "a"), widgets.path("a")):
        wait_until_gone(api.unrecorded, path)
    wait_until(api.unrecorded, f"{maps}/held", lambda found: "deletionTimestamp" in found.body["metadata"])
    assert (
        api.unrecorded.get(f"{SPACES}/{namespace.name}").expect(200).body["status"]["phase"] == "Terminating"
    )
    api.patch(f"{maps}/held", {"metadata": {"finalizers": []}}).expect(200)
    wait_until_gone(api.unrecorded, f"{SPACES}/{namespace.name}")
    api.get(maps).expect(200)


def test_terminating_namespace_rejects_new_objects(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("held", finalizers=[HOLD])).expect(201)
    api.unrecorded.delete(f"{SPACES}/{namespace.name}").expect(200)
    assert api.post(maps, config_map("late")).expect(403).reason == "Forbidden"
    api.post(SPACES, namespace_body(namespace.name)).expect(409)
    wait_until(api.unrecorded, f"{maps}/held", lambda found: "deletionTimestamp" in found.body["metadata"])
    api.patch(f"{maps}/held", {"data": {"k": "1"}}).expect(200)
    api.patch(f"{maps}/held", {"metadata": {"finalizers": []}}).expect(200)


def test_terminating_namespace_reports_remaining_finalizers(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("held", finalizers=[HOLD])).expect(201)
    api.unrecorded.delete(f"{SPACES}/{namespace.name}").expect(200)
    at = f"{SPACES}/{namespace.name}"
    wait_until(
        api.unrecorded,
        at,
        lambda found: any(
            each["type"] == "NamespaceFinalizersRemaining" and each["status"] == "True"
            for each in found.body["status"].get("conditions", [])
        ),
    )
    conditions = api.unrecorded.get(at).body["status"]["conditions"]
    api.note("conditions", sorted(conditions, key=lambda each: str(each["type"])))
    api.patch(f"{maps}/held", {"metadata": {"finalizers": []}}).expect(200)


def test_finalize_subresource_removes_finalizer(api: RecordingClient, unique: str) -> None:
    held = {**namespace_body(unique), "spec": {"finalizers": ["kubernetes", HOLD]}}
    created = api.post(SPACES, held).expect(201)
    assert created.body["spec"]["finalizers"] == ["kubernetes", HOLD]
    api.delete(f"{SPACES}/{unique}").expect(200)
    left = wait_until(
        api.unrecorded, f"{SPACES}/{unique}", lambda found: found.body["spec"].get("finalizers") == [HOLD]
    )
    assert left.body["status"]["phase"] == "Terminating"
    released = {**namespace_body(unique), "spec": {"finalizers": []}}
    api.put(f"{SPACES}/{unique}/finalize", released).expect(200)
    wait_until_gone(api.unrecorded, f"{SPACES}/{unique}")


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_system_namespaces_cannot_be_deleted(api: RecordingClient, name: str) -> None:
    api.unrecorded.get(f"{SPACES}/{name}").expect(200)
    api.delete(f"{SPACES}/{name}").expect(403)


NAMES = {"upper": "Upper", "dot": "a.b", "first": "-a", "last": "a-", "underscore": "a_b", "long": "a" * 64}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_namespace_has_name_label(api: RecordingClient, name: str) -> None:
    """Newer releases add a label to the namespace as well."""
    refused = api.unrecorded.post(SPACES, namespace_body(name)).expect(422).body
    api.note("first cause", refused["details"]["causes"][0])


def test_create_in_missing_namespace_is_rejected(api: RecordingClient, unique: str) -> None:
    maps = f"{SPACES}/{unique}/configmaps"
    assert api.get(maps).expect(200).body["items"] == []
    api.get(f"{maps}/a").expect(404)
    api.post(maps, config_map("a")).expect(404)
    api.delete(f"{maps}/a").expect(404)


def test_delete_collection_of_namespaces_is_not_allowed(api: RecordingClient) -> None:
    api.delete(SPACES).expect(405)
