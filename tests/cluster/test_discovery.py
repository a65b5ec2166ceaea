"""Discovery and OpenAPI documents."""

import json
from typing import Final

import pytest

from conformance.client import Json
from conformance.servers import Cluster
from conformance.transcript import RecordingClient

RESOURCES: dict[str, list[str]] = {
    "/api/v1": [
        "configmaps", "endpoints", "events", "namespaces", "namespaces/finalize", "namespaces/status",
        "nodes", "nodes/status", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "pods/binding",
        "pods/exec", "pods/log", "pods/portforward", "pods/status", "secrets", "serviceaccounts", "services",
        "services/status",
    ],
    "/apis/apps/v1": [
        "deployments", "deployments/scale", "deployments/status",
        "statefulsets", "statefulsets/scale", "statefulsets/status",
    ],
    "/apis/batch/v1": ["jobs", "jobs/status"],
    "/apis/coordination.k8s.io/v1": ["leases"],
    "/apis/rbac.authorization.k8s.io/v1": ["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
    "/apis/apiextensions.k8s.io/v1": ["customresourcedefinitions", "customresourcedefinitions/status"],
}  # fmt: skip


def test_core_api_versions(api: RecordingClient) -> None:
    found = api.unrecorded.get("/api").expect(200).body
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


@pytest.mark.parametrize("path", RESOURCES, ids=[path.strip("/").replace("/", ".") for path in RESOURCES])
def test_resource_lists(api: RecordingClient, path: str) -> None:
    """A server may have more resources than these."""
    found = api.unrecorded.get(path).expect(200).body
    assert (found["kind"], found["groupVersion"]) == (
        "APIResourceList",
        path.removeprefix("/apis/").removeprefix("/api/"),
    )
    rows = {resource["name"]: resource for resource in found["resources"]}
    missing = [name for name in RESOURCES[path] if name not in rows]
    assert not missing
    api.note(path, {"kind": found["kind"], "resources": [rows[name] for name in RESOURCES[path]]})


def test_group_list(api: RecordingClient) -> None:
    found = api.unrecorded.get("/apis").expect(200).body
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in found["groups"]}
    wanted = ["apps", "batch", "coordination.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io"]
    for name in wanted:
        assert groups[name]["preferredVersion"] == {"groupVersion": f"{name}/v1", "version": "v1"}
        alone = api.unrecorded.get(f"/apis/{name}").expect(200).body
        assert (alone["kind"], alone["name"]) == ("APIGroup", name)


def test_server_version(api: RecordingClient, cluster: Cluster) -> None:
    found = api.unrecorded.get("/version").expect(200).body
    assert found == cluster.versions
    assert {"major", "minor", "gitVersion", "platform"} <= found.keys()
    assert found["gitVersion"].startswith(f"v{found['major']}.{found['minor'].rstrip('+')}")


def test_openapi_schemas_name_their_kinds(api: RecordingClient) -> None:
    found = json.loads(api.unrecorded.get("/openapi/v2").expect(200).raw)
    kinds = {
        (kind["group"], kind["version"], kind["kind"])
        for schema in found["definitions"].values()
        for kind in schema.get("x-kubernetes-group-version-kind", [])
    }
    assert {("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("batch", "v1", "Job")} <= kinds


KINDS: Final = {
    "": [
        "ConfigMap", "Endpoints", "Event", "Namespace", "Node", "PersistentVolumeClaim", "Pod", "Secret", "Service",
        "ServiceAccount",
    ],
    "apiextensions.k8s.io": ["CustomResourceDefinition"],
    "apps": ["Deployment", "ReplicaSet", "StatefulSet"],
    "batch": ["Job"],
    "coordination.k8s.io": ["Lease"],
    "rbac.authorization.k8s.io": ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
}  # fmt: skip
REFERENCE: Final = "#/definitions/"
MERGE_EXTENSIONS: Final = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key")


def test_openapi_has_merge_extensions(api: RecordingClient) -> None:
    """The merge keys and strategies by type and field. tests/k8s/test_strategic_merge.py reads the transcript too."""
    definitions = json.loads(api.unrecorded.get("/openapi/v2").expect(200).raw)["definitions"]
    roots = [name for name, schema in definitions.items() if _is_of_listed_kind(schema)]
    assert len(roots) == sum(len(kinds) for kinds in KINDS.values())
    rules = {name: _merge_rules(definitions[name]) for name in sorted(_reached(definitions, roots))}
    api.note("merge rules", {name: fields for name, fields in rules.items() if fields})


def _is_of_listed_kind(schema: Json) -> bool:
    return any(
        kind["version"] == "v1" and kind["kind"] in KINDS.get(kind["group"], [])
        for kind in schema.get("x-kubernetes-group-version-kind", [])
    )


def _reached(definitions: Json, roots: list[str]) -> set[str]:
    """Return the names of the schemas, and of all that they refer to."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(definitions[name])
    return found


def _references(schema: Json) -> list[str]:
    if isinstance(schema, dict):
        target = schema.get("$ref")
        own = [target.removeprefix(REFERENCE)] if isinstance(target, str) else []
        return own + [name for value in schema.values() for name in _references(value)]
    return [name for item in schema for name in _references(item)] if isinstance(schema, list) else []


def _merge_rules(schema: Json) -> Json:
    rules = {
        field: [declared[extension] for extension in MERGE_EXTENSIONS if extension in declared]
        for field, declared in schema.get("properties", {}).items()
    }
    return {field: rule for field, rule in sorted(rules.items()) if rule}
