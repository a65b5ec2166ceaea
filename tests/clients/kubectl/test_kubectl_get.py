"""`kubectl get` in all its output forms, with selectors, and as a watch; `describe`; and what the server says it has."""

import json
from typing import Any

import pytest
import yaml

from conformance import objects
from tests.clients.kubectl import things
from tests.clients.kubectl.runs import Kubectl

pytestmark = pytest.mark.kubernetes


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> str:
    return json.dumps(objects.config_map(name, data, **metadata))


def create_config_maps(kubectl: Kubectl) -> None:
    for name, labels in [("a", {"tier": "1"}), ("b", {"tier": "2"}), ("c", {})]:
        kubectl("create", "-f", "-", stdin=config_map(name, {"key": name}, labels=labels))


# What there is


def test_version(kubectl: Kubectl) -> None:
    found = kubectl.json("version")
    served = found["serverVersion"]
    assert served["gitVersion"].startswith(f"v{served['major']}.{served['minor'].rstrip('+')}.")
    assert found["clientVersion"]["gitVersion"].startswith(f"v{kubectl.version}.")


def test_api_versions(kubectl: Kubectl) -> None:
    expected = {"v1", "apps/v1", "batch/v1", "coordination.k8s.io/v1", "apiextensions.k8s.io/v1", things.WIDGETS}
    assert expected <= set(kubectl("api-versions").splitlines())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--namespaced=true"], {"pods", "configmaps", "leases.coordination.k8s.io", "jobs.batch"}),
        (["--namespaced=false"], {"nodes", "namespaces", "customresourcedefinitions.apiextensions.k8s.io"}),
        (["--api-group=apps"], {"deployments.apps", "statefulsets.apps"}),
        (["--verbs=deletecollection"], {"pods", "widgets.clients.example.com"}),
    ],
)
def test_api_resources(kubectl: Kubectl, options: list[str], expected: set[str]) -> None:
    assert expected <= set(kubectl("api-resources", "-o", "name", *options).splitlines())


# Output forms


def test_a_table_and_a_wide_one(kubectl: Kubectl) -> None:
    things.create(kubectl)
    header, web, worker = kubectl.rows("get", "pods")
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert (web[:4], worker[:4]) == (["web-0", "1/1", "Running", "2"], ["worker-0", "0/2", "Pending", "0"])
    wide = kubectl.rows("get", "pods", "web-0", "-o", "wide")[1]
    assert wide[5:] == ["127.0.0.9", "<none>", "<none>", "<none>"]
    assert kubectl("get", "pods", "--no-headers", "-o", "name") == "pod/web-0\npod/worker-0"


def test_everything_at_once(kubectl: Kubectl) -> None:
    things.create(kubectl)
    names = kubectl("get", "all", "-o", "name").splitlines()
    assert names == [
        "pod/web-0",
        "pod/worker-0",
        "service/peers",
        "service/web",
        "deployment.apps/web",
        "statefulset.apps/store",
        "job.batch/once",
        "widget.clients.example.com/small",
    ]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_an_object_as_it_is_can_be_sent_back(kubectl: Kubectl, form: str) -> None:
    kubectl("create", "-f", "-", stdin=config_map("m", {"text": "two\nlines: ü"}))
    printed = kubectl("get", "configmap", "m", "-o", form)
    assert yaml.safe_load(printed)["data"] == {"text": "two\nlines: ü"}
    assert kubectl("replace", "-f", "-", stdin=printed) == "configmap/m replaced"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("name", "configmap/a\nconfigmap/b\nconfigmap/c"),
        ("jsonpath={.items[*].data.key}", "a b c"),
        ('jsonpath={range .items[?(@.metadata.labels.tier)]}{.metadata.name}{"\\n"}{end}', "a\nb"),
        ("custom-columns=WHO:.metadata.name,TIER:.metadata.labels.tier", "WHO TIER\na 1\nb 2\nc <none>"),
        ("go-template={{range .items}}{{.data.key}};{{end}}", "a;b;c;"),
    ],
)
def test_an_output_form(kubectl: Kubectl, form: str, expected: str) -> None:
    create_config_maps(kubectl)
    # A cluster puts a ConfigMap of its own into each namespace: it is not meant.
    printed = kubectl("get", "configmaps", "a", "b", "c", "-o", form)
    assert "\n".join(" ".join(line.split()) for line in printed.splitlines()) == expected


def test_sorted(kubectl: Kubectl) -> None:
    for name, size in [("a", "2"), ("b", "1")]:
        kubectl("create", "-f", "-", stdin=config_map(name, {"size": size}))
    assert kubectl("get", "cm", "-o", "name", "--sort-by={.data.size}") == "configmap/b\nconfigmap/a"


# Selectors


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-l", "tier=1"], ["a"]),
        (["-l", "tier"], ["a", "b"]),
        (["-l", "tier notin (1)"], ["b", "c"]),
        (["--selector", "tier,tier!=2"], ["a"]),
        (["--field-selector", "metadata.name=c"], ["c"]),
        (["-l", "tier", "--field-selector", "metadata.name!=a"], ["b"]),
    ],
    ids=" ".join,
)
def test_selectors(kubectl: Kubectl, options: list[str], expected: list[str]) -> None:
    create_config_maps(kubectl)
    found = kubectl("get", "configmaps", "-o", "name", *options).splitlines()
    assert found == [f"configmap/{name}" for name in expected]


def test_pods_by_phase(kubectl: Kubectl) -> None:
    things.create(kubectl)
    assert kubectl("get", "po", "-o", "name", "--field-selector=status.phase=Running") == "pod/web-0"
    complaint = kubectl.refused("get", "po", "--field-selector=spec.nosuch=1")
    assert "field label not supported: spec.nosuch" in complaint


