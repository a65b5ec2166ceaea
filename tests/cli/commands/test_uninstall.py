"""`windlass uninstall`: deleted and kept objects, and rejections."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conformance.waiting import wait_for
from server_process import RunningServer, serving_in_thread
from windlass.cli.main import main
from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd.manifests import reference_crd

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LAUNCHER, CONTROLLER = names.GROUPS
ALL = sorted([*names.GROUPS, names.GANG_GROUP])
BOOTSTRAPPING = "kubernetes.io/bootstrapping"
"""Label of default roles and bindings."""
KINDS = (
    "/api/v1/serviceaccounts",
    "/api/v1/configmaps",
    "/apis/apps/v1/deployments",
    *(f"{RBAC}/{kind}" for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with serving_in_thread(tmp_path / "data") as served:
        windlass(served, "install", "--apply")
        yield served


def windlass(server: RunningServer, *arguments: str, answer: str | None = None) -> Result:
    command = [*arguments, "--kubeconfig", str(server.data / "kubeconfig")]
    return CliRunner().invoke(main, command, input=answer)


def uninstall(server: RunningServer, *options: str) -> Result:
    return windlass(server, "uninstall", "--yes", *options)


def left(server: RunningServer) -> list[str]:
    """Return the objects of the kinds that an installation has, except those of every cluster and namespace."""
    every = ("default", "kube-root-ca.crt")
    found = [one["metadata"] for kind in KINDS for one in server.ask("GET", kind).body["items"]]
    return [
        one["name"]
        for one in found
        if one["name"] not in every and BOOTSTRAPPING not in one.get("labels", {})
    ]


def namespaces(server: RunningServer) -> set[str]:
    items = server.ask("GET", "/api/v1/namespaces").body["items"]
    return {one["metadata"]["name"] for one in items if not one["metadata"].get("deletionTimestamp")}


def definitions(server: RunningServer) -> list[str]:
    items = server.ask("GET", DEFINITIONS).body["items"]
    return sorted(one["spec"]["group"] for one in items if not one["metadata"].get("deletionTimestamp"))


def add_framework(server: RunningServer, group: str, name: str, state: str) -> Json:
    path = f"/apis/{group}/v1/namespaces/default/frameworks"
    body = {"apiVersion": f"{group}/v1", "kind": "Framework", "metadata": {"name": name}, "spec": {}}
    created: Json = server.ask("POST", path, body).body
    if state:
        patch = {"status": {"state": state}}
        answer = server.ask("PATCH", f"{path}/{name}/status", patch, "application/merge-patch+json")
        assert answer.code == 200
    return created


def test_uninstall_keeps_only_the_definitions(server: RunningServer) -> None:
    """This includes the objects of a configured installation."""
    windlass(server, "install", "--apply", "--watch-namespace", "default")
    server.ask(
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/windlass-system/leases",
        {"metadata": {"name": "windlass-controller"}, "spec": {}},
    )
    assert len(left(server)) > 5

    result = uninstall(server)

    assert (result.exit_code, result.stderr.partition(": ")[0]) == (0, "cluster")
    assert left(server) == []
    assert "windlass-system" not in namespaces(server)
    assert definitions(server) == ALL
    lines = result.stdout.splitlines()
    assert lines[0] == "deployment.apps/windlass-controller in windlass-system deleted"
    assert "lease.coordination.k8s.io/windlass-controller in windlass-system deleted" in lines
    assert lines[-1] == "namespace/windlass-system deleted"


@pytest.mark.parametrize(
    ("text", "going"),
    [
        ("leaseName: chosen\n", "chosen"),
        ("workerNumber: 9\n", "windlass-controller"),
        ("leaseName: [\n", "windlass-controller"),
    ],
    ids=["named", "unnamed", "spoilt"],
)
def test_configured_lease_is_deleted(server: RunningServer, tmp_path: Path, text: str, going: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("workerNumber: 9\n")
    assert windlass(server, "install", "--apply", "--config", str(file)).exit_code == 0
    path = "/api/v1/namespaces/windlass-system/configmaps/windlass-configuration"
    patch = {"data": {"frameworkcontroller.yaml": text}}
    assert server.ask("PATCH", path, patch, "application/merge-patch+json").code == 200
    leases = "/apis/coordination.k8s.io/v1/namespaces/windlass-system/leases"
    for name in ("windlass-controller", "chosen"):
        server.ask("POST", leases, {"metadata": {"name": name}, "spec": {}})

    lines = uninstall(server).stdout.splitlines()

    deleted = [line for line in lines if line.startswith("lease")]
    assert deleted == [f"lease.coordination.k8s.io/{going} in windlass-system deleted"]


def test_second_uninstall_finds_nothing(server: RunningServer) -> None:
    uninstall(server, "--crds")
    result = uninstall(server, "--crds")
    assert (result.exit_code, result.stdout) == (
        0,
        "Windlass is not installed in the namespace windlass-system: nothing was deleted\n",
    )


def test_other_installation_is_kept(server: RunningServer) -> None:
    windlass(server, "install", "--apply", "--namespace", "other")
    before = left(server)
    uninstall(server)
    assert left(server)
    assert set(left(server)) < set(before)
    assert "other" in namespaces(server)
    uninstall(server, "--namespace", "other")
    assert left(server) == []


def test_uninstall_prompts_for_confirmation(server: RunningServer) -> None:
    before = left(server)
    result = windlass(server, "uninstall", "--crds", answer="n\n")
    assert result.exit_code == 1
    assert f"the definitions of {LAUNCHER} and {CONTROLLER} and ALL their Frameworks?" in result.output
    assert left(server) == before
    assert windlass(server, "uninstall", answer="y\n").exit_code == 0
    assert left(server) == []


def test_crds_are_kept_while_frameworks_are_live(server: RunningServer) -> None:
    """Nothing is deleted."""
    for number in range(11):
        add_framework(server, CONTROLLER, f"job-{number:02}", "AttemptRunning")
    add_framework(server, LAUNCHER, "fresh", "")
    add_framework(server, LAUNCHER, "done", "Completed")
    before = left(server)

    result = uninstall(server, "--crds")

    assert (result.exit_code, result.stdout) == (1, "")
    assert f"12 Frameworks have not completed: default/fresh ({LAUNCHER}), default/job-00 (" in result.stderr
    assert "job-08" in result.stderr
    assert "job-09" not in result.stderr
    assert "and 2 more. Nothing was deleted" in result.stderr
    assert (left(server), definitions(server)) == (before, ALL)


@pytest.mark.parametrize("options", [("--crds", "--force"), ("--crds",)])
def test_crds_are_deleted_with_force_or_after_completion(
    server: RunningServer, options: tuple[str, ...]
) -> None:
    is_forced = "--force" in options
    add_framework(server, CONTROLLER, "job", "AttemptRunning" if is_forced else "Completed")
    result = uninstall(server, *options)
    assert result.exit_code == 0
    assert definitions(server) == []
    deleted = [line for line in result.stdout.splitlines() if "customresourcedefinition" in line]
    what = "customresourcedefinition.apiextensions.k8s.io"
    assert deleted == [
        f"{what}/frameworks.{LAUNCHER} deleted, with all its Frameworks",
        f"{what}/frameworks.{CONTROLLER} deleted, with all its Frameworks",
        f"{what}/gangs.{names.GANG_GROUP} deleted",
    ]


def test_live_frameworks_are_listed(server: RunningServer) -> None:
    add_framework(server, CONTROLLER, "job", "AttemptRunning")
    result = uninstall(server)
    assert result.exit_code == 0
    assert f"1 Framework has not completed: default/job ({CONTROLLER}). They are kept" in result.stdout


def test_definition_of_the_reference_is_restored(server: RunningServer) -> None:
    job = add_framework(server, CONTROLLER, "digits", "AttemptRunning")
    add_framework(server, CONTROLLER, "tf-example", "AttemptRunning")

    result = uninstall(server, "--restore-reference-crd")

    assert result.exit_code == 0
    live = server.ask("GET", f"{DEFINITIONS}/frameworks.{CONTROLLER}").body
    assert "subresources" not in live["spec"]["versions"][0]
    wanted = reference_crd()["spec"]["versions"][0]["schema"]
    assert live["spec"]["versions"][0]["schema"] == wanted
    assert "app.kubernetes.io/managed-by" not in (live["metadata"].get("labels") or {})
    kept = server.ask("GET", f"/apis/{CONTROLLER}/v1/namespaces/default/frameworks/digits").body
    assert kept["metadata"]["uid"] == job["metadata"]["uid"]
    assert kept["status"] == {"state": "AttemptRunning"}
    assert "returned to FrameworkController with its Frameworks" in result.stdout
    assert "cannot update these Frameworks: default/tf-example" in result.stdout
    assert definitions(server) == ALL


def test_definition_is_restored_together_with_crds(server: RunningServer) -> None:
    """With --crds, the definitions of the other group and of Gangs are deleted. Only Frameworks of that group count."""
    add_framework(server, CONTROLLER, "digits", "AttemptRunning")
    result = uninstall(server, "--crds", "--restore-reference-crd")
    assert result.exit_code == 0
    assert definitions(server) == [CONTROLLER]


def test_namespace_with_other_objects_is_kept(server: RunningServer) -> None:
    body = {"metadata": {"name": "diary"}, "data": {"monday": "rain"}}
    server.ask("POST", "/api/v1/namespaces/windlass-system/configmaps", body)
    result = uninstall(server)
    expected = "namespace/windlass-system left unchanged: it contains other objects, e.g. configmap/diary"
    assert result.stdout.splitlines()[-1] == expected
    assert "windlass-system" in namespaces(server)


def test_other_objects_are_named_by_their_kind(server: RunningServer) -> None:
    """The plural of the kind is irregular."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "policies", "kind": "Policy"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    definition = {"metadata": {"name": "policies.example.com"}, "spec": spec}
    assert server.ask("POST", DEFINITIONS, definition).code == 201
    body = {"apiVersion": "example.com/v1", "kind": "Policy", "metadata": {"name": "strict"}}
    path = "/apis/example.com/v1/namespaces/windlass-system/policies"
    wait_for("the kind", lambda: server.ask("POST", path, body).code == 201)
    assert uninstall(server).stdout.splitlines()[-1].endswith("e.g. policy.example.com/strict")


def test_foreign_namespace_is_kept(server: RunningServer) -> None:
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shared"}})
    windlass(server, "install", "--apply", "--namespace", "shared")
    result = uninstall(server, "--namespace", "shared")
    expected = "namespace/shared left unchanged: not created by windlass install"
    assert result.stdout.splitlines()[-1] == expected
    assert "shared" in namespaces(server)


def test_missing_cluster_is_reported() -> None:
    result = CliRunner().invoke(main, ["uninstall", "--yes", "--kubeconfig", "/no/such/file"])
    assert result.exit_code == 1
    assert "/no/such/file" in result.stderr
