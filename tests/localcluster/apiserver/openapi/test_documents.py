"""The published OpenAPI documents."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from typing import Any

import jsonschema
import lightkube.models
import msgspec
import pytest

from windlass.k8s import strategic_merge
from windlass.k8s import types as k8s_types
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import documents as openapi_documents
from windlass.localcluster.apiserver.openapi import schemas, v2_protobuf
from windlass.localcluster.apiserver.openapi.schemas import Dialect
from windlass.localcluster.apiserver.schemas import structural
from windlass.localcluster.apiserver.strategy import Strategy

TEXT = {"type": "string"}


def kind(group: str, version: str, name: str, plural: str, **more: Any) -> Kind:
    described: dict[str, Any] = {"namespaced": True, "type_name": f"V1{name}"} | more
    return Kind(
        group=group,
        version=version,
        kind=name,
        plural=plural,
        singular=name.lower(),
        list_kind=f"{name}List",
        schema=structural.StructuralSchema({}),
        strategy=Strategy(),
        **described,
    )


def widget(spec: dict[str, Any], version: str = "v1") -> Kind:
    schema = {
        "type": "object",
        "description": "A widget of ours.",
        "properties": {"apiVersion": {"type": "string", "description": "Ours, too."}, "spec": spec},
    }
    more = {"type_name": "", "subresources": ("scale", "status"), "published_schema": schema}
    return kind("example.com", version, "Widget", "widgets", **more)


KINDS = [
    kind("batch", "v1", "Job", "jobs", subresources=("status",)),
    kind(
        "",
        "v1",
        "Pod",
        "pods",
        subresources=("status", "log", "exec", "attach", "portforward", "eviction", "binding"),
    ),
    kind("", "v1", "ConfigMap", "configmaps"),
    kind("", "v1", "Event", "events", type_name="CoreV1Event"),
    kind("", "v1", "Namespace", "namespaces", namespaced=False, subresources=("status", "finalize")),
    kind("apps", "v1", "Deployment", "deployments", subresources=("status", "scale")),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False),
    kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
    ),
    widget({"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}}),
    widget({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, version="v1alpha1"),
]
VERSIONS = sorted({(each.group, each.version) for each in KINDS})


def documents() -> dict[str, dict[str, Any]]:
    newer = {
        f"{group}/{version}": openapi_documents.document_v3(KINDS, group, version)
        for group, version in VERSIONS
    }
    return {"v2": openapi_documents.document_v2(KINDS)} | {name: each for name, each in newer.items() if each}


DOCUMENTS = documents()
every_document = pytest.mark.parametrize("name", DOCUMENTS)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


@every_document
def test_references_resolve_and_operation_ids_are_unique(name: str) -> None:
    document = DOCUMENTS[name]
    held = document["definitions"] if name == "v2" else document["components"]["schemas"]
    prefix = "#/definitions/" if name == "v2" else "#/components/schemas/"
    assert {reference.removeprefix(prefix) for reference in references(document)} <= held.keys()
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids)) > 0


@every_document
def test_kubectl_can_see_that_dry_runs_and_field_validation_are_supported(name: str) -> None:
    patches = [operation for _, method, operation in operations(DOCUMENTS[name]) if method == "patch"]
    assert patches
    for operation in patches:
        query = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"}
        assert {"dryRun", "fieldValidation"} <= query


@every_document
def test_path_parameters_are_declared(name: str) -> None:
    for path, methods in DOCUMENTS[name]["paths"].items():
        declared = [parameter["name"] for parameter in methods.get("parameters", [])]
        assert declared == [part[1:-1] for part in path.split("/") if part.startswith("{")]


def test_documents_do_not_depend_on_the_order_of_kinds() -> None:
    backwards = KINDS[::-1]
    assert json.dumps(openapi_documents.document_v2(backwards)) == json.dumps(
        openapi_documents.document_v2(KINDS)
    )
    assert json.dumps(openapi_documents.index_v3(backwards)) == json.dumps(openapi_documents.index_v3(KINDS))


@pytest.mark.parametrize(
    ("path", "method", "operation_id", "action", "gvk"),
    [
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces", "list", "/v1/Pod"),
        (
            "/api/v1/namespaces/{namespace}/pods",
            "delete",
            "deleteCoreV1CollectionNamespacedPod",
            "deletecollection",
            "/v1/Pod",
        ),
        ("/api/v1/namespaces/{namespace}/pods/{name}", "get", "readCoreV1NamespacedPod", "get", "/v1/Pod"),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "post",
            "connectCoreV1PostNamespacedPodExec",
            "connect",
            "/v1/PodExecOptions",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "post",
            "createCoreV1NamespacedPodEviction",
            "post",
            "policy/v1/Eviction",
        ),
        ("/api/v1/namespaces/{name}", "put", "replaceCoreV1Namespace", "put", "/v1/Namespace"),
        (
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "patch",
            "patchAppsV1NamespacedDeploymentScale",
            "patch",
            "autoscaling/v1/Scale",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "post",
            "createRbacAuthorizationV1ClusterRole",
            "post",
            "rbac.authorization.k8s.io/v1/ClusterRole",
        ),
        (
            "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status",
            "put",
            "replaceExampleComV1NamespacedWidgetStatus",
            "put",
            "example.com/v1/Widget",
        ),
    ],
)
def test_operations_are_named_as_in_kubernetes(
    path: str, method: str, operation_id: str, action: str, gvk: str
) -> None:
    group, version, name = gvk.split("/")
    operation = DOCUMENTS["v2"]["paths"][path][method]
    assert operation["operationId"] == operation_id
    assert operation["x-kubernetes-action"] == action
    assert operation["x-kubernetes-group-version-kind"] == {"group": group, "version": version, "kind": name}


def test_namespaces_have_no_deletecollection() -> None:
    assert DOCUMENTS["v2"]["paths"]["/api/v1/namespaces"].keys() == {"get", "post"}


def test_only_built_in_kinds_accept_strategic_merge_patches() -> None:
    paths = DOCUMENTS["v2"]["paths"]
    strategic_patch = "application/strategic-merge-patch+json"
    assert strategic_patch in paths["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]["consumes"]
    custom = paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert custom["consumes"] == ["application/json-patch+json", "application/merge-patch+json"]


def test_type_names_have_their_go_package() -> None:
    """lightkube has one module per package, generated from Kubernetes' own document."""
    modules = [
        f"lightkube.models.{module.name}" for module in pkgutil.iter_modules(lightkube.models.__path__)
    ]
    expected = {
        (module.rpartition(".")[2], name)
        for module in modules
        for name, value in vars(importlib.import_module(module)).items()
        if getattr(value, "__module__", "") == module
    }
    names = [schemas.definition_name(name) for name in k8s_types.types()]
    assert len(set(names)) == len(names)
    found = {
        (f"{package}_{version}", name) for *_, package, version, name in (each.split(".") for each in names)
    }
    assert found <= expected


