"""CustomResourceDefinitions: a kind is served, changes and disappears with its definition."""

from typing import Any

import pytest

from conformance.client import Json
from conformance.objects import (
    ANYTHING,
    DEFINITIONS,
    SIZED,
    Widgets,
    definition,
    establish,
    is_established,
    version,
    wait_until_served,
)
from conformance.transcript import RecordingClient
from conformance.waiting import wait_for, wait_until, wait_until_gone


def test_custom_resource_is_served_until_definition_is_deleted(
    api: RecordingClient, widgets: Widgets
) -> None:
    body = definition(widgets.group, version(SIZED))
    api.get(widgets.path()).expect(404)
    created = api.unrecorded.post(DEFINITIONS, body).expect(201).body
    # Its status and resourceVersion depend on timing.
    api.note(
        "created",
        {"metadata": sorted(created["metadata"].keys() - {"managedFields"}), "spec": created["spec"]},
    )
    wait_until(api.unrecorded, widgets.definition, lambda found: is_established(found.body))
    wait_until_served(api.unrecorded, body)
    api.get(widgets.definition).expect(200)
    api.get(widgets.path()).expect(200)
    api.post(widgets.path(), widgets.body("a", spec={"size": 1})).expect(201)
    api.get(widgets.path("a")).expect(200)
    api.get(widgets.path()).expect(200)
    api.get(f"/apis/{widgets.group}/v1/widgets").expect(200)
    api.get(widgets.path("missing")).expect(404)
    api.post(widgets.path(), widgets.body("a")).expect(409)
    api.delete(widgets.definition).expect(200)
    wait_until_gone(api.unrecorded, widgets.definition)
    wait_until_gone(api.unrecorded, widgets.path())
    api.get(widgets.path("a")).expect(404)
    establish(api.unrecorded, body)
    assert api.get(widgets.path()).expect(200).names == []


def test_custom_resource_is_in_discovery(api: RecordingClient, widgets: Widgets) -> None:
    names: dict[str, Any] = {"shortNames": ["wd"], "categories": ["all"]}
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
    }
    body = definition(widgets.group, version(SIZED, subresources=subresources), **names)
    establish(api.unrecorded, body)
    at = f"/apis/{widgets.group}"
    wait_for("the group to be discovered", lambda: api.unrecorded.get(at).code == 200)

    def is_listed() -> bool:
        groups = api.unrecorded.get("/apis").body["groups"]
        return any(group["name"] == widgets.group for group in groups)

    wait_for("the group to be listed", is_listed)
    api.get(at).expect(200)
    api.get(f"{at}/v1").expect(200)
    found = next(g for g in api.unrecorded.get("/apis").body["groups"] if g["name"] == widgets.group)
    api.note("group", found)
    api.unrecorded.delete(widgets.definition).expect(200)
    wait_until_gone(api.unrecorded, at)
    wait_until_gone(api.unrecorded, f"{at}/v1")
    wait_for("the group to be unlisted", lambda: not is_listed())


def test_cluster_scoped_custom_resource(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED), scope="Cluster"))
    at = f"/apis/{widgets.group}/v1/widgets"
    api.post(at, widgets.body("a", spec={"size": 1})).expect(201)
    api.patch(f"{at}/a", {"spec": {"size": 2}}).expect(200)
    api.get(widgets.path("a")).expect(404)
    api.delete(f"{at}/a").expect(200)


