"""Tables and PartialObjectMetadata, as kubectl requests them."""

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
    lease,
    pod,
    secret,
    service,
    stateful_set,
    version,
)
from conformance.transcript import RecordingClient

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
METADATA_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


def columns(table: Json) -> list[str]:
    return [column["name"] for column in table["columnDefinitions"]]


def cells(table: Json) -> list[dict[str, Any]]:
    names = columns(table)
    return [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]


def without_ages(table: Json) -> Json:
    """Return the table without cells that depend on the time of the request."""
    moving = [
        index
        for index, name in enumerate(columns(table))
        if name in ("Age", "Duration", "First Seen", "Last Seen")
    ]
    return {
        **table,
        "rows": [
            {
                **row,
                "cells": ["<age>" if index in moving else cell for index, cell in enumerate(row["cells"])],
            }
            for row in table["rows"]
        ],
    }


CONTAINERS = [
    {"name": "one", "ready": True, "restartCount": 2, "image": "", "imageID": "", "state": {"running": {}}},
    {"name": "two", "ready": False, "restartCount": 1, "image": "", "imageID": "",
     "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
]  # fmt: skip
ENDED = [{"name": "one", "ready": False, "restartCount": 0, "image": "", "imageID": "",
          "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]  # fmt: skip
SIGNALLED = [{"name": "one", "ready": False, "restartCount": 0, "image": "", "imageID": "",
              "state": {"terminated": {"exitCode": 137, "signal": 9}}}]  # fmt: skip

POD_STATUSES: dict[str, tuple[Any, str, str]] = {
    "pending": ({}, "0/1", "Pending"),
    "waiting": ({"containerStatuses": CONTAINERS}, "1/1", "CrashLoopBackOff"),
    "running": (
        {"phase": "Running", "podIP": "10.1.1.1", "containerStatuses": CONTAINERS[:1]},
        "1/1",
        "Running",
    ),
    "succeeded": ({"phase": "Succeeded"}, "0/1", "Succeeded"),
    "failed": ({"phase": "Failed", "containerStatuses": ENDED}, "0/1", "Error"),
    "signalled": ({"phase": "Failed", "containerStatuses": SIGNALLED}, "0/1", "Signal:9"),
    "evicted": ({"phase": "Failed", "reason": "Evicted"}, "0/1", "Evicted"),
}


@pytest.mark.parametrize(("status", "ready", "shown"), POD_STATUSES.values(), ids=POD_STATUSES)
def test_pod_table(api: RecordingClient, namespace: Namespace, status: Any, ready: str, shown: str) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a")).expect(201)
    api.unrecorded.patch(f"{pods}/a/status", {"status": status}).expect(200)
    table = api.unrecorded.get(pods, TABLE).expect(200).body
    api.note("table", without_ages(table))
    assert columns(table) == [
        "Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates",
    ]  # fmt: skip
    row = cells(table)[0]
    assert (row["Name"], row["Ready"], row["Status"]) == ("a", ready, shown)


def test_table_of_terminating_pod(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", {"nodeName": "node-1"})).expect(201)
    api.unrecorded.delete(f"{pods}/a").expect(200)
    table = api.unrecorded.get(f"{pods}/a", TABLE).expect(200).body
    assert (cells(table)[0]["Status"], cells(table)[0]["Node"]) == ("Terminating", "node-1")
    api.note("table", without_ages(table))
    api.unrecorded.delete(f"{pods}/a", gracePeriodSeconds="0")


def test_table_of_initializing_pods(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    first = [{"name": "first", "image": "windlass/test:1"}]
    api.unrecorded.post(pods, pod("a", {"initContainers": first})).expect(201)
    waiting = {"name": "first", "ready": False, "restartCount": 0, "image": "", "imageID": "",
               "state": {"running": {}}}  # fmt: skip
    api.unrecorded.patch(f"{pods}/a/status", {"status": {"initContainerStatuses": [waiting]}}).expect(200)
    assert cells(api.unrecorded.get(pods, TABLE).body)[0]["Status"] == "Init:0/1"


BUILT_IN: dict[str, Json] = {
    "configmaps": config_map("a", {"k": "1", "l": "2"}),
    "secrets": secret("a", stringData={"k": "1"}),
    "services": service("a", clusterIP="None"),
    "deployments": deployment("a", replicas=3),
    "statefulsets": stateful_set("a"),
    "jobs": job("a", completions=2),
    "leases": lease("a", holderIdentity="me"),
    "serviceaccounts": {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}},
    "endpoints": {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "a"},
        "subsets": [{"addresses": [{"ip": "10.1.1.1"}, {"ip": "10.1.1.2"}], "ports": [{"port": 80}]}],
    },
    "roles": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}},
    "rolebindings": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "x"}],
    },
}


