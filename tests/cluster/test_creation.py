"""Creation of objects, and the errors for invalid ones."""

from typing import Any

import pytest

from conformance.client import Json
from conformance.objects import (
    Namespace,
    config_map,
    deployment,
    job,
    lease,
    pod,
    secret,
    service,
    stateful_set,
)
from conformance.transcript import RecordingClient


def test_duplicate_name_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    created = api.post(maps, config_map("a", {"k": "1"})).expect(201)
    refused = api.post(maps, config_map("a", {"k": "2"})).expect(409)
    assert refused.reason == "AlreadyExists"
    assert api.get(f"{maps}/a").expect(200).body == created.body


def test_generate_name_adds_random_suffix(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    one, two = (api.post(maps, nameless).expect(201).body["metadata"]["name"] for _ in range(2))
    assert one != two
    assert all(len(name) == len("made-12345") and name.startswith("made-") for name in (one, two))
    both = {**nameless, "metadata": {"generateName": "made-", "name": "given"}}
    assert api.post(maps, both).expect(201).body["metadata"]["name"] == "given"


def test_generated_name_is_truncated(api: RecordingClient, namespace: Namespace) -> None:
    prefix = "x" * 62
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": prefix}}
    created = api.unrecorded.post(namespace.path("configmaps"), nameless).expect(201)
    assert len(created.body["metadata"]["name"]) == 63


def test_invalid_generate_name_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "A_"}}
    refused = api.unrecorded.post(namespace.path("configmaps"), nameless).expect(422)
    causes = refused.body["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["metadata.generateName", "metadata.name"]


BODIES: dict[str, tuple[Any, int]] = {
    "no-name": ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, 422),
    "no-metadata": ({"apiVersion": "v1", "kind": "ConfigMap"}, 422),
    "no-kind": ({"metadata": {"name": "a"}}, 201),
    "no-version": ({"kind": "ConfigMap", "metadata": {"name": "a"}}, 201),
    "only-version": ({"apiVersion": "v1", "metadata": {"name": "a"}}, 201),
    "another-kind": (secret("a"), 400),
    "another-group": ({**config_map("a"), "apiVersion": "apps/v1"}, 400),
    "another-version": ({**config_map("a"), "apiVersion": "v2"}, 400),
    "unknown-kind": ({**config_map("a"), "kind": "Nothing"}, 400),
    "another-namespace": (config_map("a", namespace="elsewhere"), 400),
    "uppercase": (config_map("A"), 422),
    "underscore": (config_map("a_b"), 422),
    "slash": (config_map("a/b"), 422),
    "dots": (config_map(".."), 422),
    "dot": (config_map("."), 422),
    "percent": (config_map("a%b"), 422),
    "space": (config_map("a b"), 422),
    "leading-dash": (config_map("-a"), 422),
    "long": (config_map("x" * 254), 422),
    "longest": (config_map("x" * 253), 201),
    "dotted": (config_map("a.b.c"), 201),
    "digits": (config_map("123"), 201),
    "label-key": (config_map("a", labels={"a b": "c"}), 422),
    "label-value": (config_map("a", labels={"a": "b c"}), 422),
    "label-value-long": (config_map("a", labels={"a": "x" * 64}), 422),
    "label-number": (config_map("a", labels={"a": 1}), 400),
    "annotation-key": (config_map("a", annotations={"a/b/c": "d"}), 422),
    "annotations-long": (config_map("a", annotations={"a": "x" * 262144}), 422),
    "data-key": (config_map("a", {"a/b": "c"}), 422),
    "data-key-dots": (config_map("a", {"..": "c"}), 422),
    "data-number": ({**config_map("a"), "data": {"k": 1}}, 400),
    "data-list": ({**config_map("a"), "data": ["k"]}, 400),
    "data-null": ({**config_map("a"), "data": None}, 201),
    "data-null-value": ({**config_map("a"), "data": {"k": None}}, 201),
    "binary": ({**config_map("a"), "binaryData": {"k": "AAECAw=="}}, 201),
    "binary-not-base64": ({**config_map("a"), "binaryData": {"k": "%%%"}}, 400),
    "same-key-twice": ({**config_map("a", {"k": "1"}), "binaryData": {"k": "AA=="}}, 422),
    "unknown-field": ({**config_map("a"), "nothing": {"a": 1}}, 201),
    "field-in-the-wrong-case": ({**config_map("a"), "Data": {"a": "1"}}, 201),
    "unknown-metadata": (config_map("a", nothing=1), 201),
    "metadata-string": ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": "a"}, 400),
    "name-number": ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 5}}, 400),
    "immutable": ({**config_map("a", {"k": "1"}), "immutable": True}, 201),
    "list": ([config_map("a")], 400),
    "string": ("text", 400),
    "number": (5, 400),
    "empty": ({}, 422),
}


