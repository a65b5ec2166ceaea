"""`kubectl create`: from files, from stdin and from arguments; dry runs and rejections."""

import json
from pathlib import Path

import pytest
import yaml
from tests.clients.kubectl.runs import Kubectl

from conformance import objects

pytestmark = pytest.mark.kubernetes

CONFIG_MAP = objects.config_map("m", {"a": "1"})
POD = objects.pod("p")


# From files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("two.yaml", yaml.safe_dump_all([CONFIG_MAP, POD])),
        ("two.json", json.dumps(CONFIG_MAP) + "\n" + json.dumps(POD)),
        ("list.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [CONFIG_MAP, POD]})),
    ],
    ids=["yaml", "json", "list"],
)
def test_create_from_several_documents(kubectl: Kubectl, tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    assert kubectl("create", "-f", str(file)) == "configmap/m created\npod/p created"
    assert kubectl.json("get", "pod", "p")["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert kubectl("get", "-f", str(file), "-o", "name") == "configmap/m\npod/p"
    complaints = kubectl.expect_failure("create", "-f", str(file)).splitlines()
    assert all(line.startswith("Error from server (AlreadyExists): ") for line in complaints)
    assert [line.split()[-3:] for line in complaints] == [
        ['"m"', "already", "exists"],
        ['"p"', "already", "exists"],
    ]


def test_create_from_directory(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(yaml.safe_dump(CONFIG_MAP))
    (tmp_path / "2.json").write_text(json.dumps(POD))
    assert kubectl("create", "-f", str(tmp_path)) == "configmap/m created\npod/p created"


def test_create_from_stdin(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", "-o", "name", stdin=yaml.safe_dump(CONFIG_MAP)) == "configmap/m"


def test_create_with_generated_name(kubectl: Kubectl) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    created = kubectl("create", "-f", "-", "-o", "name", stdin=json.dumps(body))
    assert created.startswith("configmap/made-")
    assert kubectl("get", created, "-o", "name") == created


# From arguments


@pytest.mark.parametrize(
    ("arguments", "field", "expected"),
    [
        ("configmap m --from-literal=a=1", "{.data.a}", "1"),
        ("secret generic s --from-literal=a=1", "{.data.a}", "MQ=="),
        ("serviceaccount robot", "{.metadata.name}", "robot"),
        ("service clusterip w --tcp=80:http", "{.spec.ports[0].targetPort}", "http"),
        ("deployment d --image=a:1", "{.spec.selector.matchLabels.app}", "d"),
        ("job j --image=a:1 -- sleep 9", "{.spec.template.spec.containers[0].command[1]}", "9"),
        ("role r --verb=get --resource=pods", "{.rules[0].resources[0]}", "pods"),
        ("rolebinding b --role=r --user=me", "{.subjects[0].name}", "me"),
    ],
    ids=lambda value: value.split()[0] if " " in value else "",
)
def test_create_from_arguments(kubectl: Kubectl, arguments: str, field: str, expected: str) -> None:
    made, _, said = kubectl("create", *arguments.split()).rpartition(" ")
    assert said == "created"
    assert kubectl("get", made, "-o", f"jsonpath={field}") == expected


def test_create_namespace(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-more"
    assert kubectl("create", "namespace", name) == f"namespace/{name} created"
    assert kubectl("get", "ns", name, "-o", "jsonpath={.status.phase}") == "Active"
    assert kubectl("delete", "ns", name) == f'namespace "{name}" deleted'


def test_run_pod_and_expose_deployment(kubectl: Kubectl) -> None:
    assert kubectl("run", "p", "--image=a:1", "--restart=Never", "--labels=x=y") == "pod/p created"
    kubectl("create", "-f", "-", stdin=json.dumps(objects.deployment("d")))
    assert kubectl("expose", "deployment", "d", "--port=80") == "service/d exposed"
    assert kubectl("get", "service", "d", "-o", "jsonpath={.spec.selector.app}") == "d"


# Dry runs


@pytest.mark.parametrize(
    ("mode", "suffix", "has_uid"), [("client", "(dry run)", False), ("server", "(server dry run)", True)]
)
def test_server_dry_run_stores_nothing(kubectl: Kubectl, mode: str, suffix: str, has_uid: bool) -> None:
    option = f"--dry-run={mode}"
    assert (
        kubectl("create", "-f", "-", option, stdin=json.dumps(CONFIG_MAP)) == f"configmap/m created {suffix}"
    )
    tried = kubectl.json("create", "-f", "-", option, stdin=json.dumps(POD))
    assert ("uid" in tried["metadata"]) == has_uid
    assert kubectl("get", "configmaps,pods", "-o", "name") == ""


def test_client_dry_run_prints_manifest(kubectl: Kubectl) -> None:
    manifest = kubectl("create", "deployment", "d", "--image=a:1", "--dry-run=client", "-o", "yaml")
    assert kubectl("create", "-f", "-", stdin=manifest) == "deployment.apps/d created"


# Rejections


FIRST_WITH_FIELD_VALIDATION = 25
UNKNOWN = {
    "top": ({**CONFIG_MAP, "datum": {}}, "datum"),
    "inside": (objects.pod("p", {"containers": [{"name": "a", "image": "b", "imag": "c"}]}), "imag"),
    "custom": (
        {
            "apiVersion": "clients.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "spec": {"size": 1, "siz": 2},
        },
        "siz",
    ),
}


@pytest.mark.parametrize(("body", "field"), UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_unknown_field_is_rejected(kubectl: Kubectl, verb: str, body: object, field: str) -> None:
    """Newer kubectls ask the server to report it, older ones find it in the OpenAPI documents."""
    complaint = kubectl.expect_failure(verb, "-f", "-", stdin=json.dumps(body))
    is_said_by_server = min(kubectl.minor, kubectl.server.minor) >= FIRST_WITH_FIELD_VALIDATION
    expected = "strict decoding error: unknown field" if is_said_by_server else f'unknown field "{field}" in'
    assert expected in complaint
    assert field in complaint
    assert kubectl("get", "configmaps,pods,widgets", "-o", "name") == ""


def test_unknown_field_is_accepted_without_validation(kubectl: Kubectl) -> None:
    body = {**CONFIG_MAP, "datum": {}}
    assert kubectl("create", "-f", "-", "--validate=false", stdin=json.dumps(body)) == "configmap/m created"
    assert "datum" not in kubectl.json("get", "configmap", "m")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            objects.config_map("Not_A_Name"),
            'The ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": a',
        ),
        (
            objects.pod("p", {"containers": [{"name": "a", "image": "b"}, {"name": "a", "image": "b"}]}),
            'The Pod "p" is invalid: spec.containers[1].name: Duplicate value: "a"',
        ),
        (
            {**objects.pod("p"), "spec": {"containers": [{"image": "b"}]}},
            "name",
        ),
        (
            {
                "apiVersion": "clients.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "w"},
                "spec": {"size": -1},
            },
            "spec.size in body should be greater than or equal to 0",
        ),
        (
            {"apiVersion": "v1", "kind": "Nosuch", "metadata": {"name": "n"}},
            'no matches for kind "Nosuch" in',
        ),
    ],
    ids=["name", "twice", "required", "minimum", "kind"],
)
def test_invalid_object_is_rejected(kubectl: Kubectl, body: object, complaint: str) -> None:
    assert complaint in kubectl.expect_failure("create", "-f", "-", stdin=json.dumps(body))
