"""Dependents go with their owners, before them, or stay behind, as the deletion asks for."""

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
NOBODY = "99999999-8888-7777-6666-555555555555"


def dependent(api: RecordingClient, maps: str, name: str, *owners: Json, **metadata: Any) -> Json:
    return api.post(maps, config_map(name, ownerReferences=list(owners), **metadata)).expect(201).body


def until_seen(api: RecordingClient, *paths: str) -> None:
    """Waits until the collector has seen what was written there before.

    It follows the server like any other client and decides by what it has seen so far. It has seen all that came
    before an object of the same kind whose owner never was, as soon as it has deleted that object.
    """
    for path in paths:
        kind = api.unrecorded.get(path).expect(200).body
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": NOBODY}
        body = {
            "apiVersion": kind["apiVersion"],
            "kind": kind["kind"].removesuffix("List"),
            "metadata": {"name": "canary", "ownerReferences": [reference]},
            "spec": pod_spec(),
        }
        api.unrecorded.post(path, body).expect(201)
        wait_until_gone(api.unrecorded, f"{path}/canary")


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_dependents_are_deleted(api: RecordingClient, namespace: Namespace, policy: str) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    child = dependent(api, maps, "child", owner("ConfigMap", root))
    dependent(api, maps, "grandchild", owner("ConfigMap", child))
    api.post(maps, config_map("bystander"))
    until_seen(api, maps)
    api.delete(f"{maps}/root", propagationPolicy=policy).expect(200)
    for name in ("root", "child", "grandchild"):
        wait_until_gone(api.unrecorded, f"{maps}/{name}")
    assert api.get(maps).names == ["bystander"]