@pytest.mark.parametrize(("plural", "body"), BUILT_IN.items(), ids=BUILT_IN)
def test_table_of_other_kinds(api: RecordingClient, namespace: Namespace, plural: str, body: Json) -> None:
    items = namespace.path(plural)
    api.unrecorded.post(items, body).expect(201)
    table = api.unrecorded.get(items, TABLE, includeObject="None").expect(200).body
    assert (table["apiVersion"], table["kind"]) == ("meta.k8s.io/v1", "Table")
    api.note("table", without_ages(table))


def test_namespace_table(api: RecordingClient, namespace: Namespace) -> None:
    table = api.unrecorded.get(f"/api/v1/namespaces/{namespace.name}", TABLE).expect(200).body
    api.note("table", without_ages(table))
    assert cells(table)[0]["Status"] == "Active"


@pytest.mark.parametrize("included", ["None", "Metadata", "Object"])
def test_include_object_adds_object_to_row(api: RecordingClient, namespace: Namespace, included: str) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a", {"k": "1"}))
    table = api.unrecorded.get(maps, TABLE, includeObject=included).expect(200).body
    api.note("table", without_ages(table))
    assert ("object" in table["rows"][0] and table["rows"][0]["object"] is not None) is (included != "None")


def test_unknown_include_object_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    api.get(namespace.path("configmaps"), TABLE, includeObject="Everything").expect(400)


def test_table_of_empty_list(api: RecordingClient, namespace: Namespace) -> None:
    assert api.get(namespace.path("configmaps"), TABLE).expect(200).body["rows"] == []


