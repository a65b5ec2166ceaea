"""`kubectl get` in all output formats, with selectors and as a watch, and `kubectl api-resources`."""

import json
from typing import Any

import pytest
import yaml
from tests.clients.kubectl import sample_objects
from tests.clients.kubectl.namespaces import Namespaces
from tests.clients.kubectl.runs import Kubectl, Server

from conformance import objects

pytestmark = pytest.mark.kubernetes


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> str:
    return json.dumps(objects.config_map(name, data, **metadata))


@pytest.fixture(scope="module")
def three(namespaces: Namespaces, server: Server) -> Kubectl:
    """Return a kubectl in a namespace with three ConfigMaps, which no test changes."""
    kubectl = namespaces.open(server)
    labels = {"a": {"tier": "1"}, "b": {"tier": "2"}, "c": {}}
    maps = [config_map(name, {"key": name}, labels=labels[name]) for name in labels]
    kubectl("create", "-f", "-", stdin="\n".join(maps))
    return kubectl


# Resources


def test_version(kubectl: Kubectl) -> None:
    found = kubectl.json("version")
    served = found["serverVersion"]
    assert served["gitVersion"].startswith(f"v{served['major']}.{served['minor'].rstrip('+')}.")
    assert found["clientVersion"]["gitVersion"].startswith(f"v{kubectl.version}.")


def test_api_versions(kubectl: Kubectl) -> None:
    expected = {
        "v1",
        "apps/v1",
        "batch/v1",
        "coordination.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        sample_objects.WIDGETS,
    }
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


# Output formats


def test_default_and_wide_tables(populated: Kubectl) -> None:
    header, web, worker = populated.rows("get", "pods")
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert (web[:4], worker[:4]) == (["web-0", "1/1", "Running", "2"], ["worker-0", "0/2", "Pending", "0"])
    wide = populated.rows("get", "pods", "web-0", "-o", "wide")[1]
    assert wide[5:] == ["127.0.0.9", "<none>", "<none>", "<none>"]
    assert populated("get", "pods", "--no-headers", "-o", "name") == "pod/web-0\npod/worker-0"


def test_get_all(populated: Kubectl) -> None:
    names = populated("get", "all", "-o", "name").splitlines()
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
def test_yaml_output_can_be_applied_again(kubectl: Kubectl, form: str) -> None:
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
def test_output_formats(three: Kubectl, form: str, expected: str) -> None:
    printed = three("get", "configmaps", "-o", form)
    assert "\n".join(" ".join(line.split()) for line in printed.splitlines()) == expected


def test_sort_by(kubectl: Kubectl) -> None:
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
def test_selectors(three: Kubectl, options: list[str], expected: list[str]) -> None:
    found = three("get", "configmaps", "-o", "name", *options).splitlines()
    assert found == [f"configmap/{name}" for name in expected]


def test_pods_by_phase_field_selector(populated: Kubectl) -> None:
    assert populated("get", "po", "-o", "name", "--field-selector=status.phase=Running") == "pod/web-0"
    complaint = populated.expect_failure("get", "po", "--field-selector=spec.nosuch=1")
    assert "field label not supported: spec.nosuch" in complaint


def test_all_namespaces(three: Kubectl) -> None:
    listed = three("get", "configmaps", "-A", "--no-headers")
    mine = [line.split()[:2] for line in listed.splitlines() if line.startswith(three.namespace)]
    assert mine == [[three.namespace, name] for name in ("a", "b", "c")]


def test_list_in_chunks(three: Kubectl) -> None:
    shown = three("get", "configmaps", "--chunk-size=2", "-o", "name")
    assert shown == "configmap/a\nconfigmap/b\nconfigmap/c"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["get", "pod", "nosuch"], 'Error from server (NotFound): pods "nosuch" not found'),
        (["get", "nosuch"], 'error: the server doesn\'t have a resource type "nosuch"'),
        (["get", "widget", "nosuch"], 'Error from server (NotFound): widgets.clients.example.com "nosuch" not found'),
    ],
    ids=["object", "kind", "custom"],
)  # fmt: skip
def test_missing_object_and_unknown_resource(kubectl: Kubectl, arguments: list[str], complaint: str) -> None:
    assert kubectl.expect_failure(*arguments) == complaint


def test_no_resources_found(kubectl: Kubectl) -> None:
    outcome = kubectl.run("get", "pods")
    assert (outcome.code, outcome.output) == (0, "")
    assert outcome.errors == f"No resources found in {kubectl.namespace} namespace.\n"


# Watches


def test_watch_shows_each_change(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(objects.pod("p")))
    with kubectl.running("get", "pods", "-w", "--output-watch-events") as watching:
        watching.wait_for_output("ADDED")
        sample_objects.write_status(kubectl, "pods", "p", {"phase": "Running"})
        watching.wait_for_output("MODIFIED")
        kubectl("delete", "pod", "p", "--grace-period=0", "--force")
        shown = watching.wait_for_output("DELETED")
    header, *rows = (line.split() for line in shown.splitlines())
    assert header == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    seen = [(row[0], row[1], row[3]) for row in rows]
    assert seen[:2] == [("ADDED", "p", "Pending"), ("MODIFIED", "p", "Running")]
    assert seen[-1][:2] == ("DELETED", "p")


def test_watch_only_shows_changes(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config_map("old", labels={"seen": "yes"}))
    options = ["--watch-only", "-o", "name", "-l", "seen", "-v=6"]
    with kubectl.running("get", "configmaps", *options) as watching:
        watching.wait_for_output("watch=true")
        kubectl("create", "-f", "-", stdin=config_map("unseen"))
        kubectl("create", "-f", "-", stdin=config_map("new", labels={"seen": "yes"}))
        assert watching.wait_for_output("configmap/new").splitlines() == ["configmap/new"]
