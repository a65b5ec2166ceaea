"""`kubectl describe` of each kind with its events, and `kubectl explain`."""

import json

import pytest
from tests.clients.kubectl import sample_objects
from tests.clients.kubectl.runs import Kubectl

pytestmark = pytest.mark.kubernetes


def fields_of(text: str) -> dict[str, str]:
    """Return the keys at the left margin with the rest of their lines."""
    parts = (line.partition(":") for line in text.splitlines() if line[:1].isalpha())
    return {name: value.strip() for name, _, value in parts}


def test_describe_pod_with_events(populated: Kubectl) -> None:
    text = populated("describe", "pod", "web-0")
    fields = fields_of(text)
    assert (fields["Status"], fields["IP"], fields["QoS Class"]) == ("Running", "127.0.0.9", "Burstable")
    words = " ".join(text.split())
    assert "Environment: ROLE: web POD: web-0 (v1:metadata.name)" in words
    assert "/settings from settings (ro)" in words
    assert "Restart Count: 2" in words
    assert words.endswith("tests Started container main")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (["service", "web"], {"Selector": "app=web", "Type": "ClusterIP", "TargetPort": "http/TCP"}),
        (
            ["deployment", "web"],
            {"Replicas": "2 desired | 2 updated | 2 total | 1 available | 1 unavailable"},
        ),
        (["statefulset", "store"], {"Replicas": "1 desired | 0 total"}),
        (["job", "once"], {"Completions": "2", "Parallelism": "1"}),
        (["configmap", "settings"], {"Labels": "app=web", "colour": ""}),
        (["secret", "password"], {"Type": "Opaque", "password": "7 bytes"}),
        (["serviceaccount", "robot"], {"Image pull secrets": "<none>"}),
        (["widget", "small"], {"Kind": "Widget", "API Version": sample_objects.WIDGETS}),
        (["lease", "leader"], {"Kind": "Lease", "API Version": "coordination.k8s.io/v1"}),
        (["pvc", "data"], {"Used By": "<none>"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_describe_each_kind(populated: Kubectl, what: list[str], expected: dict[str, str]) -> None:
    fields = fields_of(populated("describe", *what))
    assert {name: fields.get(name) for name in expected} == expected
    assert (fields["Name"], fields["Namespace"]) == (what[1], populated.namespace)


def test_describe_custom_resource_with_events(populated: Kubectl) -> None:
    words = " ".join(populated("describe", "widget", "small").split())
    assert "Spec: Colour: grey Parts: Name: a Size: 3 Status: Phase: Made Events:" in words
    assert words.endswith("tests It was made")


def test_describe_node_and_namespace(kubectl: Kubectl) -> None:
    name = f"node-of-{kubectl.namespace}"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"disk": "fast"}}}
    try:
        kubectl("create", "-f", "-", stdin=json.dumps(node))
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": {"cpu": "2", "memory": "4Gi"}, "conditions": [ready]}
        kubectl.server.api.patch(f"/api/v1/nodes/{name}/status", {"status": status}).expect(200)
        assert kubectl.rows("get", "node", name)[1][:2] == [name, "Ready"]
        text = kubectl("describe", "node", name)
        assert fields_of(text)["Labels"] == "disk=fast"
        assert "Capacity: cpu: 2 memory: 4Gi" in " ".join(text.split())
    finally:
        kubectl.server.api.delete(f"/api/v1/nodes/{name}")
    assert fields_of(kubectl("describe", "namespace", kubectl.namespace))["Status"] == "Active"


# Explanations


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("pods", ["KIND: Pod", "VERSION: v1", "spec <", "status <"]),
        ("pod.spec.containers", ["containers <[]", "image <string>", "name <string> -required-", "env <[]"]),
        ("pod.spec.containers.resources.limits", ["limits <map[string]"]),
        ("deployment.spec.replicas", ["replicas <integer>"]),
        ("job.spec.template.metadata.labels", ["labels <map[string]string>"]),
        ("lease.spec", ["holderIdentity <string>", "renewTime <string>"]),
        ("crd.spec.versions", ["schema <", "served <boolean> -required-"]),
        ("widget", ["KIND: Widget", "A thing of a size.", "spec <Object>"]),
        ("widget.spec", ["What it is to be.", "size <integer> -required-", "How big it is.", "parts <[]Object>"]),
        ("widget.spec.size", ["size <integer>", "How big it is."]),
        ("widget.spec.parts.name", ["name <string>"]),
    ],
)  # fmt: skip
def test_explain_field(populated: Kubectl, what: str, expected: list[str]) -> None:
    text = " ".join(populated("explain", what).split())
    assert [part for part in expected if part not in text] == [], text


def test_explain_recursive(populated: Kubectl) -> None:
    lines = [line.strip() for line in populated("explain", "widget.spec", "--recursive").splitlines()]
    fields = [tuple(line.split()[:2]) for line in lines if "\t" in line]
    assert fields == [
        ("colour", "<string>"),
        ("parts", "<[]Object>"),
        ("name", "<string>"),
        ("replicas", "<integer>"),
        ("size", "<integer>"),
    ]


@pytest.mark.parametrize("what", ["pod.spec.nosuch", "widget.spec.nosuch"])
def test_explain_unknown_field(populated: Kubectl, what: str) -> None:
    assert 'field "nosuch" does not exist' in populated.expect_failure("explain", what)
