"""A dry run returns the response of the real request and changes nothing."""

from typing import Any

import pytest

from conformance.objects import (
    SIZED,
    Namespace,
    Widgets,
    config_map,
    definition,
    establish,
    free_address,
    pod,
    service,
    version,
)
from conformance.transcript import RecordingClient

DRY: dict[str, Any] = {"dryRun": "All"}


def test_dry_run_creates_nothing(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    imagined = api.post(maps, config_map("a", {"k": "1"}), **DRY).expect(201)
    assert imagined.body["metadata"]["name"] == "a"
    assert "uid" in imagined.body["metadata"]
    api.get(f"{maps}/a").expect(404)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    api.post(maps, made, **DRY).expect(201)
    api.post(maps, config_map("A"), **DRY).expect(422)
    api.unrecorded.post(maps, config_map("a"))
    api.post(maps, config_map("a"), **DRY).expect(409)


def test_dry_run_changes_nothing(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    created = api.unrecorded.post(maps, config_map("a", {"k": "1"}))
    put = api.put(f"{maps}/a", config_map("a", {"k": "2"}), **DRY).expect(200)
    patched = api.patch(f"{maps}/a", {"data": {"l": "3"}}, **DRY).expect(200)
    assert (put.body["data"], patched.body["data"]) == ({"k": "2"}, {"k": "1", "l": "3"})
    api.put(f"{maps}/a", config_map("a", resourceVersion="1"), **DRY).expect(409)
    assert api.get(f"{maps}/a").body == created.body


def test_dry_run_deletes_nothing(api: RecordingClient, namespace: Namespace) -> None:
    maps, pods = namespace.path("configmaps"), namespace.path("pods")
    api.unrecorded.post(maps, config_map("a"))
    api.unrecorded.post(maps, config_map("held", finalizers=["example.com/hold"]))
    api.unrecorded.post(pods, pod("a", {"nodeName": "node-1"})).expect(201)
    api.delete(f"{maps}/a", **DRY).expect(200)
    api.delete(f"{maps}/a", {"dryRun": ["All"]}).expect(200)
    api.delete(f"{maps}/held", **DRY).expect(200)
    api.delete(f"{maps}/missing", **DRY).expect(404)
    api.delete(f"{pods}/a", **DRY).expect(200)
    api.delete(maps, **DRY).expect(200)
    left = api.get(maps).expect(200)
    assert left.names == ["a", "held"]
    assert "deletionTimestamp" not in left.body["items"][1]["metadata"]
    assert "deletionTimestamp" not in api.get(f"{pods}/a").body["metadata"]
    api.unrecorded.patch(f"{maps}/held", {"metadata": {"finalizers": None}})
    api.unrecorded.delete(f"{pods}/a", gracePeriodSeconds="0")


def test_dry_run_writes_no_status(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a")).expect(201)
    patched = api.patch(f"{pods}/a/status", {"status": {"phase": "Running"}}, **DRY).expect(200)
    assert patched.body["status"]["phase"] == "Running"
    assert api.unrecorded.get(f"{pods}/a").body["status"]["phase"] == "Pending"


def test_dry_run_allocates_no_address(api: RecordingClient, namespace: Namespace) -> None:
    services = namespace.path("services")
    address = free_address(api.unrecorded, namespace)
    api.post(services, service("a", clusterIP=address), **DRY).expect(201)
    api.get(f"{services}/a").expect(404)
    api.post(services, service("a", clusterIP=address)).expect(201)
    api.delete(f"{services}/a").expect(200)


def test_dry_run_of_custom_resources(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    api.post(widgets.path(), widgets.body("a", spec={"size": 1}), **DRY).expect(201)
    api.get(widgets.path("a")).expect(404)
    api.unrecorded.post(widgets.path(), widgets.body("a", spec={"size": 1})).expect(201)
    api.patch(widgets.path("a"), {"spec": {"size": 2}}, **DRY).expect(200)
    api.delete(widgets.path("a"), **DRY).expect(200)
    assert api.get(widgets.path("a")).body["spec"] == {"size": 1}


@pytest.mark.parametrize("value", ["Some", "all", "true"])
def test_unknown_dry_run_value_is_rejected(api: RecordingClient, namespace: Namespace, value: str) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("b"))
    requests: list[Any] = [
        api.post(maps, config_map("a"), dryRun=value),
        api.put(f"{maps}/b", config_map("b", {"k": "1"}), dryRun=value),
        api.patch(f"{maps}/b", {"data": {"k": "1"}}, dryRun=value),
        api.delete(f"{maps}/b", dryRun=value),
    ]
    assert [answer.code for answer in requests] == [422] * 4
    assert api.unrecorded.get(maps).names == ["b"]
