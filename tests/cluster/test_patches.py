"""JSON patches, merge patches, and strategic merge patches of built-in kinds."""

from typing import Any

import pytest

from conformance.objects import (
    Namespace,
    Widgets,
    config_map,
    definition,
    deployment,
    establish,
    pod,
    service,
    template,
    version,
)
from conformance.transcript import RecordingClient

Patch = Any

JSON_PATCHES: dict[str, tuple[Patch, int]] = {
    "add": ([{"op": "add", "path": "/data/new", "value": "1"}], 200),
    "add-replaces": ([{"op": "add", "path": "/data/k", "value": "2"}], 200),
    "add-escaped": ([{"op": "add", "path": "/metadata/annotations/example.com~1a", "value": "x"}], 200),
    "add-escaped-tilde": ([{"op": "add", "path": "/metadata/annotations/a~0b", "value": "x"}], 422),
    "append": ([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"}], 200),
    "insert": ([{"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/c"}], 200),
    "remove": ([{"op": "remove", "path": "/data/k"}], 200),
    "remove-index": ([{"op": "remove", "path": "/metadata/finalizers/0"}], 200),
    "remove-missing": ([{"op": "remove", "path": "/data/missing"}], 422),
    "replace": ([{"op": "replace", "path": "/data", "value": {"z": "26"}}], 200),
    "replace-missing": ([{"op": "replace", "path": "/data/missing", "value": "1"}], 200),
    "add-below-missing": ([{"op": "add", "path": "/binaryData/k", "value": "MQ=="}], 422),
    "move": ([{"op": "move", "from": "/data/k", "path": "/data/moved"}], 200),
    "copy": ([{"op": "copy", "from": "/data/k", "path": "/data/copied"}], 200),
    "test": ([{"op": "test", "path": "/data/k", "value": "1"}], 200),
    "test-missing": ([{"op": "test", "path": "/data/missing", "value": "1"}], 422),
    "several": (
        [
            {"op": "add", "path": "/data/new", "value": "1"},
            {"op": "copy", "from": "/data/new", "path": "/data/newer"},
            {"op": "remove", "path": "/data/new"},
        ],
        200,
    ),
    "one-of-several-fails": (
        [{"op": "add", "path": "/data/new", "value": "1"}, {"op": "remove", "path": "/data/missing"}],
        422,
    ),
    "unknown-operation": ([{"op": "increment", "path": "/data/k", "value": "1"}], 422),
    "nothing": ([], 200),
    "not-a-list": ({"data": {"k": "2"}}, 400),
    "wrong-type": ([{"op": "replace", "path": "/data", "value": "text"}], 422),
    "wrong-type-of-a-value": ([{"op": "replace", "path": "/data/k", "value": 5}], 422),
    "renames": ([{"op": "replace", "path": "/metadata/name", "value": "b"}], 400),
    "invalid-result": ([{"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}}], 422),
}

MERGE_PATCHES: dict[str, tuple[Patch, int]] = {
    "set": ({"data": {"new": "1"}}, 200),
    "null-removes": ({"data": {"k": None}}, 200),
    "null-removes-all": ({"data": None}, 200),
    "null-of-what-is-missing": ({"data": {"missing": None}}, 200),
    "list-is-replaced": ({"metadata": {"finalizers": ["example.com/c"]}}, 200),
    "unknown-field": ({"nothing": {"k": "1"}}, 200),
    "empty": ({}, 200),
    "status-of-nothing": ({"kind": "ConfigMap", "apiVersion": "v1"}, 200),
    "another-kind": ({"kind": "Secret"}, 422),
    "another-version": ({"apiVersion": "v2"}, 422),
    "renames": ({"metadata": {"name": "b"}}, 400),
    "moves": ({"metadata": {"namespace": "elsewhere"}}, 400),
    "wrong-type": ({"data": "text"}, 422),
    "wrong-type-of-a-value": ({"data": {"k": 5}}, 422),
    "list": ([{"data": {}}], 400),
    "invalid-result": ({"metadata": {"labels": {"a b": "c"}}}, 422),
    "invalid-key": ({"data": {"a/b": "c"}}, 422),
}

STRATEGIC_MAPS: dict[str, tuple[Patch, int]] = {
    "set": ({"data": {"new": "1"}}, 200),
    "null-removes": ({"data": {"k": None}}, 200),
    "replace-directive": ({"data": {"$patch": "replace", "z": "26"}}, 200),
    "delete-directive": ({"data": {"$patch": "delete"}}, 200),
    "finalizers-are-merged": ({"metadata": {"finalizers": ["example.com/c"]}}, 200),
    "finalizer-is-removed": ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b"]}}, 200),
    "unknown-field": ({"nothing": 1}, 200),
    "unknown-directive": ({"data": {"$patch": "explode"}}, 500),
    "list": ([], 400),
}

STARTING_MAP = config_map(
    "a",
    {"k": "1", "kept": "yes"},
    finalizers=["example.com/a", "example.com/b"],
    annotations={"example.com/kept": "yes"},
)


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        pytest.param(kind, body, code, id=f"{kind}-{name}")
        for kind, cases in (("json", JSON_PATCHES), ("merge", MERGE_PATCHES), ("strategic", STRATEGIC_MAPS))
        for name, (body, code) in cases.items()
    ],
)
def test_config_map_patches(
    api: RecordingClient, namespace: Namespace, kind: str, body: Patch, code: int
) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, STARTING_MAP).expect(201)
    patched = api.patch(f"{maps}/a", body, kind).expect(code)
    stored = api.unrecorded.get(f"{maps}/a").body
    api.unrecorded.patch(f"{maps}/a", {"metadata": {"finalizers": None}})
    unchanged = {"data": STARTING_MAP["data"], "finalizers": STARTING_MAP["metadata"]["finalizers"]}
    if code == 200:
        assert patched.body == stored
    else:
        assert {"data": stored["data"], "finalizers": stored["metadata"]["finalizers"]} == unchanged


STARTING_SPEC = {
    "replicas": 2,
    "template": {
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "windlass/test:1",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "ports": [{"containerPort": 80}, {"containerPort": 81}],
                    "volumeMounts": [{"name": "x", "mountPath": "/x"}, {"name": "y", "mountPath": "/y"}],
                    "command": ["one", "two"],
                },
                {"name": "side", "image": "windlass/test:1"},
            ],
            "volumes": [{"name": "x", "emptyDir": {}}, {"name": "y", "hostPath": {"path": "/y"}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "one"}],
            "hostAliases": [{"ip": "10.1.1.1", "hostnames": ["one"]}],
        },
    },
}


