"""Objects sent as protobuf to the API server, compared with the same objects sent as JSON.

The embedded server answers only in JSON, so it receives only JSON: the results are the same.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from operated.clusters import Cluster

from windlass.k8s.protobuf.messages import MAGIC
from windlass.kubeapi import access, errors, requests
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.requests import METADATA_ONLY, Request
from windlass.kubeapi.resources import CONFIG_MAPS, EVENTS, PODS, SERVICES, Resource
from windlass.kubeapi.transport import Transport
from windlass.model.base import Json
from windlass.wire import codec

OWN = ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields")
"""Metadata that differs between two objects with the same manifest."""
ASSIGNED = ("clusterIP", "clusterIPs")
CONTAINER: Json = {
    "name": "main",
    "image": "busybox",
    "command": ["sh", "-c", "echo ä"],
    "env": [
        {"name": "PLAIN", "value": "1"},
        {"name": "EMPTY", "value": ""},
        {"name": "UNSET"},
        {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
    ],
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c", "optional": True}}],
    "ports": [{"containerPort": 80, "name": "web"}],
    "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": 1, "memory": "1e3"}},
    "livenessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 7},
    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
    "securityContext": {"runAsUser": 0, "capabilities": {"drop": ["ALL"]}, "privileged": False},
    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
}
RICH_POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "labels": {"app": "x", "empty": ""},
        "annotations": {"note": "ä\n"},
        "finalizers": ["a.b/c"],
    },
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{"name": "first", "image": "busybox"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"disk": "ssd"},
        "volumes": [
            {
                "name": "data",
                "configMap": {"name": "c", "defaultMode": 256, "items": [{"key": "a", "path": "b"}]},
            },
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {
                            "downwardAPI": {
                                "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]
                            }
                        }
                    ]
                },
            },
        ],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 5,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {
                                "matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]
                            },
                        },
                    }
                ]
            }
        },
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
    },
}
CONFIG_MAP: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {},
    "data": {"a": "1", "b": ""},
    "binaryData": {"c": "AAEC"},
}
SERVICE: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {},
    "spec": {
        "selector": {"app": "x"},
        "ports": [{"name": "a", "port": 80, "targetPort": "web"}, {"name": "b", "port": 81}],
    },
}
EVENT: Json = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {},
    "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
    "type": "Normal",
    "reason": "Tested",
    "message": "it was",
    "source": {"component": "windlass"},
    "firstTimestamp": "2026-11-19T10:00:00Z",
    "lastTimestamp": "2026-11-19T10:00:01Z",
    "count": 2,
}


NAMES = ("first", "second")
OBJECTS: tuple[tuple[Resource, Json], ...] = (
    (PODS, RICH_POD),
    (CONFIG_MAPS, CONFIG_MAP),
    (SERVICES, SERVICE),
    (EVENTS, EVENT),
)


def on(cluster: Cluster, act: Callable[[Transport, str], Awaitable[None]]) -> None:
    """Run `act` with a client that may use protobuf, and a new namespace."""

    async def run() -> None:
        found = await access.load(kubeconfig=str(cluster.kubeconfig))
        async with Transport(found) as transport:
            body = await transport.send(requests.list_page(PODS, "default", limit=1).with_protobuf())
            assert body.startswith(MAGIC) == cluster.is_real
            await act(transport, cluster.new_namespace())

    asyncio.run(run())


def named(manifest: Json, namespace: str, name: str) -> Json:
    found = {**manifest, "metadata": {**manifest["metadata"], "name": name, "namespace": namespace}}
    if "involvedObject" in manifest:
        # An event must be in the namespace of its object.
        found["involvedObject"] = {**manifest["involvedObject"], "namespace": namespace}
    return found


def common(obj: Json) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in OWN}
    spec = {key: value for key, value in obj.get("spec", {}).items() if key not in ASSIGNED}
    return {**obj, "metadata": metadata, "spec": spec}


def as_json(request: Request) -> Request:
    return msgspec.structs.replace(request, accepts_protobuf=False, encode_protobuf=None)


@pytest.mark.parametrize(("resource", "manifest"), OBJECTS, ids=lambda each: getattr(each, "plural", ""))
def test_object_sent_as_protobuf_equals_one_sent_as_json(
    shared_cluster: Cluster, resource: Resource, manifest: Json
) -> None:
    async def act(transport: Transport, namespace: str) -> None:
        first = requests.create_object(resource, namespace, named(manifest, namespace, "first"))
        second = requests.create_object(resource, namespace, named(manifest, namespace, "second"))
        assert second.encode_protobuf is not None
        assert second.encode_protobuf() is not None
        await transport.send(as_json(first))
        answer = await transport.send(second)
        stored = [json.loads(await transport.send(requests.get(resource, namespace, name))) for name in NAMES]
        assert common(stored[0]) == common(stored[1])
        assert without_nulls(json.loads(codec.as_json(answer))) == without_nulls(stored[1])

    on(shared_cluster, act)


def without_nulls(body: Json) -> Json:
    """Return an object without null fields: JSON has one for a time that is not set, protobuf has none."""
    return {key: each for key, each in body.items() if each is not None}


def test_response_with_metadata_only_has_the_identity(shared_cluster: Cluster) -> None:
    async def act(transport: Transport, namespace: str) -> None:
        request = requests.create_object(PODS, namespace, named(RICH_POD, namespace, "p"))
        made = codec.decode_pod(await transport.send(request.with_accept(METADATA_ONLY)))
        stored = codec.decode_pod(await transport.send(requests.get(PODS, namespace, "p")))
        assert made.metadata == stored.metadata

    on(shared_cluster, act)


def test_errors_are_the_same(shared_cluster: Cluster) -> None:
    async def act(transport: Transport, namespace: str) -> None:
        request = requests.create_object(CONFIG_MAPS, namespace, named(CONFIG_MAP, namespace, "c"))
        await transport.send(request)
        with pytest.raises(errors.AlreadyExistsError):
            await transport.send(request)
        with pytest.raises(errors.ConflictError):
            await transport.send(requests.delete(CONFIG_MAPS, namespace, "c", uid="another"))
        with pytest.raises(errors.NotFoundError):
            await transport.send(requests.get(CONFIG_MAPS, namespace, "none").with_protobuf())
        invalid = named({**RICH_POD, "spec": {"containers": []}}, namespace, "p")
        with pytest.raises(errors.InvalidError, match=r"spec\.containers"):
            await transport.send(requests.create_object(PODS, namespace, invalid))
        unreadable = named({**RICH_POD, "spec": {"containers": "none"}}, namespace, "p")
        with pytest.raises(errors.ResponseError) as refused:
            await transport.send(requests.create_object(PODS, namespace, unreadable))
        assert refused.value.failure.code in (400, 422)
        await transport.send(requests.delete(CONFIG_MAPS, namespace, "c", propagation="Background"))
        await transport.send(requests.delete_collection(PODS, namespace, "app=x"))

    on(shared_cluster, act)


def by_version(views: list[Any]) -> dict[tuple[str, str], Any]:
    """Return the pods of a list and of the changes after it, by UID and resource version."""
    listed, *changes = views
    return {
        (pod.uid, pod.metadata.resource_version): pod for pod in (*listed, *(each for _, each in changes))
    }


def test_watch_shows_the_same_as_json(shared_cluster: Cluster) -> None:
    async def act(transport: Transport, namespace: str) -> None:
        views: dict[bool, list[Any]] = {True: [], False: []}
        is_over = asyncio.Event()

        def receive(accepts_protobuf: bool, event: ResourceEvent) -> None:
            seen = views[accepts_protobuf]
            match event:
                case Listed(items=items):
                    seen.append([codec.decode_pod(item) for item in items])
                case Changed(object=body) | Deleted(object=body):
                    seen.append((type(event), codec.decode_pod(body)))
            if all(
                any(isinstance(each, tuple) and each[0] is Deleted for each in views[key]) for key in views
            ):
                is_over.set()

        async def follow(accepts_protobuf: bool) -> None:
            await Reflector(
                transport,
                PODS,
                namespace=namespace,
                receive=lambda event: receive(accepts_protobuf, event),
                accepts_protobuf=accepts_protobuf,
            ).run()

        manifest = {**RICH_POD, "metadata": {"labels": {"FC_FRAMEWORK_NAME": "job"}}}
        await transport.send(requests.create_object(PODS, namespace, named(manifest, namespace, "listed")))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follow(accepts_protobuf)) for accepts_protobuf in views]
            while not all(views.values()):
                await asyncio.sleep(0.01)
            await transport.send(
                requests.create_object(PODS, namespace, named(manifest, namespace, "watched"))
            )
            patch = b'{"metadata":{"annotations":{"FC_TASK_UID":"u"}}}'
            await transport.send(requests.merge_patch(PODS, namespace, "watched", patch))
            await transport.send(requests.delete(PODS, namespace, "watched", grace_seconds=0))
            await is_over.wait()
            for task in tasks:
                task.cancel()
        for listed, *changes in views.values():
            assert [pod.name for pod in listed] == ["listed"]
            kinds = [kind for kind, pod in changes if pod.name == "watched"]
            assert kinds[:2] == [Changed, Changed]
            assert kinds[-1] is Deleted
        # A pod may change between the two lists.
        as_protobuf, as_json = (by_version(views[key]) for key in (True, False))
        versions = as_protobuf.keys() & as_json.keys()
        assert len(versions) >= 4
        assert {each: as_protobuf[each] for each in versions} == {each: as_json[each] for each in versions}

    on(shared_cluster, act)
