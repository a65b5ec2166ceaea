"""The nodes of a cluster from one start to the next."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.apiserver.options import WriteOptions
from windlass.localcluster.kubelet import node_objects
from windlass.localcluster.scheduler import nodes
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.localcluster.scheduler.nodes import Machine
from windlass.localcluster.server import ApiServer

Json = dict[str, Any]
NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class World:
    def __init__(self, data: Path) -> None:
        self.server = ApiServer(data)
        self.lifecycle = self.server.lifecycle
        self.lifecycle.clock = lambda: NOW

    def start(self, count: int = 1, **machine: Any) -> None:
        facts = {"host_name": "lab", "cpu": 4, "memory_bytes": 2**33, "architecture": "arm64", **machine}
        node_objects.sync(self.lifecycle, nodes.nodes(Machine(**facts), count, self.lifecycle.now()))

    def create(self, resource: str, obj: Json) -> None:
        kind = self.server.registry.find_by_resource(resource)
        assert kind is not None
        namespace = "default" if kind.namespaced else ""
        self.lifecycle.create(kind, namespace, obj, WriteOptions())

    def pod(self, name: str, node: str | None = None, phase: str = "") -> None:
        spec: Json = {"containers": [{"name": "c", "image": "i"}]} | ({"nodeName": node} if node else {})
        self.create("pods", {"metadata": {"name": name}, "spec": spec})
        if phase:
            self.change("pods", name, lambda pod: {**pod, "status": {**pod["status"], "phase": phase}})

    def change(self, resource: str, name: str, change: Any) -> None:
        kind = self.server.registry.find_by_resource(resource)
        assert kind is not None
        self.lifecycle.amend(kind, "default" if kind.namespaced else "", name, change)

    def names(self, resource: str) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.lifecycle.objects("", resource)]

    def node(self, name: str = "lab") -> Json:
        return next(one for one in self.lifecycle.objects("", "nodes") if one["metadata"]["name"] == name)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.server.store.close()


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (1, 1, ["lab"]),
        (1, 3, ["windlass-0", "windlass-1", "windlass-2"]),
        (3, 2, ["windlass-0", "windlass-1"]),
        (2, 1, ["lab"]),
    ],
)
def test_requested_number_of_nodes_is_created(
    world: World, before: int, after: int, names: list[str]
) -> None:
    world.start(before)
    world.create("nodes", {"metadata": {"name": "by-hand"}})
    world.start(after)
    assert sorted(world.names("nodes")) == ["by-hand", *names]


def test_changes_by_users_are_kept(world: World) -> None:
    world.start(gpus=(Gpu("GPU-a"), Gpu("GPU-b")))
    uid = world.node()["metadata"]["uid"]

    def edited(node: Json) -> Json:
        meta = node["metadata"]
        labels = {**meta["labels"], "rack": "r1", "kubernetes.io/arch": "mine"}
        annotations = {**meta["annotations"], "note": "x"}
        taints = [{"key": "k", "effect": "NoSchedule"}]
        return {
            **node,
            "metadata": {**meta, "labels": labels, "annotations": annotations},
            "spec": {"taints": taints, "unschedulable": True},
        }

    world.change("nodes", "lab", edited)
    world.start(cpu=8)
    node = world.node()
    assert node["metadata"]["uid"] == uid
    assert node["metadata"]["labels"]["rack"] == "r1"
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert node["metadata"]["annotations"] == {"note": "x"}
    assert node["spec"] == {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True}
    assert node["status"]["capacity"]["cpu"] == node["status"]["allocatable"]["cpu"] == "8"
    assert "nvidia.com/gpu" not in node["status"]["capacity"]


@pytest.mark.parametrize(
    ("status", "since"), [("True", "2026-01-02T12:00:00Z"), ("Unknown", "2026-01-02T13:00:00Z")]
)
def test_start_updates_node_conditions(world: World, status: str, since: str) -> None:
    def said(node: Json) -> Json:
        conditions = [
            {**one, "status": status} if one["type"] == "Ready" else one
            for one in node["status"]["conditions"]
        ]
        other = {"type": "Lamp", "status": "True"}
        return {**node, "status": {**node["status"], "conditions": [other, *conditions]}}

    world.start()
    world.change("nodes", "lab", said)
    world.lifecycle.clock = lambda: NOW + timedelta(hours=1)
    world.start()
    conditions = {one["type"]: one for one in world.node()["status"]["conditions"]}
    ready = conditions["Ready"]
    assert (ready["status"], ready["reason"]) == ("True", "KubeletReady")
    assert (ready["lastTransitionTime"], ready["lastHeartbeatTime"]) == (since, "2026-01-02T13:00:00Z")
    assert "Lamp" in conditions
    assert len(conditions) == 5


def test_pods_of_a_deleted_node_are_deleted(world: World) -> None:
    world.start(3)
    seen: list[Json] = []
    world.server.store.listen(lambda change: seen.append({"place": change.key, "after": change.after}))
    for name, node, phase in (
        ("stays", "windlass-1", "Running"),
        ("goes", "windlass-2", "Running"),
        ("ended", "windlass-2", "Succeeded"),
        ("nowhere", "typing-error", ""),
        ("waits", None, ""),
    ):
        world.pod(name, node, phase)
    world.start(2)
    assert sorted(world.names("pods")) == ["stays", "waits"]
    world.server.store.commit()
    failed = [one["place"] for one in seen if one["after"] and b'"DeletionByPodGC"' in one["after"]]
    assert sorted(failed) == ["default/goes", "default/nowhere"]
    assert all(b'"phase":"Failed"' in one["after"] for one in seen if b"PodGC:" in (one["after"] or b""))