def inside(**spec: Any) -> Patch:
    return {"spec": {"template": {"spec": spec}}}


def inside_main(**container: Any) -> Patch:
    return inside(containers=[{"name": "main", **container}])


STRATEGIC_DEPLOYMENTS: dict[str, tuple[Patch, int]] = {
    "containers-by-name": (inside_main(image="windlass/test:2"), 200),
    "container-is-added": (inside(containers=[{"name": "third", "image": "windlass/test:3"}]), 200),
    "container-is-deleted": (inside(containers=[{"name": "side", "$patch": "delete"}]), 200),
    "containers-are-replaced": (
        inside(containers=[{"$patch": "replace"}, {"name": "only", "image": "windlass/test:2"}]),
        200,
    ),
    "containers-are-ordered": (
        inside(
            **{"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]},
            containers=[{"name": "side"}],
        ),
        200,
    ),
    "container-without-its-key": (inside(containers=[{"image": "windlass/test:2"}]), 500),
    "environment-by-name": (inside_main(env=[{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]), 200),
    "environment-from-elsewhere": (
        inside_main(
            env=[{"name": "B", "value": None, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        ),
        200,
    ),
    "environment-is-deleted": (inside_main(env=[{"name": "A", "$patch": "delete"}]), 200),
    "ports-by-number": (inside_main(ports=[{"containerPort": 81, "name": "http"}]), 200),
    "mounts-by-path": (inside_main(volumeMounts=[{"mountPath": "/y", "name": "y", "readOnly": True}]), 200),
    "command-is-replaced": (inside_main(command=["three"]), 200),
    "volumes-by-name": (inside(volumes=[{"name": "x", "emptyDir": {"medium": "Memory"}}]), 200),
    "volume-changes-its-source": (
        inside(volumes=[{"name": "y", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]),
        200,
    ),
    "volume-of-two-sources": (inside(volumes=[{"name": "y", "emptyDir": {}}]), 422),
    "tolerations-are-replaced": (inside(tolerations=[{"key": "b", "operator": "Exists"}]), 200),
    "secrets-by-name": (inside(imagePullSecrets=[{"name": "two"}]), 200),
    "aliases-by-address": (inside(hostAliases=[{"ip": "10.1.1.1", "hostnames": ["two"]}]), 200),
    "replicas": ({"spec": {"replicas": 5}}, 200),
    "strategy-keeps-its-keys": (
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        200,
    ),
    "strategy-of-two-kinds": ({"spec": {"strategy": {"type": "Recreate"}}}, 422),
    "conditions-of-status-are-not-here": ({"status": {"replicas": 7}}, 200),
    "wrong-type": ({"spec": {"replicas": "many"}}, 422),
}


@pytest.mark.parametrize(("body", "code"), STRATEGIC_DEPLOYMENTS.values(), ids=STRATEGIC_DEPLOYMENTS)
def test_deployment_strategic_merge_patches(
    api: RecordingClient, namespace: Namespace, body: Patch, code: int
) -> None:
    deployments = namespace.path("deployments")
    api.unrecorded.post(deployments, deployment("a", **STARTING_SPEC)).expect(201)
    api.patch(f"{deployments}/a", body, "strategic").expect(code)


def test_service_ports_merge_by_number(api: RecordingClient, namespace: Namespace) -> None:
    services = namespace.path("services")
    ports = [{"name": "http", "port": 80}, {"name": "https", "port": 443}]
    api.post(services, service("a", clusterIP="None", ports=ports)).expect(201)
    body = {"spec": {"ports": [{"port": 443, "targetPort": 8443}, {"name": "more", "port": 99}]}}
    found = api.patch(f"{services}/a", body, "strategic").expect(200).body["spec"]["ports"]
    assert {port["port"]: port["targetPort"] for port in found} == {80: 80, 443: 8443, 99: 99}


def test_conditions_and_owner_references_merge_by_key(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"00000000-0000-0000-0000-00000000000{n}"}
              for n, name in enumerate(("one", "two"))]  # fmt: skip
    api.post(pods, pod("a", finalizers=["example.com/hold"])).expect(201)
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]
    for condition in conditions:
        api.patch(f"{pods}/a/status", {"status": {"conditions": [condition]}}, "strategic").expect(200)
    found = api.patch(
        f"{pods}/a/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "strategic"
    ).expect(200)
    assert {each["type"]: each["status"] for each in found.body["status"]["conditions"]} == {
        "Ready": "True",
        "Initialized": "True",
    }
    config = namespace.path("configmaps")
    api.post(config, config_map("a", finalizers=["example.com/hold"])).expect(201)
    for each in owners:
        api.patch(f"{config}/a", {"metadata": {"ownerReferences": [each]}}, "strategic", dryRun="All").expect(
            200
        )


CUSTOM: dict[str, tuple[str, Patch, int]] = {
    "json": ("json", [{"op": "replace", "path": "/spec/size", "value": 2}], 200),
    "json-append": ("json", [{"op": "add", "path": "/spec/tags/-", "value": "c"}], 200),
    "json-wrong-type": ("json", [{"op": "replace", "path": "/spec/size", "value": "big"}], 422),
    "merge": ("merge", {"spec": {"size": 2}}, 200),
    "merge-list": ("merge", {"spec": {"tags": ["c"]}}, 200),
    "merge-null": ("merge", {"spec": {"tags": None}}, 200),
    "merge-pruned": ("merge", {"spec": {"unknown": 1}}, 200),
    "merge-wrong-type": ("merge", {"spec": {"size": "big"}}, 422),
    "strategic": ("strategic", {"spec": {"size": 2}}, 415),
}


@pytest.mark.parametrize(("kind", "body", "code"), CUSTOM.values(), ids=CUSTOM)
def test_custom_resource_patches(
    api: RecordingClient, widgets: Widgets, kind: str, body: Patch, code: int
) -> None:
    tags = {"type": "array", "items": {"type": "string"}}
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "tags": tags}}
    establish(
        api.unrecorded, definition(widgets.group, version({"type": "object", "properties": {"spec": spec}}))
    )
    api.unrecorded.post(widgets.path(), widgets.body("a", spec={"size": 1, "tags": ["a", "b"]})).expect(201)
    api.patch(widgets.path("a"), body, kind).expect(code)


@pytest.mark.parametrize("kind", ["json", "merge", "strategic"])
def test_patch_of_missing_object_is_not_found(api: RecordingClient, namespace: Namespace, kind: str) -> None:
    body: Patch = [] if kind == "json" else {"data": {"k": "1"}}
    api.patch(namespace.path("configmaps", "missing"), body, kind).expect(404)


@pytest.mark.parametrize(
    "content",
    ["application/json", "application/yaml", "application/xml-patch+xml", "text/plain", ""],
    ids=["json", "yaml", "xml", "text", "none"],
)
def test_unknown_patch_type_is_rejected(api: RecordingClient, namespace: Namespace, content: str) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a"))
    api.patch(f"{maps}/a", {"data": {"k": "1"}}, headers={"Content-Type": content}).expect(415)


@pytest.mark.parametrize("kind", ["json", "merge", "strategic"])
@pytest.mark.parametrize("text", [b"{", b"", b"null", b'"text"'], ids=["cut", "empty", "null", "string"])
def test_invalid_patch_is_rejected(
    api: RecordingClient, namespace: Namespace, kind: str, text: bytes
) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a", {"k": "1"}))
    api.patch(f"{maps}/a", text, kind)
    assert api.get(f"{maps}/a").body["data"] == {"k": "1"}


def test_patched_template_must_match_selector(api: RecordingClient, namespace: Namespace) -> None:
    deployments = namespace.path("deployments")
    api.unrecorded.post(deployments, deployment("a")).expect(201)
    api.patch(f"{deployments}/a", {"spec": {"template": template("b")}}).expect(422)