@pytest.mark.parametrize(("body", "code"), BODIES.values(), ids=BODIES)
def test_config_map_validation(api: RecordingClient, namespace: Namespace, body: Json, code: int) -> None:
    api.post(namespace.path("configmaps"), body).expect(code)
    assert len(api.unrecorded.get(namespace.path("configmaps")).body["items"]) == (1 if code == 201 else 0)


def without(body: Json, *path: str) -> Json:
    if len(path) == 1:
        return {key: value for key, value in body.items() if key != path[0]}
    return {**body, path[0]: without(body[path[0]], *path[1:])}


def container(**fields: Any) -> Json:
    return pod("a", {"containers": [{"name": "main", "image": "windlass/test:1", **fields}]})


INVALID: dict[str, tuple[str, Any, int]] = {
    "pod-no-spec": ("pods", without(pod("a"), "spec"), 422),
    "pod-no-containers": ("pods", pod("a", {"containers": []}), 422),
    "pod-no-image": ("pods", pod("a", {"containers": [{"name": "main"}]}), 422),
    "pod-no-container-name": ("pods", pod("a", {"containers": [{"image": "x"}]}), 422),
    "pod-container-name": ("pods", container(name="Main_1"), 422),
    "pod-same-containers": ("pods", pod("a", {"containers": [{"name": "m", "image": "x"}] * 2}), 422),
    "pod-restart-policy": ("pods", pod("a", {"restartPolicy": "Sometimes"}), 422),
    "pod-pull-policy": ("pods", container(imagePullPolicy="Sometimes"), 422),
    "pod-port": ("pods", container(ports=[{"containerPort": 70000}]), 422),
    "pod-port-string": ("pods", container(ports=[{"containerPort": "http"}]), 400),
    "pod-environment-name": ("pods", container(env=[{"name": "", "value": "1"}]), 422),
    "pod-environment-number": ("pods", container(env=[{"name": "A", "value": 1}]), 400),
    "pod-mount-of-nothing": ("pods", container(volumeMounts=[{"name": "x", "mountPath": "/x"}]), 422),
    "pod-mount-nowhere": ("pods", container(volumeMounts=[{"name": "x"}]), 422),
    "pod-quantity": ("pods", container(resources={"requests": {"cpu": "much"}}), 400),
    "pod-request-over-limit": (
        "pods",
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        422,
    ),
    "pod-negative-request": ("pods", container(resources={"requests": {"cpu": "-1"}}), 422),
    "pod-volume-of-two": (
        "pods",
        pod("a", {"volumes": [{"name": "x", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
        422,
    ),
    "pod-volume-same": ("pods", pod("a", {"volumes": [{"name": "x", "emptyDir": {}}] * 2}), 422),
    "pod-grace": ("pods", pod("a", {"terminationGracePeriodSeconds": -1}), 201),
    "pod-node-name": ("pods", pod("a", {"nodeName": "A_B"}), 422),
    "pod-hostname": ("pods", pod("a", {"hostname": "a.b"}), 422),
    "pod-deadline": ("pods", pod("a", {"activeDeadlineSeconds": 0}), 422),
    "pod-probe": ("pods", container(livenessProbe={"httpGet": {"path": "/"}}), 422),
    "job-no-template": ("jobs", without(job("a"), "spec", "template"), 422),
    "job-restart-always": (
        "jobs",
        job("a", template={"spec": {"containers": [{"name": "m", "image": "x"}]}}),
        422,
    ),
    "job-parallelism": ("jobs", job("a", parallelism=-1), 422),
    "job-selector": ("jobs", job("a", selector={"matchLabels": {"a": "b"}}), 422),
    "deployment-no-selector": ("deployments", without(deployment("a"), "spec", "selector"), 422),
    "deployment-selector": ("deployments", deployment("a", selector={"matchLabels": {"app": "b"}}), 422),
    "deployment-empty-selector": ("deployments", deployment("a", selector={}), 422),
    "deployment-replicas": ("deployments", deployment("a", replicas=-1), 422),
    "deployment-strategy": ("deployments", deployment("a", strategy={"type": "Magic"}), 422),
    "deployment-fraction": ("deployments", deployment("a", replicas=1.5), 400),
    "statefulset-no-selector": ("statefulsets", without(stateful_set("a"), "spec", "selector"), 422),
    "statefulset-policy": ("statefulsets", stateful_set("a", podManagementPolicy="Magic"), 422),
    "service-no-ports": ("services", without(service("a"), "spec", "ports"), 422),
    "service-name": ("services", service("1a"), 201),
    "service-dotted-name": ("services", service("a.b"), 422),
    "service-port": ("services", service("a", ports=[{"port": 0}]), 422),
    "service-port-names": ("services", service("a", ports=[{"port": 1}, {"port": 2}]), 422),
    "service-protocol": ("services", service("a", ports=[{"port": 1, "protocol": "XYZ"}]), 422),
    "service-type": ("services", service("a", type="Magic"), 422),
    "service-address": ("services", service("a", clusterIP="not-an-address"), 422),
    "service-address-out-of-range": ("services", service("a", clusterIP="192.168.7.7"), 422),
    "service-external-name": ("services", service("a", type="ExternalName"), 422),
    "secret-base64": ("secrets", secret("a", data={"k": "%%%"}), 400),
    "secret-type-without-data": ("secrets", secret("a", type="kubernetes.io/dockerconfigjson"), 422),
    "lease-duration": ("leases", lease("a", leaseDurationSeconds=0), 422),
    "lease-time": ("leases", lease("a", renewTime="yesterday"), 400),
    "claim-no-modes": (
        "persistentvolumeclaims",
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {}},
        422,
    ),
    "role-no-verbs": (
        "roles",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "a"},
            "rules": [{}],
        },
        422,
    ),
}


@pytest.mark.parametrize(("plural", "body", "code"), INVALID.values(), ids=INVALID)
def test_validation_of_other_kinds(
    api: RecordingClient, namespace: Namespace, plural: str, body: Json, code: int
) -> None:
    api.post(namespace.path(plural), body).expect(code)


def test_immutable_data_cannot_change(api: RecordingClient, namespace: Namespace) -> None:
    maps, secrets = namespace.path("configmaps"), namespace.path("secrets")
    api.post(maps, {**config_map("a", {"k": "1"}), "immutable": True}).expect(201)
    api.patch(f"{maps}/a", {"data": {"k": "2"}}).expect(422)
    api.patch(f"{maps}/a", {"immutable": False}).expect(422)
    api.patch(f"{maps}/a", {"metadata": {"labels": {"a": "b"}}}).expect(200)
    api.post(secrets, secret("a", immutable=True, stringData={"k": "1"})).expect(201)
    api.patch(f"{secrets}/a", {"stringData": {"k": "2"}}).expect(422)
    api.delete(f"{maps}/a").expect(200)


def test_update_of_other_object_than_path_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a")).expect(201)
    api.put(f"{maps}/a", config_map("b")).expect(400)
    api.put(f"{maps}/a", config_map("a", namespace="elsewhere")).expect(400)
    api.put(f"{maps}/a", secret("a")).expect(400)
    api.put(f"{maps}/a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    api.put(f"{maps}/a", {"apiVersion": "v1", "kind": "ConfigMap"})
    assert "data" not in api.get(f"{maps}/a").body
