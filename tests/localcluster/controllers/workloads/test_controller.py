"""The workload controller on a store: creation, deletion, adoption and restarts."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from conformance import objects
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.controllers.workloads.controller import WorkloadController
from windlass.localcluster.server import ApiServer

READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2001-01-01T00:00:00Z"}]
RESOURCES = {
    "Job": "jobs.batch",
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "Pod": "pods",
}


class Cluster:
    """A server whose controllers run only on request, and pods that are not run."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._open()

    def _open(self) -> None:
        self.server = ApiServer(self._data)
        self.workloads = WorkloadController(self.server.lifecycle)

    async def settle(self) -> None:
        await asyncio.sleep(0)
        loops = (self.workloads, self.server.collector)
        while any(loop.has_work for loop in loops):
            for loop in loops:
                if loop.has_work:
                    loop.step()
            await asyncio.sleep(0)

    async def restart(self) -> None:
        self.close()
        self._open()
        await self.settle()

    def close(self) -> None:
        self.server.store.close()

    def kind(self, name: str) -> Any:
        return self.server.registry.find_by_resource(RESOURCES.get(name, name))

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        given = copy.deepcopy(body)
        written = self.server.lifecycle.create(self.kind(body["kind"]), "default", given, WriteOptions())
        await self.settle()
        return bodies.decode_stored(written.body)

    def read(self, kind: str, name: str) -> dict[str, Any]:
        return self.server.lifecycle.read(self.kind(kind), "default", name)

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [bodies.decode_stored(body) for body in self.server.store.all(self.kind(kind).resource)]

    def names(self, kind: str = "Pod") -> list[str]:
        return [one["metadata"]["name"] for one in self.all(kind)]

    async def patch(self, kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        def changed(old: dict[str, Any]) -> dict[str, Any]:
            change(old)
            return old

        self.server.lifecycle.amend(self.kind(kind), "default", name, changed)
        await self.settle()

    async def become(self, name: str, phase: str) -> None:
        """Set the status that a kubelet would report."""
        status = {"phase": phase, "conditions": READY if phase == "Running" else []}
        await self.patch("Pod", name, lambda pod: pod.update(status=status))

    async def delete(self, kind: str, name: str, propagation: str = "Background") -> None:
        options = DeleteOptions(propagation=propagation, grace_seconds=0)
        self.server.lifecycle.delete(self.kind(kind), "default", name, options)
        await self.settle()

    def reasons(self) -> set[str]:
        return {one["reason"] for one in self.all("events")}


def on(tmp_path: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def played() -> None:
        cluster = Cluster(tmp_path)
        try:
            await cluster.settle()
            await scenario(cluster)
        finally:
            cluster.close()

    asyncio.run(played())


def job(**spec: Any) -> Any:
    return objects.job("w", **spec)


BODIES: dict[str, dict[str, Any]] = {
    "Job": objects.job("w", parallelism=2, completions=2),
    "Deployment": objects.deployment("w", replicas=2),
    "StatefulSet": objects.stateful_set("w", replicas=2, podManagementPolicy="Parallel"),
}


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("kind", BODIES)
def test_pods_are_deleted_with_their_workload(tmp_path: Path, kind: str, propagation: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(BODIES[kind])
        assert len(cluster.names()) == 2
        await cluster.delete(kind, "w", propagation)
        assert (cluster.names(kind), cluster.names("ReplicaSet"), cluster.names()) == ([], [], [])

    on(tmp_path, scenario)


@pytest.mark.parametrize("kind", BODIES)
def test_pods_stay_with_orphan_propagation(tmp_path: Path, kind: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(BODIES[kind])
        before = cluster.names()
        await cluster.delete(kind, "w", "Orphan")
        assert cluster.names(kind) == []
        assert cluster.names() == before
        assert not any("finalizers" in pod["metadata"] for pod in cluster.all("Pod"))

    on(tmp_path, scenario)


@pytest.mark.parametrize("kind", BODIES)
def test_restart_changes_nothing(tmp_path: Path, kind: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(BODIES[kind])
        before = [cluster.all(each) for each in (kind, "ReplicaSet", "Pod")]
        await cluster.restart()
        assert [cluster.all(each) for each in (kind, "ReplicaSet", "Pod")] == before

    on(tmp_path, scenario)


def test_job_runs_to_completion(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(job(completions=2))
        (first,) = cluster.names()
        assert cluster.all("Pod")[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "w"
        await cluster.become(first, "Running")
        assert cluster.read("Job", "w")["status"]["ready"] == 1
        await cluster.become(first, "Succeeded")
        (second,) = set(cluster.names()) - {first}
        await cluster.become(second, "Succeeded")
        status = cluster.read("Job", "w")["status"]
        assert (status["succeeded"], [one["type"] for one in status["conditions"]]) == (
            2,
            ["SuccessCriteriaMet", "Complete"],
        )
        assert "finalizers" not in cluster.read("Pod", first)["metadata"]
        assert cluster.reasons() >= {"SuccessfulCreate", "Completed"}

    on(tmp_path, scenario)


def test_completed_indexes_survive_a_restart(tmp_path: Path) -> None:
    """Pod names are random: only indexes count."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create(job(completionMode="Indexed", completions=3, parallelism=2))
        first, second = cluster.names()
        await cluster.become(first, "Succeeded")
        await cluster.restart()
        assert [name[:3] for name in cluster.names()] == ["w-0", "w-1", "w-2"]
        assert cluster.read("Job", "w")["status"]["completedIndexes"] == "0"
        assert second in cluster.names()

    on(tmp_path, scenario)


def test_deleted_pod_is_counted_as_failed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(job(backoffLimit=0))
        await cluster.delete("Pod", cluster.names()[0])
        assert cluster.names() == []
        assert cluster.read("Job", "w")["status"]["failed"] == 1

    on(tmp_path, scenario)


def test_pod_of_a_deleted_job_loses_its_finalizer(tmp_path: Path) -> None:
    """The deletion of the Job was not observed."""

    async def scenario(cluster: Cluster) -> None:
        made = await cluster.create(job())
        (name,) = cluster.names()
        store = cluster.server.store
        version = int(cluster.read("Job", "w")["metadata"]["resourceVersion"])
        store.delete("jobs.batch", "default/w", version)
        store.commit()
        await cluster.restart()
        assert name not in cluster.names(), made

    on(tmp_path, scenario)


def test_stateful_set_adopts_its_pods_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(BODIES["StatefulSet"])
        uids = [pod["metadata"]["uid"] for pod in cluster.all("Pod")]
        await cluster.delete("StatefulSet", "w", "Orphan")
        again = await cluster.create(BODIES["StatefulSet"])
        pods = cluster.all("Pod")
        assert [pod["metadata"]["uid"] for pod in pods] == uids
        owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
        assert owners == {again["metadata"]["uid"]}

    on(tmp_path, scenario)


def test_pod_without_the_selected_label_is_released(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(BODIES["Deployment"])
        name = cluster.names()[0]
        await cluster.patch("Pod", name, lambda pod: pod["metadata"].update(labels={"apart": "yes"}))
        assert "ownerReferences" not in cluster.read("Pod", name)["metadata"]
        assert len(cluster.names()) == 3

    on(tmp_path, scenario)


def test_scaling_creates_and_deletes_pods(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(BODIES["Deployment"])
        await cluster.patch("Deployment", "w", lambda one: one["spec"].update(replicas=3))
        assert len(cluster.names()) == 3
        await cluster.patch("Deployment", "w", lambda one: one["spec"].update(replicas=0))
        assert cluster.names() == []

    on(tmp_path, scenario)


def test_rolling_update_replaces_pods(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(BODIES["Deployment"])
        for name in cluster.names():
            await cluster.become(name, "Running")
        before = set(cluster.names())
        await cluster.patch(
            "Deployment", "w", lambda one: one["spec"]["template"]["spec"].update(hostname="other")
        )
        while set(cluster.names()) & before:
            waiting = [pod for pod in cluster.all("Pod") if pod["status"]["phase"] == "Pending"]
            assert waiting
            # A quarter of two is rounded down: no pod may be unavailable.
            assert len(cluster.names()) - len(waiting) >= 2
            await cluster.become(waiting[0]["metadata"]["name"], "Running")
        for name in cluster.names():
            await cluster.become(name, "Running")
        status = cluster.read("Deployment", "w")["status"]
        assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (2, 2, 2)
        assert cluster.read("Deployment", "w")["metadata"]["annotations"] == {
            "deployment.kubernetes.io/revision": "2"
        }
        assert len(cluster.names("ReplicaSet")) == 2

    on(tmp_path, scenario)


def test_rejected_creation_is_reported_as_event(tmp_path: Path) -> None:
    """The pod name of an Indexed Job is also its hostname, and this one is too long."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create(objects.job("w" * 62, completionMode="Indexed", completions=1, parallelism=1))
        assert cluster.names() == []
        told, *_ = [one for one in cluster.all("events") if one["reason"] == "FailedCreate"]
        assert "spec.hostname" in told["message"]
        assert told["involvedObject"]["kind"] == "Job"

    on(tmp_path, scenario)


def test_unrelated_pods_are_ignored(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(objects.pod("alone", labels={"app": "other"}))
        await cluster.create(BODIES["Deployment"])
        before = cluster.read("Pod", "alone")
        await cluster.delete("Deployment", "w")
        assert cluster.all("Pod") == [before]

    on(tmp_path, scenario)


def test_changes_without_workloads_queue_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        kind = cluster.kind("Pod")
        owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u", "controller": True}
        for body in (objects.pod("a"), objects.pod("b", ownerReferences=[owner])):
            cluster.server.lifecycle.create(kind, "default", body, WriteOptions())
            await asyncio.sleep(0)
            assert not cluster.workloads.has_work

    on(tmp_path, scenario)