def test_invalid_type_name_raises() -> None:
    with pytest.raises(ValueError, match="such as V1Pod: 'Pod'"):
        schemas.definition_name("Pod")


def test_built_in_kinds() -> None:
    definitions = schemas.definitions(KINDS, Dialect.SWAGGER)
    pod = definitions["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    assert pod["properties"]["spec"] == {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}
    assert definitions["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]
    assert definitions["io.k8s.api.core.v1.EventList"]["properties"]["items"] == {
        "type": "array",
        "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Event"},
    }
    assert definitions["io.k8s.api.autoscaling.v1.Scale"]["x-kubernetes-group-version-kind"] == [
        {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    ]


def test_only_reachable_types_are_defined() -> None:
    definitions = schemas.definitions([kind("", "v1", "ConfigMap", "configmaps")], Dialect.SWAGGER)
    assert "io.k8s.api.core.v1.ConfigMap" in definitions
    assert "io.k8s.api.core.v1.Pod" not in definitions
    assert "io.k8s.api.autoscaling.v1.Scale" not in definitions


@pytest.mark.parametrize(
    ("type_name", "field", "older", "newer"),
    [
        ("V1ConfigMap", "data", {"type": "object", "additionalProperties": TEXT}, None),
        ("V1ConfigMap", "immutable", {"type": "boolean"}, None),
        (
            "V1Secret",
            "data",
            {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
            None,
        ),
        ("V1ContainerPort", "containerPort", {"type": "integer", "format": "int64"}, None),
        ("V1JSONSchemaProps", "default", {"description": "Any value"}, None),
        (
            "V1PodSpec",
            "containers",
            {
                "type": "array",
                "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Container"},
                "x-kubernetes-patch-merge-key": "name",
                "x-kubernetes-patch-strategy": "merge",
            },
            None,
        ),
        (
            "V1ObjectMeta",
            "finalizers",
            {"type": "array", "items": TEXT, "x-kubernetes-patch-strategy": "merge"},
            None,
        ),
        (
            "V1DeploymentSpec",
            "strategy",
            {
                "$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy",
                "x-kubernetes-patch-strategy": "retainKeys",
            },
            {
                "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
                "x-kubernetes-patch-strategy": "retainKeys",
            },
        ),
        (
            "V1ObjectMeta",
            "creationTimestamp",
            {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
            None,
        ),
    ],
)
def test_fields(type_name: str, field: str, older: dict[str, Any], newer: dict[str, Any] | None) -> None:
    """Apart from the cases above, the dialects differ in the prefix of references only."""
    swagger = schemas.type_schema(type_name, schemas.Dialect.SWAGGER)
    assert swagger["properties"][field] == older
    same = json.loads(json.dumps(older).replace("#/definitions/", "#/components/schemas/"))
    three = schemas.type_schema(type_name, schemas.Dialect.OPENAPI)
    assert three["properties"][field] == (newer or same)


def test_every_merge_rule_is_published() -> None:
    for type_name, fields in strategic_merge.RULES.items():
        schema = schemas.type_schema(type_name, schemas.Dialect.SWAGGER)
        for field, rule in fields.items():
            assert schema["properties"][field]["x-kubernetes-patch-strategy"] == rule.strategy


def pod(**container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "a", **container}]},
    }


