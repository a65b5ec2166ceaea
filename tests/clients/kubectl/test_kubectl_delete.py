"""`kubectl delete` with dependents, `kubectl wait`, and Frameworks from definition to deletion."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.clients.kubectl import sample_objects
from tests.clients.kubectl.runs import Kubectl

from conformance import objects
from conformance.waiting import wait_for

pytestmark = pytest.mark.kubernetes

LAST_WITHOUT_NAMESPACE = 32
DEFINITIONS = Path(__file__).parents[3] / "charts/windlass/definitions"


def names(kubectl: Kubectl) -> list[str]:
    return kubectl("get", "configmaps", "-o", "name").splitlines()


def create_with_finalizer(name: str, **metadata: Any) -> Any:
    """Return an object with a finalizer."""
    return objects.config_map(name, finalizers=["tests.example.com/hold"], **metadata)


def deleted(kubectl: Kubectl, *names: str) -> str:
    """Return the output of kubectl for deleted ConfigMaps. Newer ones print the namespace."""
    where = f" from {kubectl.namespace} namespace" if kubectl.minor > LAST_WITHOUT_NAMESPACE else ""
    return "\n".join(f'configmap "{name}" deleted{where}' for name in names)


def remove_finalizer(kubectl: Kubectl, name: str) -> None:
    kubectl("patch", "configmap", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')


# Delete


def test_delete_by_name_file_label_and_all(kubectl: Kubectl) -> None:
    for name, labels in [("a", {}), ("b", {}), ("c", {"x": "y"}), ("d", {"x": "y"}), ("e", {}), ("f", {})]:
        sample_objects.post(kubectl, objects.config_map(name, labels=labels))
    assert kubectl("delete", "configmap", "a") == deleted(kubectl, "a")
    assert kubectl("delete", "-f", "-", stdin=json.dumps(objects.config_map("b"))) == deleted(kubectl, "b")
    assert kubectl("delete", "cm", "-l", "x=y") == deleted(kubectl, "c", "d")
    assert names(kubectl) == ["configmap/e", "configmap/f"]
    assert kubectl("delete", "cm", "--all", "-o", "name") == "configmap/e\nconfigmap/f"
    assert names(kubectl) == []


def test_delete_of_missing_object(kubectl: Kubectl) -> None:
    missing = 'Error from server (NotFound): configmaps "none" not found'
    assert kubectl.expect_failure("delete", "configmap", "none") == missing
    assert kubectl("delete", "configmap", "none", "--ignore-not-found") == ""


def test_delete_waits_for_finalizers(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, create_with_finalizer("m"))
    with kubectl.running("delete", "configmap", "m", "-v=6") as deleting:
        deleting.wait_for_output("watch=true")
        remove_finalizer(kubectl, "m")
        outcome = deleting.wait_for_exit()
    assert (outcome.code, outcome.output) == (0, f"{deleted(kubectl, 'm')}\n"), outcome


def test_delete_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.config_map("m"))
    tried = kubectl("delete", "configmap", "m", "--dry-run=server")
    assert tried == f"{deleted(kubectl, 'm')} (server dry run)"
    assert names(kubectl) == ["configmap/m"]


@pytest.mark.parametrize(
    ("options", "deletion"),
    [(["--grace-period=7"], 7), ([], 30), (["--now"], 1)],
    ids=["given", "default", "now"],
)
def test_delete_of_scheduled_pod_has_grace_period(
    kubectl: Kubectl, options: list[str], deletion: int
) -> None:
    sample_objects.post(kubectl, objects.pod("p", {"nodeName": "nowhere"}))
    kubectl("delete", "pod", "p", "--wait=false", *options)
    assert kubectl.json("get", "pod", "p")["metadata"]["deletionGracePeriodSeconds"] == deletion
    assert kubectl.rows("get", "pod", "p")[1][2] == "Terminating"
    outcome = kubectl.run("delete", "pod", "p", "--grace-period=0", "--force")
    assert outcome.output.startswith('pod "p" force deleted'), outcome
    assert kubectl("get", "pods", "-o", "name") == ""


# Dependents


def family(kubectl: Kubectl, child: Any) -> None:
    owner = sample_objects.post(kubectl, objects.config_map("owner"))
    reference = objects.owner("ConfigMap", owner, blockOwnerDeletion=True)
    child["metadata"]["ownerReferences"] = [reference]
    sample_objects.post(kubectl, child)


def test_cascade_foreground(kubectl: Kubectl) -> None:
    family(kubectl, create_with_finalizer("child"))
    with kubectl.running("delete", "configmap", "owner", "--cascade=foreground", "-v=6") as deleting:
        deleting.wait_for_output("watch=true")
        owner = kubectl.json("get", "configmap", "owner")["metadata"]
        assert owner["finalizers"] == ["foregroundDeletion"]
        wait_for(
            "the dependent to be deleted",
            lambda: "deletionTimestamp" in kubectl.json("get", "configmap", "child")["metadata"],
        )
        remove_finalizer(kubectl, "child")
        outcome = deleting.wait_for_exit()
    assert (outcome.code, outcome.output) == (0, f"{deleted(kubectl, 'owner')}\n"), outcome
    assert names(kubectl) == []


def test_cascade_background(kubectl: Kubectl) -> None:
    family(kubectl, objects.config_map("child"))
    assert kubectl("delete", "configmap", "owner", "--cascade=background") == deleted(kubectl, "owner")
    wait_for("the dependent to be gone", lambda: names(kubectl) == [])


def test_cascade_orphan(kubectl: Kubectl) -> None:
    family(kubectl, objects.config_map("child"))
    assert kubectl("delete", "configmap", "owner", "--cascade=orphan") == deleted(kubectl, "owner")
    assert names(kubectl) == ["configmap/child"]
    assert "ownerReferences" not in kubectl.json("get", "configmap", "child")["metadata"]


def test_delete_namespace_deletes_its_objects(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-more"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for body in (namespace, objects.config_map("m", namespace=name)):
        kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert kubectl("delete", "namespace", name) == f'namespace "{name}" deleted'
    assert "not found" in kubectl.expect_failure("get", "namespace", name)
    assert kubectl("get", "configmaps", "-n", name, "-o", "name") == ""


# Wait


def test_wait_for_condition(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.deployment("d"))
    condition = {"type": "Available", "status": "False", "lastTransitionTime": sample_objects.LONG_AGO}
    with kubectl.running("wait", "--for=condition=Available", "deployment/d", "-v=6") as waiting:
        waiting.wait_for_output("watch=true")
        sample_objects.write_status(kubectl, "deployments", "d", {"conditions": [condition]})
        sample_objects.write_status(
            kubectl, "deployments", "d", {"conditions": [{**condition, "status": "True"}]}
        )
        outcome = waiting.wait_for_exit()
    assert (outcome.code, outcome.output) == (0, "deployment.apps/d condition met\n"), outcome


def test_wait_times_out(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, objects.pod("p"))
    complaint = kubectl.expect_failure("wait", "--for=condition=Ready", "pod/p", "--timeout=1s")
    assert "timed out waiting for the condition on pods/p" in complaint


def test_wait_for_deletion(kubectl: Kubectl) -> None:
    sample_objects.post(kubectl, create_with_finalizer("m"))
    kubectl("delete", "configmap", "m", "--wait=false")
    with kubectl.running("wait", "--for=delete", "configmap/m", "-v=6") as waiting:
        waiting.wait_for_output("watch=true")
        remove_finalizer(kubectl, "m")
        outcome = waiting.wait_for_exit()
    assert (outcome.code, outcome.output) == (0, "configmap/m condition met\n"), outcome


def test_wait_for_custom_resource(kubectl: Kubectl) -> None:
    widget = {
        "apiVersion": sample_objects.WIDGETS,
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 1},
    }
    sample_objects.post(kubectl, widget)
    sample_objects.write_status(
        kubectl, "widgets", "w", {"conditions": [{"type": "Made", "status": "True"}]}, sample_objects.WIDGETS
    )
    assert (
        kubectl("wait", "--for=condition=Made", "widget", "--all")
        == "widget.clients.example.com/w condition met"
    )


# Frameworks


@pytest.mark.parametrize("group", ["frameworkcontroller.microsoft.com", "launcher.microsoft.com"])
def test_framework_from_definition_to_deletion(kubectl: Kubectl, group: str) -> None:
    definition = DEFINITIONS / f"frameworks.{group}.yaml"
    # Servers before 1.25 do not know the validation rules in it, and kubectl would reject them.
    options = ["--validate=false"] if kubectl.server.minor < 25 else []
    kubectl("apply", "-f", str(definition), *options)
    kubectl("wait", "--for=condition=Established", f"crd/frameworks.{group}")
    explain = ["explain", "framework.spec.taskRoles.taskNumber", f"--api-version={group}/v1"]
    wait_for("frameworks to be documented", lambda: "<integer>" in kubectl.run(*explain).output)

    assert "taskNumber" in kubectl("explain", "framework", "--recursive", f"--api-version={group}/v1")

    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    roles = [{"name": "worker", "taskNumber": 2, "task": {"pod": pod}}]
    framework = {
        "apiVersion": f"{group}/v1",
        "kind": "Framework",
        "metadata": {"name": "tf"},
        "spec": {"executionType": "Start", "taskRoles": roles},
    }
    assert kubectl("create", "-f", "-", stdin=json.dumps(framework)) == f"framework.{group}/tf created"
    status = {"state": "AttemptRunning", "summary": {"tasks": 2, "running": 1, "succeeded": 0, "failed": 1}}
    sample_objects.write_status(kubectl, "frameworks", "tf", status, f"{group}/v1")
    header, row = kubectl("get", f"frameworks.{group}").splitlines()
    assert header.split() == ["NAME", "STATE", "TASKS", "RUNNING", "SUCCEEDED", "FAILED", "RETRIES", "AGE"]
    assert row.split()[:6] == ["tf", "AttemptRunning", "2", "1", "0", "1"]

    owner = kubectl.json("get", f"frameworks.{group}", "tf")
    reference = objects.owner("Framework", owner, blockOwnerDeletion=True)
    sample_objects.post(kubectl, objects.config_map("attempt", ownerReferences=[reference]))
    kubectl("delete", f"frameworks.{group}", "tf", "--cascade=foreground")
    assert names(kubectl) == [], "the dependents go first"
