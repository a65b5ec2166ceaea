"""The status subresource, and generations."""

from typing import Any

import pytest

from conformance.objects import (
    SIZED,
    Namespace,
    Widgets,
    config_map,
    definition,
    deployment,
    establish,
    job,
    pod,
    service,
    stateful_set,
    version,
)
from conformance.transcript import RecordingClient

BUILT_IN: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "pods": (pod("a"), {"phase": "Running", "podIP": "10.1.1.1"}, {"activeDeadlineSeconds": 9}),
    "jobs": (job("a"), {"active": 1}, {"parallelism": 3}),
    "deployments": (deployment("a"), {"replicas": 3}, {"replicas": 7}),
    "statefulsets": (stateful_set("a"), {"replicas": 3}, {"replicas": 7}),
    "services": (
        service("a", type="LoadBalancer"),
        {"loadBalancer": {"ingress": [{"hostname": "example.com"}]}},
        {"sessionAffinity": "ClientIP"},
    ),
}


@pytest.mark.parametrize(("plural", "row"), BUILT_IN.items(), ids=BUILT_IN)
def test_status_update_of_built_in_kinds(
    api: RecordingClient, namespace: Namespace, plural: str, row: Any
) -> None:
    body, status, spec = row
    items = namespace.path(plural)
    created = api.post(items, {**body, "status": status}).expect(201)
    assert not status.items() <= created.body["status"].items()

    changed = api.unrecorded.put(f"{items}/a", {**created.body, "status": status}).expect(200)
    assert changed.body["status"] == created.body["status"]

    both = {
        **changed.body,
        "metadata": {"name": "a", "labels": {"set": "with-status"}},
        "spec": {**created.body["spec"], **spec},
        "status": {**created.body["status"], **status},
    }
    written = api.put(f"{items}/a/status", both).expect(200)
    assert written.body["spec"] == created.body["spec"]
    assert status.items() <= written.body["status"].items()
    assert api.get(f"{items}/a/status").expect(200).body == api.get(f"{items}/a").expect(200).body


@pytest.mark.parametrize("kind", ["merge", "strategic", "json"])
def test_status_patch(api: RecordingClient, namespace: Namespace, kind: str) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a")).expect(201)
    body: Any = {"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 9}}
    if kind == "json":
        body = [
            {"op": "replace", "path": "/status/phase", "value": "Running"},
            {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 9},
        ]
    patched = api.patch(f"{pods}/a/status", body, kind).expect(200)
    assert patched.body["status"]["phase"] == "Running"
    assert "activeDeadlineSeconds" not in patched.body["spec"]
    api.patch(f"{pods}/a", {"status": {"phase": "Failed"}}, "merge").expect(200)
    assert api.get(f"{pods}/a").body["status"]["phase"] == "Running"


def test_status_update_of_older_version_conflicts(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    created = api.unrecorded.post(pods, pod("a")).expect(201)
    api.unrecorded.patch(f"{pods}/a", {"metadata": {"labels": {"moved": "on"}}}).expect(200)
    api.put(f"{pods}/a/status", created.body).expect(409)


def test_kinds_without_status_subresource(api: RecordingClient, namespace: Namespace) -> None:
    api.unrecorded.post(namespace.path("configmaps"), config_map("a"))
    api.get(namespace.path("configmaps", "a", "status")).expect(404)
    api.patch(namespace.path("configmaps", "a", "status"), {}).expect(404)
    api.get(namespace.path("pods", "missing", "status")).expect(404)
    api.patch(namespace.path("pods", "missing", "status"), {}).expect(404)


def test_custom_resource_with_status_subresource(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED, subresources={"status": {}})))
    created = api.post(widgets.path(), widgets.body("a", spec={"size": 1}, status={"phase": "Set"})).expect(
        201
    )
    assert "status" not in created.body

    both = {**created.body, "spec": {"size": 2}, "status": {"phase": "Set"}}
    changed = api.put(widgets.path("a"), both).expect(200)
    assert (changed.body["spec"], "status" in changed.body) == ({"size": 2}, False)

    labelled = {**changed.body["metadata"], "labels": {"set": "with-status"}}
    both = {**changed.body, "metadata": labelled, "spec": {"size": 3}, "status": {"phase": "Set"}}
    written = api.put(widgets.path("a", "status"), both).expect(200)
    assert (written.body["spec"], written.body["status"]) == ({"size": 2}, {"phase": "Set"})

    api.patch(widgets.path("a", "status"), {"status": {"phase": "Patched"}, "spec": {"size": 4}}).expect(200)
    api.patch(widgets.path("a"), {"status": {"phase": "Ignored"}, "spec": {"size": 5}}).expect(200)
    final = api.get(widgets.path("a", "status")).expect(200)
    assert (final.body["spec"], final.body["status"]) == ({"size": 5}, {"phase": "Patched"})
    assert [each.body["metadata"]["generation"] for each in (created, changed, written, final)] == [
        1,
        2,
        2,
        3,
    ]


def test_custom_resource_status_is_validated(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED, subresources={"status": {}})))
    api.unrecorded.post(widgets.path(), widgets.body("a")).expect(201)
    api.patch(widgets.path("a", "status"), {"status": {"phase": 5}}).expect(422)
    pruned = api.patch(widgets.path("a", "status"), {"status": {"unknown": 5}}).expect(200)
    assert pruned.body["status"] == {}


def test_custom_resource_without_status_subresource(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    created = api.post(widgets.path(), widgets.body("a", spec={"size": 1}, status={"phase": "Set"})).expect(
        201
    )
    assert created.body["status"] == {"phase": "Set"}
    changed = api.patch(widgets.path("a"), {"status": {"phase": "Changed"}}).expect(200)
    assert changed.body["metadata"]["generation"] == 2
    api.get(widgets.path("a", "status")).expect(404)
    api.patch(widgets.path("a", "status"), {"status": {"phase": "Set"}}).expect(404)


def test_generation_counts_spec_changes(api: RecordingClient, namespace: Namespace) -> None:
    deployments = namespace.path("deployments")

    def generation(body: Any, sub: str = "") -> int:
        patched = api.patch(f"{deployments}/a{sub}", body).expect(200)
        return int(patched.body["metadata"]["generation"])

    assert api.post(deployments, deployment("a")).expect(201).body["metadata"]["generation"] == 1
    assert generation({"spec": {"replicas": 3}}) == 2
    assert generation({"spec": {"replicas": 3}}) == 2
    assert generation({"metadata": {"labels": {"a": "b"}}}) == 2
    assert generation({"status": {"replicas": 3}}, "/status") == 2
    assert generation({"metadata": {"annotations": {"a": "b"}}}) == 3
    assert generation({"metadata": {"generation": 9}}) == 3
    assert generation({"spec": {"paused": True}}) == 4


def test_deletion_increases_generation(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED, subresources={"status": {}})))
    held = {"finalizers": ["example.com/hold"]}
    api.post(widgets.path(), widgets.body("a", spec={"size": 1}, metadata=held)).expect(201)
    api.patch(widgets.path("a"), {"metadata": {"labels": {"a": "b"}}}).expect(200)
    deleted = api.delete(widgets.path("a")).expect(200)
    assert deleted.body["metadata"]["generation"] == 2
    api.patch(widgets.path("a"), {"metadata": {"finalizers": []}}).expect(200)