@pytest.mark.parametrize(
    ("obj", "is_valid"),
    [
        (pod(resources={"limits": {"cpu": 1, "memory": "1Gi"}}), True),
        (pod(livenessProbe={"httpGet": {"port": 80}}), True),
        (pod(livenessProbe={"httpGet": {"port": "http"}}), True),
        (pod(livenessProbe={"httpGet": {"port": True}}), False),
        (pod(resources={"limits": {"cpu": []}}), False),
        (pod(ports=[{"hostPort": 80}]), False),
        (pod(args="not a list"), False),
    ],
)
def test_openapi_document_validates_objects(obj: dict[str, Any], is_valid: bool) -> None:
    document = DOCUMENTS["/v1"]
    schema = {"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod", "components": document["components"]}
    assert jsonschema.Draft4Validator(schema).is_valid(obj) == is_valid


def test_custom_kind_keeps_descriptions_and_full_schema() -> None:
    spec = {"type": "object", "nullable": True, "anyOf": [{"required": ["a"]}], "properties": {"a": TEXT}}
    document = openapi_documents.document_v3([widget(spec)], "example.com", "v1")
    assert document is not None
    schema = document["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["description"] == "A widget of ours."
    assert schema["properties"]["apiVersion"]["description"] == "Ours, too."
    assert schema["properties"]["spec"] == spec
    assert schema["properties"]["metadata"] == {
        "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    }
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Widget"}
    ]


def test_index_hash_changes_only_with_its_document() -> None:
    before = openapi_documents.index_v3(KINDS)["paths"]
    assert list(before) == [
        "api/v1",
        "apis/apps/v1",
        "apis/batch/v1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/example.com/v1",
        "apis/example.com/v1alpha1",
    ]
    assert before["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")
    changed = [widget({"type": "object"}), *(each for each in KINDS if each.api_version != "example.com/v1")]
    after = openapi_documents.index_v3(changed)["paths"]
    assert [path for path in before if before[path] != after[path]] == ["apis/example.com/v1"]


def test_unserved_version_has_no_document() -> None:
    assert openapi_documents.document_v3(KINDS, "example.com", "v2") is None


def test_swagger_document_can_be_encoded_as_protobuf() -> None:
    encoded = v2_protobuf.encode(DOCUMENTS["v2"])
    assert all(name.encode() in encoded for name in DOCUMENTS["v2"]["definitions"])


def test_documents_are_plain_json() -> None:
    assert json.loads(msgspec.json.encode(DOCUMENTS)) == DOCUMENTS
