"""Pods as API objects: defaults, mutable fields and binding. No pod is run."""

from typing import Any

import pytest

from conformance.client import Json
from conformance.objects import Namespace, pod, pod_spec
from conformance.transcript import RecordingClient

FULL = {
    "restartPolicy": "OnFailure",
    "hostNetwork": True,
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [
        {"name": "map", "configMap": {"name": "m"}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "host", "hostPath": {"path": "/tmp"}},  # noqa: S108
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        {
            "name": "down",
            "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]},
        },
        {"name": "all", "projected": {"sources": [{"configMap": {"name": "m"}}]}},
    ],
    "initContainers": [{"name": "first", "image": "windlass/test"}],
    "containers": [
        {
            "name": "main",
            "image": "windlass/test:latest",
            "command": ["sh", "-c", "true"],
            "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "resources": {"limits": {"cpu": "1500m", "memory": "1024Mi", "example.com/gpu": 2}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"tcpSocket": {"port": "dns"}},
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            "volumeMounts": [{"name": "map", "mountPath": "/m"}],
        }
    ],
}

DEFAULTS: dict[str, tuple[Json, str]] = {
    "least": (pod("a"), "BestEffort"),
    "full": (pod("a", FULL), "Burstable"),
    "guaranteed": (
        pod(
            "a",
            {
                "containers": [
                    {"name": "m", "image": "x", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
                ]
            },
        ),
        "Guaranteed",
    ),
    "requests": (
        pod("a", {"containers": [{"name": "m", "image": "x", "resources": {"requests": {"cpu": "0.5"}}}]}),
        "Burstable",
    ),
    "digest": (
        pod("a", {"containers": [{"name": "m", "image": "x@sha256:" + "0" * 64}]}),
        "BestEffort",
    ),
}


@pytest.mark.parametrize(("body", "quality"), DEFAULTS.values(), ids=DEFAULTS)
def test_pod_defaults(api: RecordingClient, namespace: Namespace, body: Json, quality: str) -> None:
    created = api.post(namespace.path("pods"), body).expect(201).body
    assert created["status"] == {"phase": "Pending", "qosClass": quality}
    assert created["spec"]["schedulerName"] == "default-scheduler"


def test_quantities_are_canonical(api: RecordingClient, namespace: Namespace) -> None:
    given = {
        "cpu": "1000m",
        "memory": "1024Mi",
        "example.com/a": "0.5k",
        "ephemeral-storage": "1e3",
        "hugepages-2Mi": "4Mi",
    }
    container = {"name": "m", "image": "x", "resources": {"limits": given, "requests": given}}
    created = api.post(namespace.path("pods"), pod("a", {"containers": [container]})).expect(201)
    assert created.body["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "1", "memory": "1Gi", "example.com/a": "500", "ephemeral-storage": "1e3", "hugepages-2Mi": "4Mi",
    }  # fmt: skip


CHANGES: dict[str, tuple[Any, int]] = {
    "image": ({"containers": [{"name": "main", "image": "windlass/test:2"}]}, 200),
    "deadline": ({"activeDeadlineSeconds": 60}, 200),
    "toleration": ({"tolerations": [{"key": "new", "operator": "Exists"}]}, 200),
    "command": ({"containers": [{"name": "main", "command": ["false"]}]}, 422),
    "environment": ({"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}, 422),
    "another-container": ({"containers": [{"name": "more", "image": "x"}]}, 422),
    "node": ({"nodeName": "node-1"}, 422),
    "restart": ({"restartPolicy": "Never"}, 422),
    "hostname": ({"hostname": "other"}, 422),
}


@pytest.mark.parametrize(("spec", "code"), CHANGES.values(), ids=CHANGES)
def test_pod_spec_is_mostly_immutable(
    api: RecordingClient, namespace: Namespace, spec: Any, code: int
) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a")).expect(201)
    answer = api.patch(f"{pods}/a", {"spec": spec}, "strategic").expect(code)
    assert (answer.reason == "Invalid") is (code == 422)


def test_pod_metadata_is_mutable(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", labels={"a": "1"})).expect(201)
    api.patch(f"{pods}/a", {"metadata": {"labels": {"a": None, "b": "2"}, "annotations": {"c": "3"}}}).expect(
        200
    )


def binding(name: str, node: str, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def test_pod_can_be_bound_once(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a")).expect(201)
    noted = {"annotations": {"chosen": "yes"}}
    api.post(f"{pods}/a/binding", binding("a", "node-1", **noted)).expect(201)
    bound = api.get(f"{pods}/a").expect(200).body
    assert bound["spec"]["nodeName"] == "node-1"
    assert bound["metadata"]["annotations"] == {"chosen": "yes"}
    assert [each["type"] for each in bound["status"]["conditions"]] == ["PodScheduled"]
    api.post(f"{pods}/a/binding", binding("a", "node-2")).expect(409)
    api.post(f"{pods}/missing/binding", binding("missing", "node-1")).expect(404)
    api.unrecorded.delete(f"{pods}/a", gracePeriodSeconds="0")


def test_binding_without_node_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a")).expect(201)
    nowhere = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}}
    assert api.post(f"{pods}/a/binding", nowhere).code in (400, 500)
    api.post(f"{pods}/a/binding", binding("b", "node-1")).expect(400)
    assert "nodeName" not in api.get(f"{pods}/a").body["spec"]


def test_terminating_pod_cannot_be_bound(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a", finalizers=["example.com/hold"])).expect(201)
    api.unrecorded.delete(f"{pods}/a").expect(200)
    api.post(f"{pods}/a/binding", binding("a", "node-1")).expect(409)
    api.unrecorded.patch(f"{pods}/a", {"metadata": {"finalizers": None}})


def test_log_of_unscheduled_pod(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    two = pod_spec()["containers"] + [{"name": "side", "image": "x"}]
    api.unrecorded.post(pods, pod("a")).expect(201)
    api.unrecorded.post(pods, pod("b", {"containers": two})).expect(201)
    api.get(f"{pods}/a/log")
    api.get(f"{pods}/a/log", container="nobody").expect(400)
    api.get(f"{pods}/b/log").expect(400)
    api.get(f"{pods}/missing/log").expect(404)
    api.get(f"{pods}/a/log", tailLines="-1").expect(422)


def test_pod_status_is_stored(api: RecordingClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    api.unrecorded.post(pods, pod("a")).expect(201)
    ended = {"exitCode": 3, "reason": "Error", "startedAt": "2001-01-01T00:00:00Z", "finishedAt": None}
    status = {
        "phase": "Failed",
        "startTime": "2001-01-01T00:00:00Z",
        "hostIP": "10.1.1.1",
        "podIP": "10.2.2.2",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2001-01-01T00:00:00Z"}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": False,
                "restartCount": 0,
                "image": "x",
                "imageID": "y",
                "state": {"terminated": ended},
            }
        ],
    }
    api.patch(f"{pods}/a/status", {"status": status}).expect(200)
    found = api.get(f"{pods}/a").body["status"]
    assert found["podIPs"] == [{"ip": "10.2.2.2"}]
    assert found["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_node_status_spec_and_taints_change(api: RecordingClient, unique: str) -> None:
    nodes = "/api/v1/nodes"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": unique, "labels": {"disk": "ssd"}}}
    api.post(nodes, body).expect(201)
    capacity = {
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    ready = api.patch(f"{nodes}/{unique}/status", {"status": capacity}).expect(200)
    assert ready.body["status"]["allocatable"] == ready.body["status"]["capacity"] == capacity["capacity"]
    api.patch(f"{nodes}/{unique}", {"spec": {"unschedulable": True}}).expect(200)
    found = api.unrecorded.get(nodes, fieldSelector=f"spec.unschedulable=true,metadata.name={unique}")
    assert found.names == [unique]
    taint = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    api.patch(f"{nodes}/{unique}", taint, "strategic").expect(200)
    api.delete(f"{nodes}/{unique}").expect(200)
