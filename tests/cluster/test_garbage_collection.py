"""Garbage collection: dependents are deleted in the background, in the foreground, or orphaned."""

from typing import Any

import pytest

from conformance.client import Json
from conformance.objects import (
    SIZED,
    Namespace,
    Widgets,
    config_map,
    definition,
    deployment,
    establish,
    job,
    owner,
    pod,
    pod_spec,
    secret,
    version,
)
from conformance.transcript import RecordingClient
from conformance.waiting import wait_until, wait_until_gone

HOLD = "example.com/hold"
UNKNOWN_UID = "99999999-8888-7777-6666-555555555555"


def dependent(api: RecordingClient, maps: str, name: str, *owners: Json, **metadata: Any) -> Json:
    return api.post(maps, config_map(name, ownerReferences=list(owners), **metadata)).expect(201).body


def wait_for_collector(api: RecordingClient, *paths: str) -> None:
    """Wait until the garbage collector has processed all earlier writes.

    It watches the server like any other client. Once it has deleted an object whose owner does not exist, it has seen
    all objects of that kind that were created before.
    """
    for path in paths:
        kind = api.unrecorded.get(path).expect(200).body
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": UNKNOWN_UID}
        body = {
            "apiVersion": kind["apiVersion"],
            "kind": kind["kind"].removesuffix("List"),
            "metadata": {"name": "canary", "ownerReferences": [reference]},
            "spec": pod_spec(),
        }
        api.unrecorded.post(path, body).expect(201)
        wait_until_gone(api.unrecorded, f"{path}/canary")


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_background_deletion_deletes_dependents(
    api: RecordingClient, namespace: Namespace, policy: str
) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    child = dependent(api, maps, "child", owner("ConfigMap", root))
    dependent(api, maps, "grandchild", owner("ConfigMap", child))
    api.post(maps, config_map("bystander"))
    wait_for_collector(api, maps)
    api.delete(f"{maps}/root", propagationPolicy=policy).expect(200)
    for name in ("root", "child", "grandchild"):
        wait_until_gone(api.unrecorded, f"{maps}/{name}")
    assert api.get(maps).names == ["bystander"]


