"""Defaults and errors of many objects that are created with a dry run."""

import json
from pathlib import Path
from typing import Final

import pytest

from conformance.client import Json
from conformance.objects import Namespace, path
from conformance.transcript import RecordingClient

PLURALS: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "Endpoints": "endpoints",
    "Event": "events",
    "Job": "jobs",
    "Lease": "leases",
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "StatefulSet": "statefulsets",
}
CLUSTER_WIDE: Final = ("ClusterRole", "ClusterRoleBinding", "Namespace")
LINES: Final = Path(__file__).with_name("objects.jsonl").read_text(encoding="utf-8").splitlines()
CASES: Final = {case["case"]: case["given"] for case in map(json.loads, LINES)}


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_defaults_and_errors_of_created_objects(
    api: RecordingClient, namespace: Namespace, given: Json
) -> None:
    inside = "" if given["kind"] in CLUSTER_WIDE else namespace.name
    where = path(PLURALS[given["kind"]], namespace=inside, group=given["apiVersion"])
    answer = api.post(where, given, dryRun="All")
    assert answer.code in (201, 403, 422)