def test_all_namespaces_and_large_lists_in_pages(kubectl: Kubectl) -> None:
    create_config_maps(kubectl)
    listed = kubectl("get", "configmaps", "-A", "--chunk-size=1", "--no-headers")
    mine = [line.split()[:2] for line in listed.splitlines() if line.startswith(kubectl.namespace)]
    assert mine == [[kubectl.namespace, name] for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["get", "pod", "nosuch"], 'Error from server (NotFound): pods "nosuch" not found'),
        (["get", "nosuch"], 'error: the server doesn\'t have a resource type "nosuch"'),
        (["get", "widget", "nosuch"], 'Error from server (NotFound): widgets.clients.example.com "nosuch" not found'),
    ],
    ids=["object", "kind", "custom"],
)  # fmt: skip
def test_what_there_is_not(kubectl: Kubectl, arguments: list[str], complaint: str) -> None:
    assert kubectl.refused(*arguments) == complaint


def test_nothing_there(kubectl: Kubectl) -> None:
    outcome = kubectl.run("get", "pods")
    assert (outcome.code, outcome.output) == (0, "")
    assert outcome.errors == f"No resources found in {kubectl.namespace} namespace.\n"


# Watches


def test_a_watch_shows_each_change(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(objects.pod("p")))
    with kubectl.running("get", "pods", "-w", "--output-watch-events") as watching:
        watching.until_it_says("ADDED")
        things.write_status(kubectl, "pods", "p", {"phase": "Running"})
        watching.until_it_says("MODIFIED")
        kubectl("delete", "pod", "p", "--grace-period=0", "--force")
        shown = watching.until_it_says("DELETED")
    header, *rows = (line.split() for line in shown.splitlines())
    assert header == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    seen = [(row[0], row[1], row[3]) for row in rows]
    assert seen[:2] == [("ADDED", "p", "Pending"), ("MODIFIED", "p", "Running")]
    assert seen[-1][:2] == ("DELETED", "p")


def test_a_watch_for_changes_only(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config_map("old", labels={"seen": "yes"}))
    options = ["--watch-only", "-o", "name", "-l", "seen", "-v=6"]
    with kubectl.running("get", "configmaps", *options) as watching:
        watching.until_it_says("watch=true")
        kubectl("create", "-f", "-", stdin=config_map("unseen"))
        kubectl("create", "-f", "-", stdin=config_map("new", labels={"seen": "yes"}))
        assert watching.until_it_says("configmap/new").splitlines() == ["configmap/new"]


# Descriptions


def described(kubectl: Kubectl, *arguments: str) -> dict[str, str]:
    """The fields at the left margin, and the rest of their lines."""
    lines = kubectl("describe", *arguments).splitlines()
    fields = (line.partition(":") for line in lines if line[:1].isalpha())
    return {name: value.strip() for name, _, value in fields}


def test_a_pod_is_described_with_its_events(kubectl: Kubectl) -> None:
    things.create(kubectl)
    fields = described(kubectl, "pod", "web-0")
    assert (fields["Status"], fields["IP"], fields["QoS Class"]) == ("Running", "127.0.0.9", "Burstable")
    text = kubectl("describe", "pod", "web-0")
    assert "ROLE:  web" in text
    assert "(v1:metadata.name)" in text
    assert text.splitlines()[-1].split()[:2] == ["Normal", "Started"]
    assert text.endswith("Started container main")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (["service", "web"], {"Selector": "app=web", "Type": "ClusterIP", "TargetPort": "http/TCP"}),
        (["deployment", "web"], {"Replicas": "2 desired | 2 updated | 2 total | 1 available | 1 unavailable"}),
        (["statefulset", "store"], {"Replicas": "1 desired | 0 total"}),
        (["job", "once"], {"Completions": "2", "Backoff Limit": "6"}),
        (["configmap", "settings"], {"Labels": "app=web", "colour": "", "red": ""}),
        (["secret", "password"], {"Type": "Opaque", "password": "7 bytes"}),
        (["widget", "small"], {"Kind": "Widget", "API Version": things.WIDGETS}),
        (["lease", "leader"], {"Kind": "Lease"}),
        (["pvc", "data"], {"Status": "Pending", "Used By": "<none>"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_kind_is_described(kubectl: Kubectl, what: list[str], expected: dict[str, str]) -> None:
    things.create(kubectl)
    fields = described(kubectl, *what)
    assert {name: fields.get(name) for name in expected} == expected
    assert (fields["Name"], fields["Namespace"]) == (what[1], kubectl.namespace)


def test_a_custom_resource_is_described_with_its_events(kubectl: Kubectl) -> None:
    things.create(kubectl)
    text = kubectl("describe", "widget", "small")
    assert "  Size:    3\n" in text
    assert text.splitlines()[-1].split() == ["Normal", "Made", "<unknown>", "tests", "It", "was", "made"] or (
        text.endswith("It was made")
    )


def test_a_node_and_a_namespace_are_described(kubectl: Kubectl) -> None:
    name = f"node-of-{kubectl.namespace}"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"disk": "fast"}}}
    try:
        kubectl("create", "-f", "-", stdin=json.dumps(node))
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": {"cpu": "2", "memory": "4Gi"}, "conditions": [ready]}
        kubectl.server.api.patch(f"/api/v1/nodes/{name}/status", {"status": status}).expect(200)
        assert kubectl.rows("get", "node", name)[1][:2] == [name, "Ready"]
        assert described(kubectl, "node", name)["Labels"] == "disk=fast"
        assert "memory:  4Gi" in kubectl("describe", "node", name)
    finally:
        kubectl.server.api.delete(f"/api/v1/nodes/{name}")
    assert described(kubectl, "namespace", kubectl.namespace)["Status"] == "Active"
