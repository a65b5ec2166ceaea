"""The scheduler on an API server: pods get nodes or a message, and are retried after relevant changes."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.scheduler import nodes
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.localcluster.scheduler.scheduler import Scheduler
from windlass.localcluster.server import ApiServer
from windlass.localcluster.store_types import StoreError

Json = dict[str, Any]
SHORT_OF_CPU = (
    "0/1 nodes are available: 1 Insufficient cpu."
    " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


class Cluster:
    def __init__(self, data: Path, **machine: Any) -> None:
        self.server = ApiServer(data)
        self.lifecycle, self.store = self.server.lifecycle, self.server.store
        facts = {"host_name": "n", "cpu": 4, "memory_bytes": 2**34, "architecture": "arm64", **machine}
        self.machine = nodes.Machine(**facts)
        self.scheduler = Scheduler(self.lifecycle)

    def kind(self, resource: str) -> Any:
        return self.server.registry.find_by_resource(resource)

    def create(self, resource: str, obj: Json, namespace: str = "default") -> None:
        self.lifecycle.create(self.kind(resource), namespace, obj, WriteOptions())

    def add_nodes(self, count: int = 1) -> None:
        for node in nodes.nodes(self.machine, count, self.lifecycle.now()):
            self.create("nodes", node, "")

    def add_pod(
        self, name: str, cpu: str = "1", gpus: str = "0", owner: str = "", shared: str = "", **spec: Any
    ) -> None:
        resource = "nvidia.com/gpu.shared" if shared else "nvidia.com/gpu"
        limits = {"limits": {"cpu": cpu, resource: gpus}}
        container = {"name": "c", "image": "i", "resources": limits}
        controller = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": owner,
            "controller": True,
        }
        metadata: Json = {"name": name, "ownerReferences": [controller] if owner else []}
        if shared:
            metadata["annotations"] = {"windlass.dev/tasks-per-gpu": shared}
        self.create("pods", {"metadata": metadata, "spec": {"containers": [container], **spec}})

    def add_pods(self, owner: str, count: int, cpu: str = "1") -> None:
        for index in range(count):
            self.add_pod(f"{owner}-{index:03}", cpu=cpu, owner=owner)

    def bound(self, owner: str) -> list[str]:
        pods = [bodies.decode_stored(body) for body in self.store.all("pods", "default")]
        names = [
            pod["metadata"]["name"]
            for pod in pods
            if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Succeeded"
        ]
        return [name for name in names if name.startswith(f"{owner}-")]

    def count_steps(self, until: Callable[[], bool] = lambda: False) -> int:
        steps = 0
        while self.scheduler.has_work and not until():
            self.scheduler.step()
            steps += 1
        return steps

    def change(self, resource: str, name: str, change: Callable[[Json], Json]) -> None:
        namespace = "" if resource == "nodes" else "default"
        self.lifecycle.amend(self.kind(resource), namespace, name, change)

    def end(self, name: str) -> None:
        self.change("pods", name, lambda pod: {**pod, "status": {**pod["status"], "phase": "Succeeded"}})

    def delete(self, resource: str, name: str) -> None:
        namespace = "" if resource == "nodes" else "default"
        self.lifecycle.delete(self.kind(resource), namespace, name, DeleteOptions(grace_seconds=0))

    def work(self) -> None:
        while self.scheduler.has_work:
            self.scheduler.step()

    def read(self, name: str) -> Json:
        return self.lifecycle.read(self.kind("pods"), "default", name)

    def node_of(self, name: str) -> str | None:
        node: str | None = self.read(name)["spec"].get("nodeName")
        return node

    def condition(self, name: str) -> Json:
        conditions = self.read(name)["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] == "PodScheduled"), {})

    def events(self, name: str) -> list[Json]:
        found = map(bodies.decode_stored, self.store.all("events"))
        return [event for event in found if event["involvedObject"]["name"] == name]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    one = Cluster(tmp_path)
    yield one
    one.store.close()


def test_pod_is_bound_like_by_a_binding(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.add_pod("p")
    cluster.work()

    assert cluster.node_of("p") == "n"
    assert cluster.condition("p")["status"] == "True"
    (event,) = cluster.events("p")
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
    assert event["message"] == "Successfully assigned default/p to n"
    assert event["reportingComponent"] == "default-scheduler"
    assert event["involvedObject"]["uid"] == cluster.read("p")["metadata"]["uid"]


def test_unschedulable_pod_is_reported_once(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.add_pod("big", cpu="3")
    cluster.add_pod("p", cpu="2")
    cluster.work()

    condition = cluster.condition("p")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == SHORT_OF_CPU
    (event,) = cluster.events("p")
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "FailedScheduling", SHORT_OF_CPU)

    version = cluster.store.version
    cluster.change("nodes", "n", lambda node: {**node, "metadata": {**node["metadata"], "labels": {}}})
    cluster.work()
    assert cluster.store.version == version + 1


def test_new_message_replaces_the_old_one(cluster: Cluster) -> None:
    cluster.add_pod("p")
    cluster.work()
    first = cluster.condition("p")
    assert first["message"] == "no nodes available to schedule pods"

    cluster.add_nodes()
    cluster.change("nodes", "n", lambda node: {**node, "spec": {"unschedulable": True}})
    cluster.work()
    assert cluster.condition("p")["message"].startswith(
        "0/1 nodes are available: 1 node(s) were unschedulable."
    )
    assert cluster.condition("p")["lastTransitionTime"] == first["lastTransitionTime"]
    (event,) = cluster.events("p")
    assert event["message"] == cluster.condition("p")["message"]
    assert event["series"]["count"] == 2


@pytest.mark.parametrize(
    "free",
    [
        pytest.param(lambda cluster: cluster.end("big"), id="a pod ends"),
        pytest.param(lambda cluster: cluster.delete("pods", "big"), id="a pod goes"),
        pytest.param(
            lambda cluster: cluster.change(
                "nodes", "n", lambda node: {**node, "status": with_cpu(node, "8")}
            ),
            id="a node grows",
        ),
        pytest.param(lambda cluster: cluster.add_nodes(2), id="nodes come"),
    ],
)
def test_pending_pod_is_retried_when_resources_are_released(
    cluster: Cluster, free: Callable[[Cluster], None]
) -> None:
    cluster.add_nodes()
    cluster.add_pod("big", cpu="3")
    cluster.add_pod("p", cpu="2")
    cluster.work()
    assert cluster.node_of("p") is None

    free(cluster)
    cluster.work()
    assert cluster.node_of("p") is not None
    assert cluster.condition("p")["status"] == "True"
    assert "message" not in cluster.condition("p")


def with_cpu(node: Json, cpu: str) -> Json:
    status: Json = node["status"]
    return {**status, "allocatable": {**status["allocatable"], "cpu": cpu}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"schedulerName": "other"}, id="another scheduler"),
        pytest.param({"schedulingGates": [{"name": "example.com/wait"}]}, id="gated"),
        pytest.param({"nodeName": "elsewhere"}, id="bound by whoever made it"),
    ],
)
def test_pods_of_others_gated_or_bound_are_ignored(cluster: Cluster, spec: Json) -> None:
    cluster.add_nodes()
    cluster.add_pod("p", **spec)
    before = cluster.read("p")
    cluster.work()
    assert cluster.read("p") == before
    assert not cluster.events("p")


def test_pod_is_scheduled_when_its_gate_is_removed(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.add_pod("p", schedulingGates=[{"name": "example.com/wait"}])
    cluster.work()
    assert cluster.condition("p")["reason"] == "SchedulingGated"

    def without_gates(pod: Json) -> Json:
        return {**pod, "spec": {key: v for key, v in pod["spec"].items() if key != "schedulingGates"}}

    cluster.change("pods", "p", without_gates)
    cluster.work()
    assert cluster.node_of("p") == "n"


def test_gpus_are_exclusive(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, gpus=tuple(Gpu(str(index)) for index in range(4)), cpu=16)
    cluster.add_nodes(2)
    for name, gpus in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "1")):
        cluster.add_pod(name, gpus=gpus)
    cluster.work()
    given = {
        name: cluster.read(name)["metadata"].get("annotations", {}).get("windlass.dev/gpus")
        for name in "abcd"
    }
    # One each on the two nodes; then no node has two left.
    assert given == {"a": "0", "b": "2", "c": None, "d": "1"}
    assert "2 Insufficient nvidia.com/gpu" in cluster.condition("c")["message"]

    cluster.end("b")
    cluster.work()
    assert cluster.read("c")["metadata"]["annotations"]["windlass.dev/gpus"] == "2,3"
    assert cluster.node_of("c") == "windlass-1"
    cluster.store.close()


def test_pods_share_a_gpu_and_others_wait(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, gpus=(Gpu("GPU-a"),), cpu=16)
    cluster.add_nodes()
    for name in "abc":
        cluster.add_pod(name, gpus="1", shared="2")
    cluster.add_pod("alone", gpus="1")
    cluster.work()
    assert [cluster.node_of(name) for name in "abc"] == ["n", "n", None]
    assert cluster.read("b")["metadata"]["annotations"]["windlass.dev/gpus"] == "nvidia.com/gpu.shared:GPU-a"
    assert "1 Insufficient nvidia.com/gpu.shared" in cluster.condition("c")["message"]
    assert "1 Insufficient nvidia.com/gpu." in cluster.condition("alone")["message"]
    cluster.end("a")
    cluster.work()
    assert (cluster.node_of("c"), cluster.node_of("alone")) == ("n", None)
    cluster.end("b")
    cluster.end("c")
    cluster.work()
    assert cluster.node_of("alone") == "n"
    cluster.store.close()


def test_gpus_of_other_processes_are_assigned_last(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, gpus=(Gpu("GPU-a"), Gpu("GPU-b")), cpu=16)
    cluster.add_nodes()
    in_use = {"windlass.dev/gpus-in-use": "GPU-a=4711"}

    def mark(node: Json) -> Json:
        meta = node["metadata"]
        return {**node, "metadata": {**meta, "annotations": {**meta["annotations"], **in_use}}}

    cluster.lifecycle.amend(cluster.kind("nodes"), "", "n", mark)
    cluster.store.commit()
    given = []
    for name in "pq":
        cluster.add_pod(name, gpus="1")
        cluster.work()
        given.append(cluster.read(name)["metadata"]["annotations"]["windlass.dev/gpus"])
    assert given == ["GPU-b", "GPU-a"]
    cluster.store.close()


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        ({"storageClassName": "fast"}, "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_pod_waits_until_its_claim_is_bound(cluster: Cluster, claim: Json | None, reason: str) -> None:
    def make_claim(**more: Any) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **more}
        cluster.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})

    cluster.add_nodes()
    if claim is not None:
        make_claim(**claim)
    cluster.add_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    cluster.work()
    assert cluster.condition("p")["message"].startswith(f"0/1 nodes are available: {reason}. preemption: ")

    if claim is None:
        make_claim()
    else:
        cluster.change("persistentvolumeclaims", "data", lambda old: {**old, "status": {"phase": "Bound"}})
    cluster.work()
    assert cluster.node_of("p") == "n"


def test_higher_priority_is_scheduled_first(cluster: Cluster) -> None:
    cluster.add_pod("plain", cpu="3")
    cluster.add_pod("critical", cpu="3", priorityClassName="system-cluster-critical")
    cluster.add_nodes()
    cluster.work()
    assert (cluster.node_of("critical"), cluster.node_of("plain")) == ("n", None)


def test_longest_waiting_pod_is_scheduled_first(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.add_pod("big", cpu="4")
    for name in ("z", "y", "x"):
        cluster.add_pod(name, cpu="3")
    cluster.work()
    cluster.end("big")
    cluster.work()
    assert [cluster.node_of(name) for name in ("z", "y", "x")] == ["n", None, None]


def test_release_does_not_rescan_unschedulable_pods(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.add_pod("running")
    cluster.add_pods("large", 200, cpu="8")
    cluster.work()
    version = cluster.store.version
    cluster.end("running")

    # One decision for all 200 pods; the step could take 50.
    assert cluster.count_steps() == 1
    assert cluster.store.version == version + 1


def test_new_pod_is_bound_before_unschedulable_pods_are_reported(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.add_pods("large", 200, cpu="8")
    cluster.add_pod("small")

    assert cluster.count_steps(until=lambda: cluster.node_of("small") is not None) == 1
    cluster.work()
    assert cluster.condition("large-199")["reason"] == "Unschedulable"


def test_reports_of_owners_take_turns(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.add_pods("large", 200, cpu="8")
    cluster.add_pods("small", 1, cpu="8")

    assert cluster.count_steps(until=lambda: bool(cluster.condition("small-000"))) <= 3


def test_small_job_gets_every_second_node_beside_a_job_larger_than_the_cluster(cluster: Cluster) -> None:
    """All pods have the same requests. The cluster runs four at a time."""
    cluster.add_nodes()
    cluster.add_pods("large", 50)
    cluster.work()
    cluster.add_pods("small", 3)
    cluster.work()
    assert len(cluster.bound("large")) == 4

    starts: list[str] = []
    for index in range(7):
        cluster.end(f"large-{index:03}")
        before = {*cluster.bound("large"), *cluster.bound("small")}
        cluster.work()
        starts += {*cluster.bound("large"), *cluster.bound("small")} - before
    assert [name.partition("-")[0] for name in starts] == ["small", "large"] * 3 + ["large"]


def test_jobs_that_fit_get_their_nodes_one_after_the_other(cluster: Cluster) -> None:
    """Their tasks may wait for each other: if both jobs got a part of the nodes, neither could start."""
    cluster.add_nodes()
    cluster.add_pods("first", 4)
    cluster.work()
    cluster.add_pods("second", 4)
    cluster.add_pods("third", 4)
    cluster.work()
    for index in range(4):
        cluster.end(f"first-{index:03}")
        cluster.work()

    assert (len(cluster.bound("second")), len(cluster.bound("third"))) == (4, 0)


def test_replaced_pod_of_the_same_name_is_not_bound(cluster: Cluster) -> None:
    """The replacement happens between two change events that the scheduler missed."""
    cluster.add_nodes()
    cluster.add_pod("p")
    listeners, cluster.store._listeners = cluster.store._listeners, []
    cluster.delete("pods", "p")
    cluster.add_pod("p", cpu="64")
    cluster.store._listeners = listeners
    cluster.work()
    assert cluster.node_of("p") is None
    assert not cluster.events("p")


def test_restart_rebuilds_the_cache(tmp_path: Path) -> None:
    first = Cluster(tmp_path)
    first.add_nodes()
    first.add_pod("bound", cpu="3")
    first.add_pod("waits", cpu="2")
    first.work()
    first.store._listeners.clear()
    first.add_pod("new", cpu="1")
    first.store.close()

    second = Cluster(tmp_path)
    version = second.store.version
    second.work()
    assert second.node_of("new") == "n"
    assert second.node_of("waits") is None
    # A binding and its event; nothing new is reported for the pod that still waits.
    assert second.store.version == version + 2
    second.store.close()


def test_binding_is_retried_after_a_failed_write(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.add_nodes()
    cluster.add_pod("p", cpu="3")

    def full(*_: object) -> bytes:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.store, "update", full)
        cluster.scheduler.step()
    assert cluster.node_of("p") is None
    assert cluster.scheduler.has_work
    cluster.work()
    assert cluster.node_of("p") == "n"


def test_terminating_namespace_without_events_does_not_block_others(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create("namespaces", {"metadata": {"name": "gone"}}, "")
    container = {"name": "c", "image": "i"}
    finalized = {"name": "p", "finalizers": ["example.com/hold"]}
    cluster.create("pods", {"metadata": finalized, "spec": {"containers": [container]}}, "gone")
    cluster.lifecycle.delete(cluster.kind("namespaces"), "", "gone", DeleteOptions())
    cluster.add_pod("other")
    cluster.work()
    pod = cluster.lifecycle.read(cluster.kind("pods"), "gone", "p")
    assert pod["spec"]["nodeName"] == "n"
    assert not cluster.events("p")
    assert cluster.node_of("other") == "n"


def test_burst_of_pods_is_spread_without_overcommit(tmp_path: Path) -> None:
    """If many pods are created at once, only those that fit get a node."""

    async def burst() -> None:
        cluster = Cluster(tmp_path, cpu=40)
        loop = asyncio.create_task(cluster.scheduler.run())
        try:
            cluster.add_nodes(4)
            # Wait until the namespaces are stored.
            await asyncio.sleep(0)
            for index in range(300):
                cluster.add_pod(f"p{index:03}", cpu="200m")
            async with asyncio.timeout(120):
                while cluster.scheduler.has_work or not cluster.store.is_committed:
                    await asyncio.sleep(0)
        finally:
            loop.cancel()
        found = [cluster.node_of(f"p{index:03}") for index in range(300)]
        counts = {f"windlass-{index}": 50 for index in range(4)}
        assert {name: found.count(name) for name in counts} == counts
        assert found[200:] == [None] * 100
        cluster.store.close()

    asyncio.run(burst())