def test_table_with_limit_returns_pages(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    for name in ("a", "b"):
        api.unrecorded.post(maps, config_map(name))
    table = api.unrecorded.get(maps, TABLE, limit="1").expect(200).body
    api.note("table", without_ages(table))
    assert table["metadata"]["remainingItemCount"] == 1


def test_missing_object_returns_status_not_table(api: RecordingClient, namespace: Namespace) -> None:
    api.get(namespace.path("configmaps", "missing"), TABLE).expect(404)


@pytest.mark.parametrize("form", ["Other", "Table;v=v2"], ids=["form", "version"])
def test_unsupported_accept_header_is_rejected(api: RecordingClient, namespace: Namespace, form: str) -> None:
    accept = {"Accept": f"application/json;as={form};g=meta.k8s.io"}
    api.get(namespace.path("configmaps"), accept).expect(406)


def test_first_supported_accept_clause_is_used(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    for accept in (
        "application/vnd.example, application/json",
        "application/json;as=Table;v=v9;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io",
        "*/*",
        "text/html,application/json;q=0.9,*/*;q=0.8",
    ):
        api.get(maps, {"Accept": accept}).expect(200)
    api.get(maps, {"Accept": "text/html"}).expect(406)


def test_watch_as_table(api: RecordingClient, namespace: Namespace) -> None:
    """Only the first event has column definitions."""
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a"))
    with api.unrecorded.watch(maps, TABLE) as watch:
        first = watch.next()
        api.unrecorded.patch(f"{maps}/a", {"data": {"k": "1"}})
        second = watch.next()
    assert [first["type"], second["type"]] == ["ADDED", "MODIFIED"]
    assert columns(first["object"]) == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:2] == ["a", 1]
    api.note("first", without_ages(first["object"]))


PRINTED: Json = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {
        "name": "Colour",
        "type": "string",
        "jsonPath": ".spec.colour",
        "description": "What it looks like",
        "priority": 1,
    },
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Ready", "type": "boolean", "jsonPath": ".spec.ready"},
    {"name": "First", "type": "string", "jsonPath": ".spec.list[0].name"},
    {"name": "Chosen", "type": "string", "jsonPath": '.spec.list[?(@.name=="b")].value'},
    {"name": "All", "type": "string", "jsonPath": ".spec.list[*].name"},
    {"name": "Label", "type": "string", "jsonPath": ".metadata.labels.example\\.com/team"},
    {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio"},
    {"name": "Whole", "type": "string", "jsonPath": ".spec.map"},
    {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
]
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_additional_printer_columns(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(FREE, additionalPrinterColumns=PRINTED)))
    spec = {
        "size": 3,
        "colour": "red",
        "ready": True,
        "ratio": 0.5,
        "list": [{"name": "a", "value": "x"}, {"name": "b", "value": "y"}],
        "map": {"k": 1},
    }
    labels = {"labels": {"example.com/team": "one"}}
    full = widgets.body("full", spec=spec, status={"phase": "Running"}, metadata=labels)
    api.unrecorded.post(widgets.path(), full).expect(201)
    api.unrecorded.post(widgets.path(), widgets.body("bare")).expect(201)
    api.unrecorded.post(widgets.path(), widgets.body("odd", spec={"size": "three", "ready": "yes"})).expect(
        201
    )
    table = api.unrecorded.get(widgets.path(), TABLE).expect(200).body
    api.note("table", without_ages(table))
    assert columns(table) == ["Name", *(column["name"] for column in PRINTED)]
    assert table["columnDefinitions"][2]["description"] == "What it looks like"
    row = next(row for row in cells(table) if row["Name"] == "full")
    assert {name: row[name] for name in ("Size", "Phase", "First", "Chosen", "Label")} == {
        "Size": 3, "Phase": "Running", "First": "a", "Chosen": "y", "Label": "one",
    }  # fmt: skip


def test_custom_resource_without_columns_shows_age(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    api.unrecorded.post(widgets.path(), widgets.body("a")).expect(201)
    table = api.unrecorded.get(widgets.path(), TABLE).expect(200).body
    api.note("table", without_ages(table))
    assert columns(table) == ["Name", "Age"]


def test_definition_table(api: RecordingClient, widgets: Widgets) -> None:
    shapes = [
        version(SIZED),
        version(SIZED, name="v2", storage=False),
        version(SIZED, name="v3", storage=False),
    ]
    shapes[2]["served"] = False
    establish(api.unrecorded, definition(widgets.group, *shapes))
    table = api.unrecorded.get(widgets.definition, TABLE).expect(200).body
    for row in table["rows"]:
        row["object"] = None  # the metadata of a definition changes until it is established
    api.note("table", {**table, "metadata": None})
    assert "Name" in columns(table)


def test_partial_object_metadata(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a", {"k": "1"}, labels={"app": "blue"}))
    one = api.get(f"{maps}/a", METADATA).expect(200).body
    assert (one["kind"], "data" in one, one["metadata"]["labels"]) == (
        "PartialObjectMetadata", False, {"app": "blue"},
    )  # fmt: skip
    several = api.get(maps, METADATA_LIST).expect(200).body
    assert (several["kind"], several["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert "data" not in several["items"][0]
    api.patch(f"{maps}/a", {"data": {"k": "2"}}, headers=METADATA).expect(200)


def test_watch_as_partial_object_metadata(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a", {"k": "1"}))
    with api.watch(maps, METADATA) as watch:
        event = watch.next()
        api.delete(f"{maps}/a")
        assert watch.next()["type"] == "DELETED"
    assert (event["object"]["kind"], "data" in event["object"]) == ("PartialObjectMetadata", False)


def test_partial_object_metadata_of_custom_resources(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    api.unrecorded.post(widgets.path(), widgets.body("a", spec={"size": 1})).expect(201)
    assert "spec" not in api.get(widgets.path("a"), METADATA).expect(200).body
    assert "spec" not in api.get(widgets.path(), METADATA_LIST).expect(200).body["items"][0]
