"""Deletion: at once, after finalizers, after the grace period of a pod, and of collections."""

from typing import Any

import pytest

from conformance.objects import (
    SIZED,
    Namespace,
    Widgets,
    config_map,
    definition,
    establish,
    pod,
    service,
    version,
)
from conformance.transcript import RecordingClient

HOLD = "example.com/hold"


def test_object_without_finalizers_is_deleted_at_once(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    assert api.delete(f"{maps}/a").expect(200).body["status"] == "Success"
    api.get(f"{maps}/a").expect(404)
    api.delete(f"{maps}/a").expect(404)
    api.post(maps, config_map("a")).expect(201)


def test_finalizers_keep_deleted_object(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a", {"k": "1"}, finalizers=[HOLD, f"{HOLD}-2"]))
    first = api.delete(f"{maps}/a").expect(200)
    again = api.delete(f"{maps}/a").expect(200)
    assert first.body["metadata"]["deletionTimestamp"] == again.body["metadata"]["deletionTimestamp"]
    assert api.post(maps, config_map("a")).expect(409).reason == "AlreadyExists"
    api.patch(f"{maps}/a", {"data": {"k": "2"}}).expect(200)
    api.patch(f"{maps}/a", {"metadata": {"finalizers": [HOLD]}}).expect(200)
    api.get(f"{maps}/a").expect(200)
    api.patch(f"{maps}/a", {"metadata": {"finalizers": [HOLD, "example.com/late"]}}).expect(422)
    api.patch(f"{maps}/a", {"metadata": {"finalizers": []}}).expect(200)
    api.get(f"{maps}/a").expect(404)


def test_removing_last_finalizer_deletes_object(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a", finalizers=[HOLD]))
    held = api.delete(f"{maps}/a").expect(200).body
    released = {**held, "metadata": {**held["metadata"], "finalizers": []}}
    api.put(f"{maps}/a", released).expect(200)
    api.get(f"{maps}/a").expect(404)


def test_finalizers_of_live_object_can_change(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"))
    api.patch(f"{maps}/a", {"metadata": {"finalizers": [HOLD]}}).expect(200)
    api.patch(f"{maps}/a", {"metadata": {"finalizers": None}}).expect(200)
    api.get(f"{maps}/a").expect(200)


FINALIZERS = {
    "unqualified": "hold",
    "no-name": "example.com/",
    "no-prefix": "/hold",
    "space": "a b/c",
    "two-slashes": "example.com/a/b",
    "empty": "",
}


@pytest.mark.parametrize("name", FINALIZERS.values(), ids=FINALIZERS)
def test_finalizer_must_be_qualified_name(api: RecordingClient, namespace: Namespace, name: str) -> None:
    api.post(namespace.path("configmaps"), config_map("a", finalizers=[name])).expect(422)


def test_client_cannot_set_deletion_timestamp(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    marked: dict[str, Any] = {"deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    created = api.post(maps, config_map("a", **marked)).expect(201)
    assert "deletionTimestamp" not in created.body["metadata"]
    api.put(f"{maps}/a", {**created.body, "metadata": {**created.body["metadata"], **marked}})
    api.patch(f"{maps}/a", {"metadata": marked})
    assert "deletionTimestamp" not in api.get(f"{maps}/a").expect(200).body["metadata"]


def test_deletion_timestamp_does_not_change(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a", finalizers=[HOLD]))
    held = api.delete(f"{maps}/a").expect(200).body["metadata"]
    plain = config_map("a", {"k": "1"}, finalizers=[HOLD])
    kept = api.put(f"{maps}/a", plain).expect(200).body["metadata"]
    assert kept["deletionTimestamp"] == held["deletionTimestamp"]
    api.unrecorded.patch(f"{maps}/a", {"metadata": {"finalizers": None}})


def test_custom_resource_with_finalizer(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    api.post(widgets.path(), widgets.body("a", metadata={"finalizers": [HOLD]})).expect(201)
    held = api.delete(widgets.path("a")).expect(200).body
    assert "deletionTimestamp" in held["metadata"]
    released = {**held, "metadata": {**held["metadata"], "finalizers": []}}
    api.put(widgets.path("a"), released).expect(200)
    api.get(widgets.path("a")).expect(404)


GRACE: dict[str, tuple[dict[str, Any], dict[str, str], Any, int | None]] = {
    "placed": ({"nodeName": "node-1"}, {}, None, 30),
    "placed-own-period": ({"nodeName": "node-1", "terminationGracePeriodSeconds": 7}, {}, None, 7),
    "placed-no-period": ({"nodeName": "node-1", "terminationGracePeriodSeconds": 0}, {}, None, None),
    "placed-by-parameter": ({"nodeName": "node-1"}, {"gracePeriodSeconds": "5"}, None, 5),
    "placed-by-body": ({"nodeName": "node-1"}, {}, {"gracePeriodSeconds": 6}, 6),
    "placed-at-once": ({"nodeName": "node-1"}, {"gracePeriodSeconds": "0"}, None, None),
    "placed-at-once-by-body": ({"nodeName": "node-1"}, {}, {"gracePeriodSeconds": 0}, None),
    "waiting": ({}, {}, None, None),
    "waiting-by-parameter": ({}, {"gracePeriodSeconds": "5"}, None, None),
}


@pytest.mark.parametrize(("spec", "params", "options", "grace"), GRACE.values(), ids=GRACE)
def test_scheduled_pod_gets_grace_period(
    api: RecordingClient,
    namespace: Namespace,
    spec: dict[str, Any],
    params: dict[str, Any],
    options: Any,
    grace: int | None,
) -> None:
    """Only a pod on a node has a grace period: others are deleted at once."""
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", spec)).expect(201)
    body = {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
    deleted = api.delete(f"{pods}/a", body, **params).expect(200)
    found = api.unrecorded.get(f"{pods}/a")
    if grace is None:
        assert found.code == 404
        return
    assert found.expect(200).body["metadata"]["deletionGracePeriodSeconds"] == grace
    assert deleted.body["metadata"]["deletionGracePeriodSeconds"] == grace
    api.unrecorded.delete(f"{pods}/a", gracePeriodSeconds="0").expect(200)


def test_grace_period_can_only_shrink(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", {"nodeName": "node-1"})).expect(201)

    def grace(seconds: str) -> int:
        body = api.delete(f"{pods}/a", gracePeriodSeconds=seconds).expect(200).body
        return int(body["metadata"]["deletionGracePeriodSeconds"])

    assert [grace("20"), grace("40"), grace("10")] == [20, 20, 10]
    api.delete(f"{pods}/a", gracePeriodSeconds="0").expect(200)
    api.get(f"{pods}/a").expect(404)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pod_has_no_grace_period(api: RecordingClient, namespace: Namespace, phase: str) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", {"nodeName": "node-1"})).expect(201)
    api.unrecorded.patch(f"{pods}/a/status", {"status": {"phase": phase}}).expect(200)
    api.delete(f"{pods}/a").expect(200)
    api.get(f"{pods}/a").expect(404)


def test_terminating_pod_with_finalizer(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", {"nodeName": "node-1"}, finalizers=[HOLD])).expect(201)
    api.delete(f"{pods}/a").expect(200)
    api.delete(f"{pods}/a", gracePeriodSeconds="0").expect(200)
    held = api.get(f"{pods}/a").expect(200).body["metadata"]
    assert held["deletionGracePeriodSeconds"] == 0
    api.patch(f"{pods}/a", {"metadata": {"finalizers": []}}).expect(200)
    api.get(f"{pods}/a").expect(404)


def test_finalizer_removed_during_grace_period(api: RecordingClient, namespace: Namespace) -> None:
    """The grace period still keeps the pod."""
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", {"nodeName": "node-1"}, finalizers=[HOLD])).expect(201)
    api.delete(f"{pods}/a").expect(200)
    api.patch(f"{pods}/a", {"metadata": {"finalizers": []}}).expect(200)
    api.get(f"{pods}/a").expect(200)
    api.delete(f"{pods}/a", gracePeriodSeconds="0").expect(200)
    api.get(f"{pods}/a").expect(404)


REFUSED = 400
REFUSED_CODES = (400, 500)
"""Kubernetes answers 500 to some invalid options."""

OPTIONS: dict[str, tuple[Any, int]] = {
    "empty": ({}, 200),
    "kind": ({"kind": "DeleteOptions", "apiVersion": "v1"}, 200),
    "meta-kind": ({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}, 200),
    "another-kind": ({"kind": "ConfigMap", "apiVersion": "v1"}, REFUSED),
    "unknown-policy": ({"propagationPolicy": "Sideways"}, 422),
    "two-policies": ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
    "dry-run": ({"dryRun": ["All"]}, 200),
    "unknown-dry-run": ({"dryRun": ["Some"]}, 422),
    "wrong-type": ({"gracePeriodSeconds": "soon"}, REFUSED),
    "unknown-field": ({"kind": "DeleteOptions", "apiVersion": "v1", "nothing": 1}, 200),
}


@pytest.mark.parametrize(("options", "code"), OPTIONS.values(), ids=OPTIONS)
def test_delete_options(api: RecordingClient, namespace: Namespace, options: Any, code: int) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a"))
    answer = api.delete(f"{maps}/a", options)
    assert answer.code in (REFUSED_CODES if code == REFUSED else [code])
    is_gone = code == 200 and "dryRun" not in options
    assert api.get(f"{maps}/a").code == (404 if is_gone else 200)


def test_invalid_delete_options_are_rejected(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a"))
    assert api.delete(f"{maps}/a", b"{").code in REFUSED_CODES
    assert api.delete(f"{maps}/a", gracePeriodSeconds="soon").code in REFUSED_CODES
    api.delete(f"{maps}/a", propagationPolicy="Sideways").expect(422)
    api.get(f"{maps}/a").expect(200)


COLLECTIONS: dict[str, tuple[dict[str, str], list[str]]] = {
    "all": ({}, []),
    "labels": ({"labelSelector": "app=blue"}, ["c"]),
    "fields": ({"fieldSelector": "metadata.name!=b"}, ["b"]),
    "both": ({"labelSelector": "app=blue", "fieldSelector": "metadata.name=b"}, ["a", "c"]),
    "nothing": ({"labelSelector": "app=green"}, ["a", "b", "c"]),
    "dry-run": ({"dryRun": "All"}, ["a", "b", "c"]),
}


@pytest.mark.parametrize(("params", "left"), COLLECTIONS.values(), ids=COLLECTIONS)
def test_delete_collection(
    api: RecordingClient, namespace: Namespace, params: dict[str, Any], left: list[str]
) -> None:
    maps = namespace.path("configmaps")
    for name, app in (("a", "blue"), ("b", "blue"), ("c", "red")):
        api.unrecorded.post(maps, config_map(name, labels={"app": app}))
    api.delete(maps, **params).expect(200)
    assert api.get(maps).names == left


def test_delete_collection_of_custom_resources(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    for name, finalizers in (("a", []), ("b", [HOLD]), ("c", [])):
        api.unrecorded.post(widgets.path(), widgets.body(name, metadata={"finalizers": finalizers})).expect(
            201
        )
    api.delete(widgets.path()).expect(200)
    held = api.get(widgets.path()).expect(200)
    assert held.names == ["b"]
    assert "deletionTimestamp" in held.body["items"][0]["metadata"]
    api.patch(widgets.path("b"), {"metadata": {"finalizers": []}}).expect(200)


def test_delete_collection_of_services(api: RecordingClient, namespace: Namespace) -> None:
    services = namespace.path("services")
    api.unrecorded.post(services, service("a")).expect(201)
    api.unrecorded.post(services, service("b", clusterIP="None")).expect(201)
    assert api.delete(services).expect(200).names == ["a", "b"]
    assert api.get(services).expect(200).names == []