def test_orphans_stay(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    child = dependent(api, maps, "child", owner("ConfigMap", root))
    dependent(api, maps, "grandchild", owner("ConfigMap", child))
    until_seen(api, maps)
    api.delete(f"{maps}/root", propagationPolicy="Orphan").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    assert "ownerReferences" not in api.get(f"{maps}/child").expect(200).body["metadata"]
    assert api.get(f"{maps}/grandchild").body["metadata"]["ownerReferences"] == [owner("ConfigMap", child)]


def test_the_old_way_to_orphan(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", owner("ConfigMap", root))
    until_seen(api, maps)
    api.delete(f"{maps}/root", {"orphanDependents": True}).expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    assert "ownerReferences" not in api.get(f"{maps}/child").expect(200).body["metadata"]


def test_in_the_foreground_an_owner_waits(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", owner("ConfigMap", root, blockOwnerDeletion=True), finalizers=[HOLD])
    until_seen(api, maps)
    deleted = api.delete(f"{maps}/root", propagationPolicy="Foreground").expect(200).body["metadata"]
    assert deleted["finalizers"] == ["foregroundDeletion"]
    wait_until(api.unrecorded, f"{maps}/child", lambda found: "deletionTimestamp" in found.body["metadata"])
    assert "deletionTimestamp" in api.get(f"{maps}/root").expect(200).body["metadata"]
    api.patch(f"{maps}/child", {"metadata": {"finalizers": []}}).expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    api.get(f"{maps}/child").expect(404)


def test_an_owner_waits_only_for_those_that_block(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", owner("ConfigMap", root, blockOwnerDeletion=False), finalizers=[HOLD])
    until_seen(api, maps)
    api.delete(f"{maps}/root", propagationPolicy="Foreground").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    wait_until(api.unrecorded, f"{maps}/child", lambda found: "deletionTimestamp" in found.body["metadata"])
    api.patch(f"{maps}/child", {"metadata": {"finalizers": []}}).expect(200)
    api.get(f"{maps}/child").expect(404)


def test_foreground_waits_for_grandchildren(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    child = dependent(api, maps, "child", owner("ConfigMap", root, blockOwnerDeletion=True))
    dependent(api, maps, "grandchild", owner("ConfigMap", child, blockOwnerDeletion=True), finalizers=[HOLD])
    until_seen(api, maps)
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


def test_an_owner_that_never_was(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": NOBODY}
    dependent(api, maps, "child", nobody)
    wait_until_gone(api.unrecorded, f"{maps}/child")


def test_another_object_of_the_owners_name_is_not_the_owner(
    api: RecordingClient, namespace: Namespace
) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root")).body
    dependent(api, maps, "child", {**owner("ConfigMap", root), "uid": NOBODY})
    wait_until_gone(api.unrecorded, f"{maps}/child")
    api.get(f"{maps}/root").expect(200)


def test_one_owner_of_two_is_enough(api: RecordingClient, namespace: Namespace) -> None:
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


def test_dependents_of_other_kinds(api: RecordingClient, namespace: Namespace) -> None:
    maps, secrets, pods = (namespace.path(each) for each in ("configmaps", "secrets", "pods"))
    root = api.post(maps, config_map("root")).body
    references = {"ownerReferences": [owner("ConfigMap", root, controller=True, blockOwnerDeletion=True)]}
    api.post(secrets, {**secret("a"), "metadata": {"name": "a", **references}}).expect(201)
    api.post(pods, pod("a", **references)).expect(201)
    until_seen(api, secrets, pods)
    api.delete(f"{maps}/root", propagationPolicy="Foreground").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    api.get(f"{secrets}/a").expect(404)
    api.get(f"{pods}/a").expect(404)


DEFAULTS: dict[str, tuple[Any, str, bool]] = {
    "deployments": (deployment("root"), "Deployment", False),
    "jobs": (job("root"), "Job", True),
}


@pytest.mark.parametrize(("plural", "row"), DEFAULTS.items(), ids=DEFAULTS)
def test_what_happens_when_nothing_is_asked_for(
    api: RecordingClient, namespace: Namespace, plural: str, row: Any
) -> None:
    """Dependents go, but for those of a Job: its pods stay."""
    body, kind, is_orphaned = row
    maps = namespace.path("configmaps")
    root = api.post(namespace.path(plural), body).expect(201).body
    dependent(api, maps, "child", owner(kind, root))
    until_seen(api, maps)
    api.delete(namespace.path(plural, "root")).expect(200)
    wait_until_gone(api.unrecorded, namespace.path(plural, "root"))
    if is_orphaned:
        assert "ownerReferences" not in api.get(f"{maps}/child").expect(200).body["metadata"]
    else:
        wait_until_gone(api.unrecorded, f"{maps}/child")


def test_an_owner_in_another_namespace_is_none(api: RecordingClient, namespace: Namespace) -> None:
    elsewhere = f"{namespace.name}-b"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}
    api.unrecorded.post("/api/v1/namespaces", body).expect(201)
    root = api.post(f"/api/v1/namespaces/{elsewhere}/configmaps", config_map("root")).body
    maps = namespace.path("configmaps")
    dependent(api, maps, "child", owner("ConfigMap", root))
    wait_until_gone(api.unrecorded, f"{maps}/child")
    api.unrecorded.delete(f"/api/v1/namespaces/{elsewhere}").expect(200)


def test_something_in_no_namespace_owns_what_is_in_one(
    api: RecordingClient, namespace: Namespace, unique: str
) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": unique}}
    node = api.post("/api/v1/nodes", body).expect(201).body
    maps = namespace.path("configmaps")
    dependent(api, maps, "child", owner("Node", node))
    api.delete(f"/api/v1/nodes/{unique}", propagationPolicy="Background").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/child")


def test_custom_resources_own(api: RecordingClient, widgets: Widgets, namespace: Namespace) -> None:
    """One test for all policies: the collector of a real cluster takes half a minute to learn of a definition."""
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    maps = namespace.path("configmaps")
    policies = ("Background", "Foreground", "Orphan")
    for policy in policies:
        name = policy.lower()
        root = api.post(widgets.path(), widgets.body(name)).expect(201).body
        child = dependent(api, maps, f"{name}-child", owner("Widget", root, blockOwnerDeletion=True))
        references = {"ownerReferences": [owner("ConfigMap", child, blockOwnerDeletion=True)]}
        api.post(widgets.path(), widgets.body(f"{name}-grandchild", metadata=references)).expect(201)
    until_seen(api, maps, widgets.path())
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


def test_a_collection_takes_its_dependents(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    root = api.post(maps, config_map("root", labels={"app": "blue"})).body
    dependent(api, maps, "child", owner("ConfigMap", root))
    until_seen(api, maps)
    api.delete(maps, {"propagationPolicy": "Foreground"}, labelSelector="app=blue").expect(200)
    wait_until_gone(api.unrecorded, f"{maps}/root")
    assert api.get(maps).names == []


NO_OWNERS: dict[str, Any] = {
    "no-uid": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"},
    "no-name": {"apiVersion": "v1", "kind": "ConfigMap", "uid": NOBODY},
    "no-kind": {"apiVersion": "v1", "name": "a", "uid": NOBODY},
    "no-version": {"kind": "ConfigMap", "name": "a", "uid": NOBODY},
    "event": {"apiVersion": "v1", "kind": "Event", "name": "a", "uid": NOBODY},
}


@pytest.mark.parametrize("reference", NO_OWNERS.values(), ids=NO_OWNERS)
def test_a_reference_to_nothing_is_refused(
    api: RecordingClient, namespace: Namespace, reference: Json
) -> None:
    api.post(namespace.path("configmaps"), config_map("child", ownerReferences=[reference])).expect(422)


def test_only_one_controller(api: RecordingClient, namespace: Namespace) -> None:
    one = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": NOBODY, "controller": True}
    two = {**one, "name": "b", "uid": NOBODY.replace("9", "1")}
    api.post(namespace.path("configmaps"), config_map("child", ownerReferences=[one, two])).expect(422)
