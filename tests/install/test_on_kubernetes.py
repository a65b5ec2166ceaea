"""Installation on a real API server: it accepts every object, and its authorizer agrees with the permissions."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import grants
import pytest
from click.testing import CliRunner, Result
from grants import Grant

import kubernetes_api
from conformance.client import Access, Client
from conformance.waiting import wait_for
from windlass.cli.main import main
from windlass.model import names
from windlass.model.settings import Settings
from windlass.wire.crd import manifests
from windlass.wire.crd.manifests import reference_crd

pytestmark = pytest.mark.kubernetes

NAMESPACE = "windlass-test"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINED = [each["metadata"]["name"] for each in manifests.definitions(has_records=True)]
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:windlass-controller"
OPTIONS: dict[str, tuple[tuple[str, ...], Settings]] = {
    "everywhere": ((), Settings()),
    "managing": (("--manage-crds",), Settings(manage_crds=True)),
    "in one namespace": (("--watch-namespace", "default"), Settings(namespaces=("default",))),
}


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with kubernetes_api.serve() as api:
        yield api.kubeconfig


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[Client]:
    """Uninstall Windlass afterwards."""
    with contextlib.closing(Client(Access.of_kubeconfig(kubeconfig))) as client:
        yield client
        result = windlass(kubeconfig, "uninstall", "--yes", "--crds", "--force")
        paths = [f"/api/v1/namespaces/{NAMESPACE}", *(f"{DEFINITIONS}/{name}" for name in DEFINED)]
        wait_for(
            f"everything to be deleted after {result.output}",
            lambda: all(client.get(path).code == 404 for path in paths),
        )


def definition(group: str) -> str:
    return f"{DEFINITIONS}/frameworks.{group}"


def windlass(kubeconfig: Path, *arguments: str) -> Result:
    place = ("--namespace", NAMESPACE, "--kubeconfig", str(kubeconfig))
    return CliRunner().invoke(main, [*arguments, *place])


def is_allowed(client: Client, grant: Grant, user: str = ACCOUNT, groups: tuple[str, ...] = ()) -> bool:
    resource, _, subresource = grant.resource.partition("/")
    attributes = {
        "group": grant.group,
        "resource": resource,
        "subresource": subresource,
        "verb": grant.verb,
        "namespace": grant.namespace,
        "name": grant.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes},
    }
    answer = client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body).expect(201)
    return bool(answer.body["status"]["allowed"])


def similar_grants(grant: Grant) -> Iterator[Grant]:
    """Return similar grants that must not be included."""
    yield Grant(grant.group, "secrets", grant.verb, grant.namespace)
    yield Grant(grant.group, grant.resource, "patch" if grant.verb != "patch" else "update", grant.namespace)
    if grant.namespace:
        yield Grant(grant.group, grant.resource, grant.verb, "kube-system", grant.name)
    if grant.name:
        yield Grant(grant.group, grant.resource, grant.verb, grant.namespace, "another")


@pytest.mark.parametrize("case", OPTIONS)
def test_authorizer_grants_exactly_the_permissions(kubeconfig: Path, client: Client, case: str) -> None:
    options, settings = OPTIONS[case]
    result = windlass(kubeconfig, "install", "--apply", *options)
    assert result.exit_code == 0, result.output

    granted = grants.granted(NAMESPACE, settings)
    wait_for("the authorizer to see the roles", lambda: is_allowed(client, min(granted)))
    assert [grant for grant in granted if not is_allowed(client, grant)] == []
    others = grants.missing(granted, {other for grant in granted for other in similar_grants(grant)})
    assert [other for other in others if is_allowed(client, other)] == []


@pytest.mark.parametrize("case", OPTIONS)
def test_service_accounts_may_only_read_gangs(kubeconfig: Path, client: Client, case: str) -> None:
    options, settings = OPTIONS[case]
    result = windlass(kubeconfig, "install", "--apply", *options)
    assert result.exit_code == 0, result.output

    def may(
        verb: str, resource: str = "gangs", group: str = names.GANG_GROUP, namespace: str = "default"
    ) -> bool:
        account = f"system:serviceaccount:{namespace}:trainer"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return is_allowed(client, Grant(group, resource, verb, namespace), account, groups)

    wait_for("the authorizer to see the roles", lambda: may("get"))
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    assert [verb for verb in verbs if may(verb)] == ["get", "list", "watch"]
    assert may("watch", namespace="kube-system") is not bool(settings.namespaces)
    for group in names.GROUPS:
        assert not may("get", "frameworks", group)
    for resource in ("pods", "configmaps", "secrets", "services"):
        assert not may("get", resource, "")


def test_applying_again_changes_nothing(kubeconfig: Path, client: Client) -> None:
    def install(*options: str) -> tuple[str, list[str]]:
        result = windlass(kubeconfig, "install", "--apply", *options)
        assert result.exit_code == 0, result.output
        return result.output, result.stdout.splitlines()

    created, _ = install("--priority-class", "system-cluster-critical")
    changed, first = install()
    output = f"{created}\nsecond time:\n{changed}"
    configured = [line.split("/")[0] for line in first if " configured" in line]
    assert configured == ["deployment.apps"], output

    unchanged, second = install()
    output = f"{output}\nthird time:\n{unchanged}"
    assert [line for line in second if " unchanged" not in line and " skipped" not in line] == [], output
    assert len(second) == len(first), output


def test_migration_from_the_reference_and_back(kubeconfig: Path, client: Client) -> None:
    """The Framework keeps its status under both definitions."""
    path = f"/apis/{names.CONTROLLER_GROUP}/v1/namespaces/default/frameworks"
    client.post(DEFINITIONS, reference_crd()).expect(201)
    wait_for("the definition to be served", lambda: client.get(path).code == 200)
    body = {
        "apiVersion": f"{names.CONTROLLER_GROUP}/v1",
        "kind": "Framework",
        "metadata": {"name": "digits"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {"x": [1]}}}}]},
        "status": {"state": "AttemptRunning", "attemptStatus": {"id": 0}},
    }
    before = client.post(path, body).expect(201).body

    taken = windlass(kubeconfig, "install", "--apply")
    wait_for("the status to be served", lambda: client.get(f"{path}/digits/status").code == 200)
    between = client.get(f"{path}/digits").body
    back = windlass(kubeconfig, "uninstall", "--yes", "--restore-reference-crd")
    wait_for("the status to go", lambda: client.get(f"{path}/digits/status").code == 404)
    after = client.get(f"{path}/digits").body

    assert "taken over from FrameworkController with its Frameworks" in taken.output
    assert "returned to FrameworkController with its Frameworks" in back.output
    for found in (between, after):
        assert found["metadata"]["uid"] == before["metadata"]["uid"]
        assert found["status"] == body["status"]
        assert found["spec"]["taskRoles"][0]["task"]["pod"] == {"spec": {"x": [1]}}
    assert "subresources" not in client.get(definition(names.CONTROLLER_GROUP)).body["spec"]["versions"][0]
