"""Discovery documents. The expected ones are those of a real kube-apiserver."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import kubernetes_binaries
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import discovery
from windlass.localcluster.apiserver.schemas import structural
from windlass.localcluster.apiserver.strategy import Strategy

TRANSCRIPTS = Path(__file__).parents[3] / "cluster" / "transcripts"
ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
CUSTOM_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
OBJECT_VERBS = ["get", "patch", "update"]


def kind(group: str, version: str, name: str, plural: str, **more: Any) -> Kind:
    described: dict[str, Any] = {"namespaced": True, "type_name": f"V1{name}"} | more
    return Kind(
        group=group,
        version=version,
        kind=name,
        plural=plural,
        singular=name.lower(),
        list_kind=f"{name}List",
        schema=structural.StructuralSchema({}),
        strategy=Strategy(),
        **described,
    )


def widget(version: str, **more: Any) -> Kind:
    names = {"type_name": "", "short_names": ("wd",), "categories": ("all",)}
    return kind("example.com", version, "Widget", "widgets", **names, **more)


POD = kind(
    "",
    "v1",
    "Pod",
    "pods",
    short_names=("po",),
    categories=("all",),
    subresources=("status", "log", "exec", "attach", "portforward", "eviction", "binding"),
)
KINDS = [
    widget("v1alpha1"),
    widget("v1", subresources=("scale", "status")),
    widget("v1beta1"),
    kind("batch", "v1", "Job", "jobs", categories=("all",), subresources=("status",)),
    POD,
    kind("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
    kind("", "v1", "Namespace", "namespaces", namespaced=False, subresources=("status", "finalize")),
    kind(
        "apps", "v1", "Deployment", "deployments", short_names=("deploy",), subresources=("status", "scale")
    ),
    kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
    ),
]


def resource(group: str, version: str, name: str) -> Any:
    document = discovery.resources(KINDS, group, version)
    assert document is not None
    (found,) = [each for each in document["resources"] if each["name"] == name]
    return found


def test_core_versions_name_the_server() -> None:
    assert discovery.core_versions("127.0.0.1:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }


def test_group_order_is_that_of_kubernetes_without_core() -> None:
    document = discovery.group_list(KINDS)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupList", "v1")
    names = [group["name"] for group in document["groups"]]
    assert names == ["apps", "batch", "apiextensions.k8s.io", "example.com"]


def test_most_stable_version_is_preferred() -> None:
    assert discovery.group(KINDS, "example.com") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "example.com",
        "versions": [
            {"groupVersion": "example.com/v1", "version": "v1"},
            {"groupVersion": "example.com/v1beta1", "version": "v1beta1"},
            {"groupVersion": "example.com/v1alpha1", "version": "v1alpha1"},
        ],
        "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
    }


@pytest.mark.parametrize("name", ["", "nothing.example.com"])
def test_unknown_group(name: str) -> None:
    assert discovery.group(KINDS, name) is None


@pytest.mark.parametrize(("group", "version"), [("apps", "v2"), ("nothing.example.com", "v1"), ("", "v2")])
def test_unknown_version(group: str, version: str) -> None:
    assert discovery.resources(KINDS, group, version) is None


@pytest.mark.parametrize(
    ("versions", "ordered"),
    [
        (["v1alpha1", "v1beta1", "v1"], ["v1", "v1beta1", "v1alpha1"]),
        (["v1", "v2", "v10"], ["v10", "v2", "v1"]),
        (["v1beta1", "v1beta2", "v2alpha1", "v3beta1"], ["v3beta1", "v1beta2", "v1beta1", "v2alpha1"]),
        (["foo1", "foo10", "v1alpha1"], ["v1alpha1", "foo1", "foo10"]),
        (["v1beta", "v1alpha1"], ["v1alpha1", "v1beta"]),
    ],
)
def test_versions_in_order(versions: list[str], ordered: list[str]) -> None:
    assert discovery.versions_in_order([widget(version) for version in versions], "example.com") == ordered


def test_the_core_resource_list_has_no_api_version() -> None:
    document = discovery.resources(KINDS, "", "v1")
    assert document is not None
    assert {key: value for key, value in document.items() if key != "resources"} == {
        "kind": "APIResourceList",
        "groupVersion": "v1",
    }
    assert [each["name"] for each in document["resources"]] == [
        "configmaps",
        "namespaces",
        "namespaces/finalize",
        "namespaces/status",
        "pods",
        "pods/attach",
        "pods/binding",
        "pods/eviction",
        "pods/exec",
        "pods/log",
        "pods/portforward",
        "pods/status",
    ]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (
            "",
            {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ALL_VERBS,
                "shortNames": ["po"],
                "categories": ["all"],
                "storageVersionHash": "xPOwRZ+Yhw8=",
            },
        ),
        (
            "",
            {
                "name": "namespaces",
                "singularName": "namespace",
                "namespaced": False,
                "kind": "Namespace",
                "verbs": [verb for verb in ALL_VERBS if verb != "deletecollection"],
                "storageVersionHash": "Q3oi5N2YM8M=",
            },
        ),
        (
            "example.com",
            {
                "name": "widgets",
                "singularName": "widget",
                "namespaced": True,
                "kind": "Widget",
                "verbs": CUSTOM_VERBS,
                "shortNames": ["wd"],
                "categories": ["all"],
            },
        ),
    ],
)
def test_resources(group: str, expected: dict[str, Any]) -> None:
    assert resource(group, "v1", expected["name"]) == expected


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        ("", "pods/status", {"kind": "Pod", "verbs": OBJECT_VERBS}),
        ("", "pods/log", {"kind": "Pod", "verbs": ["get"]}),
        ("", "pods/exec", {"kind": "PodExecOptions", "verbs": ["create", "get"]}),
        ("", "pods/attach", {"kind": "PodAttachOptions", "verbs": ["create", "get"]}),
        ("", "pods/portforward", {"kind": "PodPortForwardOptions", "verbs": ["create", "get"]}),
        ("", "pods/binding", {"kind": "Binding", "verbs": ["create"]}),
        ("", "pods/eviction", {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]}),
        (
            "apps",
            "deployments/scale",
            {"kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": OBJECT_VERBS},
        ),
        (
            "example.com",
            "widgets/scale",
            {"kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": OBJECT_VERBS},
        ),
    ],
)
def test_subresources(group: str, name: str, expected: dict[str, Any]) -> None:
    assert resource(group, "v1", name) == {"name": name, "singularName": "", "namespaced": True} | expected


def test_custom_kind_lists_status_before_scale() -> None:
    document = discovery.resources(KINDS, "example.com", "v1")
    assert document is not None
    assert document["apiVersion"] == "v1"
    assert [each["name"] for each in document["resources"]] == ["widgets", "widgets/status", "widgets/scale"]


def test_version_is_that_of_the_transcripts() -> None:
    recorded = (TRANSCRIPTS / "VERSION").read_text(encoding="utf-8").strip()
    version = discovery.version()
    assert recorded == f"v{discovery.KUBERNETES_VERSION}" == f"v{kubernetes_binaries.VERSION}"
    assert version["gitVersion"] == f"{recorded}+windlass"
    assert f"v{version['major']}.{version['minor']}." in recorded
    assert all(isinstance(value, str) for value in version.values())


def test_minor_version_is_that_of_the_types() -> None:
    data = resources.files("windlass.k8s").joinpath("types.json").read_bytes()
    assert json.loads(data)["kubernetes"].split(".")[0] == discovery.version()["minor"]


def test_aggregated_core() -> None:
    document = discovery.aggregated([POD], is_core=True, version="v2")
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (group,) = document["items"]
    assert group["metadata"] == {}
    (version,) = group["versions"]
    (pods,) = version.pop("resources")
    assert version == {"version": "v1", "freshness": "Current"}
    assert pods["subresources"][3] == {
        "subresource": "exec",
        "responseKind": {"group": "", "version": "v1", "kind": "PodExecOptions"},
        "verbs": ["create", "get"],
    }
    del pods["subresources"]
    assert pods == {
        "resource": "pods",
        "responseKind": {"group": "", "version": "v1", "kind": "Pod"},
        "scope": "Namespaced",
        "singularResource": "pod",
        "verbs": ALL_VERBS,
        "shortNames": ["po"],
        "categories": ["all"],
    }


def test_aggregated_and_plain_groups_have_same_content() -> None:
    document = discovery.aggregated(KINDS, is_core=False, version="v2beta1")
    assert document["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    found = [
        (group["metadata"]["name"], version["version"], each["resource"], each["verbs"])
        for group in document["items"]
        for version in group["versions"]
        for each in version["resources"]
    ]
    plain = [
        (group["name"], version["version"], each["name"], each["verbs"])
        for group in discovery.group_list(KINDS)["groups"]
        for version in group["versions"]
        for each in (discovery.resources(KINDS, group["name"], version["version"]) or {})["resources"]
        if "/" not in each["name"]
    ]
    assert found == plain
    assert ("example.com", "v1beta1", "widgets", CUSTOM_VERBS) in found


V2 = discovery.aggregated_content_type("v2")
V2BETA1 = discovery.aggregated_content_type("v2beta1")


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", None),
        ("*/*", None),
        ("application/json", None),
        ("application/json, */*", None),
        (f"{V2},{V2BETA1},application/json", "v2"),
        (f"{V2BETA1},application/json", "v2beta1"),
        ("application/json;as=APIGroupDiscoveryList; v=v2 ;g=apidiscovery.k8s.io", "v2"),
        (f"application/json,{V2}", None),
        (f"application/json;q=0.5,{V2}", "v2"),
        (f"{V2};q=0.1,{V2BETA1};q=0.9", "v2beta1"),
        (f"{V2};q=?,{V2BETA1}", "v2beta1"),
        (V2.replace("v=v2", "v=v3") + f",{V2BETA1}", "v2beta1"),
        (V2.replace("application/json", "application/vnd.kubernetes.protobuf") + ",application/json", None),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", None),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", None),
    ],
)
def test_aggregated_version_from_accept_header(accept: str, wanted: str | None) -> None:
    assert discovery.aggregated_version(accept) == wanted
