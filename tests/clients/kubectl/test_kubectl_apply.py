"""`kubectl apply`, diff, patch, label, annotate, set, scale and rollout."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.clients.kubectl import sample_objects
from tests.clients.kubectl.runs import Kubectl

from conformance import objects

pytestmark = pytest.mark.kubernetes

FIRST_WITH_ALLOWLIST = 26


def applied(kubectl: Kubectl, body: object, *options: str) -> str:
    return kubectl("apply", "-f", "-", *options, stdin=json.dumps(body))


def widget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": sample_objects.WIDGETS, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


# Apply


def test_apply_creates_and_updates_config_map(kubectl: Kubectl) -> None:
    assert applied(kubectl, objects.config_map("m", {"a": "1", "b": "2"})) == "configmap/m created"
    assert applied(kubectl, objects.config_map("m", {"a": "1", "b": "2"})) == "configmap/m unchanged"
    kubectl("patch", "configmap", "m", "--type=merge", "-p", '{"data": {"theirs": "kept"}}')
    assert applied(kubectl, objects.config_map("m", {"a": "9"})) == "configmap/m configured"
    assert kubectl.json("get", "configmap", "m")["data"] == {"a": "9", "theirs": "kept"}
    last = kubectl("apply", "view-last-applied", "configmap", "m", "-o", "json")
    assert json.loads(last)["data"] == {"a": "9"}


def test_apply_merges_deployment_containers_by_name(kubectl: Kubectl) -> None:
    """Lists merge by the names of their items, so that items added by others stay."""

    def body(*containers: dict[str, Any]) -> dict[str, Any]:
        template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": list(containers)}}
        return objects.deployment("d", template=template)  # type: ignore[no-any-return]

    main = {"name": "main", "image": "a:1", "env": [{"name": "A", "value": "1"}]}
    side = {"name": "side", "image": "b:1"}
    assert applied(kubectl, body(main, side)) == "deployment.apps/d created"
    added = of_containers({"name": "injected", "image": "c:1"})
    kubectl("patch", "deployment", "d", "-p", json.dumps(added))
    assert applied(kubectl, body({"name": "main", "image": "a:2"})) == "deployment.apps/d configured"
    containers = kubectl.json("get", "deployment", "d")["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["image"] for each in containers} == {"main": "a:2", "injected": "c:1"}
    assert all("env" not in each for each in containers)


def test_apply_custom_resource(kubectl: Kubectl) -> None:
    name = "widget.clients.example.com/w"
    assert applied(kubectl, widget(size=3, parts=[{"name": "a"}])) == f"{name} created"
    assert applied(kubectl, widget(size=3, parts=[{"name": "a"}])) == f"{name} unchanged"
    kubectl("patch", "widget", "w", "--type=merge", "-p", '{"spec": {"replicas": 2}}')
    assert applied(kubectl, widget(size=4)) == f"{name} configured"
    assert kubectl.json("get", "widget", "w")["spec"] == {"size": 4, "replicas": 2, "colour": "grey"}


def test_prune_deletes_objects_no_longer_applied(kubectl: Kubectl, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(objects.config_map(name, labels={"set": "mine"})))
    options = ["--prune", "-l", "set=mine"]
    kinds = "--prune-whitelist" if kubectl.minor < FIRST_WITH_ALLOWLIST else "--prune-allowlist"
    arguments = ["apply", "-f", str(tmp_path), *options, f"{kinds}=core/v1/ConfigMap"]
    assert kubectl(*arguments) == "configmap/a created\nconfigmap/b created"
    (tmp_path / "a.json").unlink()
    assert kubectl(*arguments) == "configmap/b unchanged\nconfigmap/a pruned"


def test_apply_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    body = objects.config_map("m", {"a": "1"})
    assert applied(kubectl, body, "--dry-run=server") == "configmap/m created (server dry run)"
    applied(kubectl, body)
    tried = applied(kubectl, objects.config_map("m", {"a": "2"}), "--dry-run=server")
    assert tried == "configmap/m configured (server dry run)"
    assert kubectl("get", "configmap", "m", "-o", "jsonpath={.data.a}") == "1"


def test_server_side_apply_is_rejected_with_explanation(kubectl: Kubectl) -> None:
    outcome = kubectl.run("apply", "--server-side", "-f", "-", stdin=json.dumps(objects.config_map("m")))
    if kubectl.server.is_real:
        assert outcome.output == "configmap/m serverside-applied\n", outcome
        return
    assert outcome.code == 1
    assert outcome.errors.startswith("error: Server-side apply not available on the server"), outcome
    assert kubectl("get", "configmaps", "-o", "name") == ""


@pytest.mark.skipif(shutil.which("diff") is None, reason="kubectl diff runs diff(1)")
def test_diff_shows_changes(kubectl: Kubectl) -> None:
    applied(kubectl, objects.config_map("m", {"a": "1"}))
    same = kubectl.run("diff", "-f", "-", stdin=json.dumps(objects.config_map("m", {"a": "1"})))
    assert (same.code, same.output) == (0, "")
    other = kubectl.run("diff", "-f", "-", stdin=json.dumps(objects.config_map("m", {"b": "2"})))
    assert other.code == 1, other
    changes = [line for line in other.output.splitlines() if line[:3] in ("-  ", "+  ")]
    assert changes[:2] == ['-  a: "1"', '+  b: "2"']
    assert kubectl("get", "configmap", "m", "-o", "jsonpath={.data}") == '{"a":"1"}'


# Patches


def of_containers(*containers: dict[str, str]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(containers)}}}}


CONTAINERS = "/spec/template/spec/containers"


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        ("strategic", of_containers({"name": "b", "image": "new"}), ["a:1", "new"]),
        ("strategic", of_containers({"name": "a", "$patch": "delete"}), ["b:1"]),
        ("merge", of_containers({"name": "b", "image": "new"}), ["new"]),
        ("json", [{"op": "remove", "path": f"{CONTAINERS}/0"}], ["b:1"]),
        ("json", [{"op": "replace", "path": f"{CONTAINERS}/0/image", "value": "new"}], ["new", "b:1"]),
    ],
    ids=["strategic", "strategic-delete", "merge", "json-remove", "json-replace"],
)
def test_patch_deployment(kubectl: Kubectl, kind: str, patch: object, expected: list[str]) -> None:
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}}
    sample_objects.post(kubectl, objects.deployment("d", template=template))
    arguments = ["patch", "deployment", "d", f"--type={kind}", "-p", json.dumps(patch)]
    assert kubectl(*arguments) == "deployment.apps/d patched"
    found = kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
    assert found.split() == expected


def test_patch_without_effect_reports_no_change(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.config_map("m", {"a": "1"}))
    patch = ["patch", "configmap", "m", "-p", '{"data": {"a": "1"}}']
    assert kubectl(*patch) == "configmap/m patched (no change)"


@pytest.mark.parametrize(
    ("arguments", "patch", "complaint"),
    [
        (
            "configmap m --type=json",
            [{"op": "test", "path": "/data/a", "value": "9"}],
            "The request is invalid",
        ),
        ("widget w", {"spec": {}}, "the body of the request was in an unknown format"),
        ("widget w --type=merge", {"spec": {"size": "x"}}, "spec.size in body must be of type integer"),
        ("pod p", {"spec": {"hostname": "new"}}, "spec: Forbidden: pod updates may not change fields other"),
        ("configmap none", {}, 'configmaps "none" not found'),
    ],
    ids=["test", "strategic-of-custom", "schema", "immutable", "missing"],
)
def test_invalid_patch_is_rejected(kubectl: Kubectl, arguments: str, patch: object, complaint: str) -> None:
    for body in (objects.config_map("m", {"a": "1"}), widget(size=1), objects.pod("p")):
        sample_objects.post(kubectl, body)
    assert complaint in kubectl.expect_failure("patch", *arguments.split(), "-p", json.dumps(patch))


# Labels, annotations, images


def test_label_and_annotate(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.config_map("m"))
    assert kubectl("label", "configmap", "m", "a=1", "b=2") == "configmap/m labeled"
    assert "already has a value (1)" in kubectl.expect_failure("label", "configmap", "m", "a=9")
    kubectl("label", "configmap", "m", "a=9", "b-", "--overwrite")
    assert kubectl("annotate", "configmap", "m", "note=some words") == "configmap/m annotated"
    metadata = kubectl.json("get", "configmap", "m")["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"a": "9"}, {"note": "some words"})
    kubectl("label", "configmap", "--all", "all=yes")
    assert kubectl("get", "configmap", "-l", "all=yes", "-o", "name") == "configmap/m"


def test_set_image(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.deployment("d"))
    assert kubectl("set", "image", "deployment/d", "main=new:2") == "deployment.apps/d image updated"
    path = "{.spec.template.spec.containers[0].image}"
    assert kubectl("get", "deployment", "d", "-o", f"jsonpath={path}") == "new:2"


# Scale and rollout


@pytest.mark.parametrize("kind", ["deployment", "statefulset", "widget"])
def test_scale(kubectl: Kubectl, kind: str) -> None:
    bodies = {"deployment": objects.deployment, "statefulset": objects.stateful_set}
    sample_objects.post(kubectl, bodies[kind]("w") if kind in bodies else widget(size=1, replicas=1))
    assert kubectl("scale", kind, "w", "--replicas=3").endswith("/w scaled")
    assert "was 3" in kubectl.expect_failure("scale", kind, "w", "--replicas=5", "--current-replicas=4")
    assert kubectl("get", kind, "w", "-o", "jsonpath={.spec.replicas}") == "3"


def test_rollout_status_waits_for_rollout(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.deployment("d", replicas=2))
    counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
    status = {"observedGeneration": 1, **counts, "availableReplicas": 1}
    with kubectl.running("rollout", "status", "deployment/d") as following:
        following.wait_for_output("Waiting for deployment spec update to be observed...")
        sample_objects.write_status(kubectl, "deployments", "d", status)
        following.wait_for_output("1 of 2 updated replicas are available")
        sample_objects.write_status(kubectl, "deployments", "d", {"availableReplicas": 2})
        outcome = following.wait_for_exit()
    assert outcome.code == 0, outcome
    assert outcome.output.endswith('deployment "d" successfully rolled out\n')


def test_rollout_restart(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.deployment("d"))
    assert kubectl("rollout", "restart", "deployment/d") == "deployment.apps/d restarted"
    template = kubectl.json("get", "deployment", "d")["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]