def test_conflicting_names_are_not_accepted(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    body = definition(widgets.group, version(SIZED), plural="gadgets")
    body["metadata"] = {"name": f"gadgets.{widgets.group}"}
    api.unrecorded.post(DEFINITIONS, body).expect(201)
    at = f"{DEFINITIONS}/gadgets.{widgets.group}"
    wait_until(api.unrecorded, at, lambda found: bool(found.body["status"].get("conditions")))
    status = api.unrecorded.get(at).body["status"]
    api.note("conditions", status["conditions"])
    assert not is_established({"status": status})
    api.unrecorded.delete(at).expect(200)


def schema(**spec: Any) -> Json:
    return {"type": "object", "properties": {"spec": spec}}


def changed(body: Json, **spec: Any) -> Json:
    return {**body, "spec": {**body["spec"], **spec}}


GROUP = "widgets.example.com"
GOOD = definition(GROUP, version(SIZED))
REFUSED: dict[str, Json] = {
    "name": {**GOOD, "metadata": {"name": "others.widgets.example.com"}},
    "no-group": changed(GOOD, group=""),
    "bad-group": changed(GOOD, group="Widgets"),
    "no-scope": changed(GOOD, scope=""),
    "bad-scope": changed(GOOD, scope="Galaxy"),
    "no-versions": changed(GOOD, versions=[]),
    "no-kind": changed(GOOD, names={"plural": "widgets"}),
    "no-plural": changed(GOOD, names={"kind": "Widget"}),
    "no-schema": definition(GROUP, {"name": "v1", "served": True, "storage": True}),
    "no-storage": definition(GROUP, {**version(SIZED), "storage": False}),
    "two-storages": definition(GROUP, version(SIZED), version(SIZED, "v2")),
    "same-versions": definition(GROUP, version(SIZED), {**version(SIZED), "storage": False}),
    "bad-version": definition(GROUP, version(SIZED, "V_1")),
    "not-structural-no-type": definition(GROUP, version({"properties": {"spec": {"type": "object"}}})),
    "not-structural-inner": definition(GROUP, version(schema(properties={"a": {"type": "string"}}))),
    "not-structural-items": definition(GROUP, version(schema(type="array"))),
    "root-not-object": definition(GROUP, version({"type": "string"})),
    "unknown-type": definition(GROUP, version(schema(type="thing"))),
    "preserve-false": definition(
        GROUP, version(schema(type="object", **{"x-kubernetes-preserve-unknown-fields": False}))
    ),
    "bad-default": definition(GROUP, version(schema(type="integer", default="text"))),
    "bad-pattern": definition(GROUP, version(schema(type="string", pattern="("))),
    "preserve-unknown-fields": changed(GOOD, preserveUnknownFields=True),
    "status-path": definition(
        GROUP,
        version(
            SIZED,
            subresources={"scale": {"specReplicasPath": "spec.size", "statusReplicasPath": ".status.size"}},
        ),
    ),
    "column-without-path": definition(
        GROUP, version(SIZED, additionalPrinterColumns=[{"name": "Size", "type": "integer"}])
    ),
    "column-type": definition(
        GROUP,
        version(SIZED, additionalPrinterColumns=[{"name": "Size", "type": "size", "jsonPath": ".spec.size"}]),
    ),
    **{
        f"selectable-{name}": definition(
            GROUP, version(SIZED, selectableFields=[{"jsonPath": path} for path in paths])
        )
        for name, paths in {
            "unknown": [".spec.unknown"],
            "without-dot": ["spec.size"],
            "empty": [""],
            "object": [".spec"],
            "metadata": [".metadata.name"],
            "twice": [".spec.size", ".spec.size"],
        }.items()
    },
    "list-map-keys": definition(
        GROUP,
        version(schema(type="array", items={"type": "string"}, **{"x-kubernetes-list-type": "map"})),
    ),
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_invalid_definition_is_rejected(api: RecordingClient, body: Json) -> None:
    api.post(DEFINITIONS, body, dryRun="All").expect(422)


def test_changed_schema_applies_to_stored_objects(api: RecordingClient, widgets: Widgets) -> None:
    """Stored objects change only when they are written, but are defaulted and pruned when read."""
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    api.post(widgets.path(), widgets.body("a", spec={"size": 1, "colour": "red"})).expect(201)
    narrower = schema(
        type="object",
        properties={"size": {"type": "integer"}, "shape": {"type": "string", "default": "round"}},
    )
    path = "/spec/versions/0/schema/openAPIV3Schema"
    patched = api.patch(widgets.definition, [{"op": "replace", "path": path, "value": narrower}], "json")
    assert patched.expect(200).body["metadata"]["generation"] == 2
    seen = wait_until(api.unrecorded, widgets.path("a"), lambda found: "shape" in found.body["spec"])
    assert seen.body["spec"] == {"size": 1, "shape": "round"}
    api.get(widgets.path("a")).expect(200)
    assert api.get(widgets.path()).body["items"][0]["spec"] == {"size": 1, "shape": "round"}
    created = api.post(widgets.path(), widgets.body("b", spec={"colour": "red"})).expect(201)
    assert created.body["spec"] == {"shape": "round"}


def test_all_served_versions_show_one_object(api: RecordingClient, widgets: Widgets) -> None:
    old = {**version(SIZED, "v1beta1"), "storage": False}
    unserved = {**version(SIZED, "v0"), "storage": False, "served": False}
    establish(api.unrecorded, definition(widgets.group, old, version(SIZED), unserved))
    created = api.post(widgets.path(version="v1beta1"), widgets.body("a", "v1beta1", spec={"size": 1}))
    assert created.expect(201).body["apiVersion"] == f"{widgets.group}/v1beta1"
    assert api.get(widgets.path("a")).expect(200).body["apiVersion"] == f"{widgets.group}/v1"
    api.patch(widgets.path("a"), {"spec": {"size": 2}}).expect(200)
    assert api.get(widgets.path("a", version="v1beta1")).expect(200).body["spec"] == {"size": 2}
    api.get(widgets.path("a", version="v0")).expect(404)
    api.post(widgets.path(), widgets.body("b", "v1beta1")).expect(400)
    versions = api.unrecorded.get(f"/apis/{widgets.group}").expect(200).body
    assert versions["preferredVersion"]["version"] == "v1"
    assert [each["version"] for each in versions["versions"]] == ["v1", "v1beta1"]
    with api.watch(widgets.path(version="v1beta1")) as watch:
        assert watch.next()["object"]["apiVersion"] == f"{widgets.group}/v1beta1"


def test_stored_versions_cannot_be_removed(api: RecordingClient, widgets: Widgets) -> None:
    """A version remains in the definition until it is removed from status.storedVersions."""
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    found = api.unrecorded.get(widgets.definition)
    assert found.body["status"]["storedVersions"] == ["v1"]
    api.patch(widgets.definition, {"spec": {"versions": [version(SIZED, "v2")]}}).expect(422)
    both = [{**version(SIZED), "storage": False}, version(SIZED, "v2")]
    moved = api.patch(widgets.definition, {"spec": {"versions": both}}).expect(200)
    assert moved.body["status"]["storedVersions"] == ["v1", "v2"]


def test_immutable_definition_fields(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    api.patch(widgets.definition, {"spec": {"scope": "Cluster"}}).expect(422)
    api.patch(widgets.definition, {"spec": {"group": "other.example.com"}}).expect(422)
    api.patch(widgets.definition, {"spec": {"names": {"kind": "Gadget"}}}).expect(422)


def test_deleted_definition_waits_for_its_objects(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    held = {"finalizers": ["example.com/hold"]}
    api.unrecorded.post(widgets.path(), widgets.body("a", metadata=held)).expect(201)
    api.unrecorded.post(widgets.path(), widgets.body("b")).expect(201)
    deleted = api.delete(widgets.definition).expect(200).body["metadata"]
    assert deleted["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    wait_until_gone(api.unrecorded, widgets.path("b"))
    wait_until(api.unrecorded, widgets.path("a"), lambda found: "deletionTimestamp" in found.body["metadata"])
    api.post(widgets.path(), widgets.body("late")).expect(403)
    api.patch(widgets.path("a"), {"metadata": {"finalizers": []}}).expect(200)
    wait_until_gone(api.unrecorded, widgets.definition)


def test_custom_resource_scale_subresource(api: RecordingClient, widgets: Widgets) -> None:
    properties = {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}},
        },
    }
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    shape = version({"type": "object", "properties": properties}, subresources={"status": {}, "scale": scale})
    establish(api.unrecorded, definition(widgets.group, shape))
    api.post(widgets.path(), widgets.body("a", spec={"size": 1})).expect(201)
    api.patch(widgets.path("a", "status"), {"status": {"size": 1, "selector": "app=a"}}).expect(200)
    found = api.get(widgets.path("a", "scale")).expect(200).body
    assert (found["spec"], found["status"]) == ({"replicas": 1}, {"replicas": 1, "selector": "app=a"})
    api.put(widgets.path("a", "scale"), {**found, "spec": {"replicas": 3}}).expect(200)
    api.patch(widgets.path("a", "scale"), {"spec": {"replicas": 4}}).expect(200)
    assert api.get(widgets.path("a")).body["spec"] == {"size": 4}


def test_custom_resource_list_has_list_kind(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(ANYTHING), listKind="WidgetBag"))
    assert api.get(widgets.path()).expect(200).body["kind"] == "WidgetBag"