def test_orphan_deletion_keeps_dependents(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    child = dependent(api, maps, "child", owner("ConfigMap", root))
    dependent(api, maps, "grandchild", owner("ConfigMap", child))
    wait_for_collector(api, maps)
    api.delete(f"{maps}/root", propagationPolicy="Orphan").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    assert "ownerReferences" not in api.get(f"{maps}/child").expect(200).body["metadata"]
    assert api.get(f"{maps}/grandchild").body["metadata"]["ownerReferences"] == [owner("ConfigMap", child)]


def test_orphan_dependents_option_keeps_dependents(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", owner("ConfigMap", root))
    wait_for_collector(api, maps)
    api.delete(f"{maps}/root", {"orphanDependents": True}).expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    assert "ownerReferences" not in api.get(f"{maps}/child").expect(200).body["metadata"]


def test_foreground_deletion_keeps_owner_until_dependents_are_deleted(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", owner("ConfigMap", root, blockOwnerDeletion=True), finalizers=[HOLD])
    wait_for_collector(api, maps)
    deleted = api.delete(f"{maps}/root", propagationPolicy="Foreground").expect(200).body["metadata"]
    assert deleted["finalizers"] == ["foregroundDeletion"]
    wait_until(api.unrecorded, f"{maps}/child", lambda found: "deletionTimestamp" in found.body["metadata"])
    assert "deletionTimestamp" in api.get(f"{maps}/root").expect(200).body["metadata"]
    api.patch(f"{maps}/child", {"metadata": {"finalizers": []}}).expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    api.get(f"{maps}/child").expect(404)


def test_foreground_deletion_waits_only_for_blocking_dependents(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", owner("ConfigMap", root, blockOwnerDeletion=False), finalizers=[HOLD])
    wait_for_collector(api, maps)
    api.delete(f"{maps}/root", propagationPolicy="Foreground").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    wait_until(api.unrecorded, f"{maps}/child", lambda found: "deletionTimestamp" in found.body["metadata"])
    api.patch(f"{maps}/child", {"metadata": {"finalizers": []}}).expect(200)
    api.get(f"{maps}/child").expect(404)


def test_foreground_deletion_waits_for_indirect_dependents(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    child = dependent(api, maps, "child", owner("ConfigMap", root, blockOwnerDeletion=True))
    dependent(api, maps, "grandchild", owner("ConfigMap", child, blockOwnerDeletion=True), finalizers=[HOLD])
    wait_for_collector(api, maps)
    api.delete(f"{maps}/root", {"propagationPolicy": "Foreground"}).expect(200)
    wait_until(
        api.unrecorded, f"{maps}/grandchild", lambda found: "deletionTimestamp" in found.body["metadata"]
    )
    held = api.get(f"{maps}/child").expect(200).body["metadata"]
    assert held["finalizers"] == ["foregroundDeletion"]
    api.get(f"{maps}/root").expect(200)
    api.patch(f"{maps}/grandchild", {"metadata": {"finalizers": []}}).expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    assert api.get(maps).names == []


def test_object_with_missing_owner_is_deleted(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": UNKNOWN_UID}
    dependent(api, maps, "child", nobody)
    wait_until_gone(api.unrecorded, f"{maps}/child")


def test_owner_with_same_name_but_other_uid_does_not_count(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", {**owner("ConfigMap", root), "uid": UNKNOWN_UID})
    wait_until_gone(api.unrecorded, f"{maps}/child")
    api.get(f"{maps}/root").expect(200)


def test_dependent_stays_while_one_owner_exists(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    one, two = (api.post(maps, config_map(name)).body for name in ("one", "two"))
    dependent(api, maps, "child", owner("ConfigMap", one), owner("ConfigMap", two))
    api.delete(f"{maps}/one", propagationPolicy="Background").expect(200)
    wait_until(
        api.unrecorded,
        f"{maps}/child",
        lambda found: found.body["metadata"]["ownerReferences"] == [owner("ConfigMap", two)],
    )
    api.delete(f"{maps}/two", propagationPolicy="Background").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/child")


def test_dependents_of_other_kinds_are_deleted(api: RecordingClient, namespace: Namespace) -> None:
    maps, secrets, pods = (namespace.path(each) for each in ("configmaps", "secrets", "pods"))
    root = api.post(maps, config_map("root")).body
    references = {"ownerReferences": [owner("ConfigMap", root, controller=True, blockOwnerDeletion=True)]}
    api.post(secrets, {**secret("a"), "metadata": {"name": "a", **references}}).expect(201)
    api.post(pods, pod("a", **references)).expect(201)
    wait_for_collector(api, secrets, pods)
    api.delete(f"{maps}/root", propagationPolicy="Foreground").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    api.get(f"{secrets}/a").expect(404)
    api.get(f"{pods}/a").expect(404)


DEFAULTS: dict[str, tuple[Any, str, bool]] = {
    "deployments": (deployment("root"), "Deployment", False),
    "jobs": (job("root"), "Job", True),
}


@pytest.mark.parametrize(("plural", "row"), DEFAULTS.items(), ids=DEFAULTS)
def test_default_propagation_policy_depends_on_kind(
    api: RecordingClient, namespace: Namespace, plural: str, row: Any
) -> None:
    """Dependents are deleted, except those of a Job, whose pods are orphaned."""
    body, kind, is_orphaned = row
    maps = namespace.path("configmaps")
    root = api.post(namespace.path(plural), body).expect(201).body
    dependent(api, maps, "child", owner(kind, root))
    wait_for_collector(api, maps)
    api.delete(namespace.path(plural, "root")).expect(200)
    wait_until_gone(api.unrecorded, namespace.path(plural, "root"))
    if is_orphaned:
        assert "ownerReferences" not in api.get(f"{maps}/child").expect(200).body["metadata"]
    else:
        wait_until_gone(api.unrecorded, f"{maps}/child")


def test_owner_in_other_namespace_does_not_count(api: RecordingClient, namespace: Namespace) -> None:
    elsewhere = f"{namespace.name}-b"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}
    api.unrecorded.post("/api/v1/namespaces", body).expect(201)
    root = api.post(f"/api/v1/namespaces/{elsewhere}/configmaps", config_map("root")).body
    maps = namespace.path("configmaps")
    dependent(api, maps, "child", owner("ConfigMap", root))
    wait_until_gone(api.unrecorded, f"{maps}/child")
    api.unrecorded.delete(f"/api/v1/namespaces/{elsewhere}").expect(200)


def test_cluster_scoped_object_can_own_namespaced_one(
    api: RecordingClient, namespace: Namespace, unique: str
) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": unique}}
    node = api.post("/api/v1/nodes", body).expect(201).body
    maps = namespace.path("configmaps")
    dependent(api, maps, "child", owner("Node", node))
    api.delete(f"/api/v1/nodes/{unique}", propagationPolicy="Background").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/child")


def test_custom_resources_can_be_owners(api: RecordingClient, widgets: Widgets, namespace: Namespace) -> None:
    """One test for all policies: a real garbage collector takes half a minute to discover a new kind."""
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    maps = namespace.path("configmaps")
    policies = ("Background", "Foreground", "Orphan")
    for policy in policies:
        name = policy.lower()
        root = api.post(widgets.path(), widgets.body(name)).expect(201).body
        child = dependent(api, maps, f"{name}-child", owner("Widget", root, blockOwnerDeletion=True))
        references = {"ownerReferences": [owner("ConfigMap", child, blockOwnerDeletion=True)]}
        api.post(widgets.path(), widgets.body(f"{name}-grandchild", metadata=references)).expect(201)
    wait_for_collector(api, maps, widgets.path())
    for policy in policies:
        name = policy.lower()
        api.delete(widgets.path(name), propagationPolicy=policy).expect(200)
        wait_until_gone(api.unrecorded, widgets.path(name))
        if policy == "Orphan":
            assert "ownerReferences" not in api.get(f"{maps}/{name}-child").expect(200).body["metadata"]
            api.get(widgets.path(f"{name}-grandchild")).expect(200)
        else:
            wait_until_gone(api.unrecorded, f"{maps}/{name}-child")
            wait_until_gone(api.unrecorded, widgets.path(f"{name}-grandchild"))


def test_delete_collection_deletes_dependents(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root", labels={"app": "blue"})).body
    dependent(api, maps, "child", owner("ConfigMap", root))
    wait_for_collector(api, maps)
    api.delete(maps, {"propagationPolicy": "Foreground"}, labelSelector="app=blue").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    assert api.get(maps).names == []


NO_OWNERS: dict[str, Any] = {
    "no-uid": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"},
    "no-name": {"apiVersion": "v1", "kind": "ConfigMap", "uid": UNKNOWN_UID},
    "no-kind": {"apiVersion": "v1", "name": "a", "uid": UNKNOWN_UID},
    "no-version": {"kind": "ConfigMap", "name": "a", "uid": UNKNOWN_UID},
    "event": {"apiVersion": "v1", "kind": "Event", "name": "a", "uid": UNKNOWN_UID},
}


@pytest.mark.parametrize("reference", NO_OWNERS.values(), ids=NO_OWNERS)
def test_incomplete_owner_reference_is_rejected(
    api: RecordingClient, namespace: Namespace, reference: Json
) -> None:
    api.post(namespace.path("configmaps"), config_map("child", ownerReferences=[reference])).expect(422)


def test_second_controller_reference_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    one = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": UNKNOWN_UID, "controller": True}
    two = {**one, "name": "b", "uid": UNKNOWN_UID.replace("9", "1")}
    api.post(namespace.path("configmaps"), config_map("child", ownerReferences=[one, two])).expect(422)
