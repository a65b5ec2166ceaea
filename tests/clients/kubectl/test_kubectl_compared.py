"""kubectl prints the same for the same objects on both servers."""

import json

import pytest
from tests.clients.kubectl.normalised import normalised
from tests.clients.kubectl.runs import Kubectl

from conformance import objects

pytestmark = pytest.mark.kubernetes

Both = tuple[Kubectl, Kubectl]

TABLES = (
    "get pods",
    "get pods -o wide",
    "get pods --show-labels",
    "get pods -L app,tier",
    "get pods,services",
    "get services -o wide",
    "get endpoints",
    "get configmaps",
    "get secrets",
    "get serviceaccounts",
    "get deployments -o wide",
    "get statefulsets -o wide",
    "get jobs",
    "get leases",
    "get roles",
    "get rolebindings -o wide",
    "get events",
    "get events -o wide",
    "get widgets",
    "get widgets -o wide",
    "get all",
    "get crd widgets.clients.example.com",
    "get pod web-0 --no-headers",
    "get pods -l nothing=here",
    "get pod nosuch",
    "get widget nosuch",
    "get nosuch",
    "get pods --field-selector=nosuch=1",
    "get pods -l a=b=c",
    "get widgets -o custom-columns=N:.metadata.name,S:.spec.size,NONE:.spec.none",
    "get deployment,statefulset -o jsonpath={.items[*].spec.replicas}",
)
DESCRIPTIONS = (
    "describe pod web-0",
    "describe pod worker-0",
    "describe service web",
    "describe service peers",
    "describe configmap settings",
    "describe secret password",
    "describe deployment web",
    "describe statefulset store",
    "describe job once",
    "describe lease leader",
    "describe role reader",
    "describe rolebinding readers",
    "describe widget small",
    "describe serviceaccount robot",
)
REFUSALS = (
    "scale deployment nosuch --replicas=1",
    "delete pod nosuch",
    "label pod web-0 a=!",
    'patch pod web-0 -p {"spec":{"containers":[{"name":"main","image":""}]}}',
    'patch pod web-0 --type=json -p [{"op":"remove","path":"/nosuch"}]',
    'patch widget small --type=merge -p {"spec":{"size":-1}}',
    'patch widget small --type=merge -p {"spec":null}',
    'patch service web --type=merge -p {"spec":{"ports":[]}}',
    'patch deployment web --type=merge -p {"spec":{"replicas":-1}}',
    "get --raw /api/v1/namespaces/nosuch/pods/p",
    "get --raw /api/v1/nosuch",
    "get --raw /nosuch",
    "create namespace default --dry-run=server",
)
PERMISSIONS = (
    "auth can-i list pods",
    "auth can-i list pods --as=jane",
    "auth can-i create selfsubjectaccessreviews --as=jane",
    "auth can-i get /version --as=jane",
    "auth can-i get /metrics --as=jane",
    "auth can-i --list --as=jane",
    "auth whoami --as=jane --as-group=team",
    "get secrets --as=jane",
    "create rolebinding mine --clusterrole=admin --user=jane --as=jane",
)
EXPLAINED = (
    "pod",
    "pod.spec",
    "pod.spec.containers",
    "pod.spec.containers.livenessProbe",
    "pod.spec.affinity.podAffinity",
    "pod.status.containerStatuses.state",
    "pod.metadata",
    "service.spec",
    "deployment.spec.strategy",
    "statefulset.spec.volumeClaimTemplates",
    "job.spec",
    "lease.spec",
    "role.rules",
    "crd.spec.versions",
    "widget.spec",
)


def printed(kubectl: Kubectl, command: str) -> tuple[int, list[str], list[str]]:
    outcome = kubectl.run(*command.split(" "))
    return outcome.code, normalised(outcome.output), normalised(outcome.errors)


@pytest.mark.parametrize("command", [*TABLES, *DESCRIPTIONS, *REFUSALS, *PERMISSIONS])
def test_output_is_the_same_on_both_servers(both: Both, command: str) -> None:
    mine, theirs = both
    assert printed(mine, command) == printed(theirs, command)


@pytest.mark.parametrize("what", EXPLAINED)
def test_explain_has_the_fields_of_kubernetes(both: Both, what: str) -> None:
    """The descriptions differ, but the fields and which of them are lists are the same."""
    mine, theirs = (fields(kubectl, what) for kubectl in both)
    assert theirs
    assert mine == theirs


def fields(kubectl: Kubectl, what: str) -> set[tuple[str, bool]]:
    """Return the names of the fields, and whether each is a list."""
    shown = kubectl("explain", what, "--recursive").splitlines()
    pairs = (line.split()[:2] for line in shown if "\t<" in line)
    return {(name, kind.startswith("<[]")) for name, kind in pairs}


@pytest.mark.parametrize(
    "verb", ["get", "list", "create", "update", "patch", "delete", "watch", "deletecollection"]
)
def test_api_resources_are_a_subset_of_kubernetes(both: Both, verb: str) -> None:
    """Every kind of the embedded server exists in Kubernetes, with the same short names and scope."""
    mine, theirs = (
        {tuple(row) for row in kubectl.rows("api-resources", f"--verbs={verb}", "--no-headers")}
        for kubectl in both
    )
    assert mine
    # Other tests define Frameworks on either server, and may have run on one of them only.
    assert {row for row in mine - theirs if row[-1] != "Framework"} == set()


def test_pod_defaults_are_the_same(both: Both) -> None:
    mine, theirs = (
        kubectl.json("create", "-f", "-", "--dry-run=server", stdin=json.dumps(objects.pod("p")))
        for kubectl in both
    )
    assert mine["spec"] == theirs["spec"]
