"""Companions of a job in a cluster that runs no pods: tests set their state and answer for them."""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import fake_cluster
import in_process_cluster
import msgspec
from in_process_cluster import ClusterNamespace, InProcessCluster

from conformance.client import Json
from windlass.client import connection as connections
from windlass.client.companions import status as companion_status
from windlass.client.companions.status import CompanionView
from windlass.client.connection import Connection
from windlass.model.companions import Companion, ServiceType
from windlass.render.companions import servers
from windlass.render.companions.servers import Server
from windlass.wire.crd import manifests

T = TypeVar("T")

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TENSORBOARD = Companion.TENSORBOARD
PORTS = {Companion.TENSORBOARD: 6006, Companion.JUPYTER: 8888, Companion.HUB: 8000}
READY: Json = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class PodPorts(fake_cluster.Logs):
    """The ports of this machine that replace the ports of pods, by pod name."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    async def open_port(self, *arguments: Any) -> tuple[StreamReader, StreamWriter]:
        _, pod, _ = arguments
        return await asyncio.open_connection("127.0.0.1", self.of[pod])


@contextlib.contextmanager
def opened(ports: PodPorts | None = None) -> Iterator[InProcessCluster]:
    """Run a cluster that has the Framework CRD but no controller."""
    with in_process_cluster.opened(is_installed=False, logs=ports) as world:
        for definition in manifests.definitions():
            world.client.post(DEFINITIONS, definition).expect(201)
        yield world


class Scene:
    def __init__(self, place: ClusterNamespace) -> None:
        self.place = place
        self.client = place.client

    def path(self, kind: str, *rest: str) -> str:
        group = "/apis/apps/v1" if kind == "deployments" else "/api/v1"
        return "/".join((f"{group}/namespaces/{self.place.name}/{kind}", *rest))

    def start(
        self,
        companion: Companion = TENSORBOARD,
        *,
        job: str = "digits",
        service_type: ServiceType = ServiceType.CLUSTER_IP,
        hashes: dict[str, str] | None = None,
        secret: str = "",
        files: dict[str, str] | None = None,
    ) -> None:
        """Create the companion as a submission does, without a pod. `secret` is a user's own."""
        server = Server(
            companion=companion,
            job=job,
            name=servers.name_of(job, companion),
            service_type=service_type,
            port=PORTS[companion],
            readiness_path="/",
            container={"name": "main", "image": "i", "command": ["sh", "--logdir=/output"]},
            hashes=hashes or {},
            secret=secret,
            files=files or {},
        )
        server = msgspec.structs.replace(
            server, pod={"volumes": [{"name": "windlass-passwords", **server.password_volume_source}]}
        )
        for body in servers.objects(server):
            self.client.post(self.path(f"{body['kind'].lower()}s"), body).expect(201)

    def pod(self, status: Json | None = None, *, name: str = "p", companion: Companion = TENSORBOARD) -> None:
        labels = servers.labels_of("digits", companion)
        spec = {"nodeName": "nowhere", "containers": [{"name": "main", "image": "i"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
        self.client.post(self.path("pods"), body).expect(201)
        if status is not None:
            self.client.patch(self.path("pods", name, "status"), {"status": status}).expect(200)

    def answer(self, companion: Companion = TENSORBOARD) -> None:
        """Set the status of its Deployment to available."""
        path = self.path("deployments", servers.name_of("digits", companion))
        generation = self.client.get(path).expect(200).body["metadata"]["generation"]
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
        status = {**counts, "observedGeneration": generation}
        self.client.patch(f"{path}/status", {"status": status}).expect(200)

    def use(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        async def used() -> T:
            place = self.place
            async with connections.connected(str(place.kubeconfig), "", place.name) as connection:
                return await work(connection)

        return asyncio.run(used())

    def views(self, job: str = "digits") -> tuple[CompanionView, ...]:
        return self.use(lambda connection: companion_status.read(connection, job))

    def view(self) -> CompanionView:
        (found,) = self.views()
        return found

    def find(self, job: str) -> CompanionView:
        return self.use(lambda connection: companion_status.find(connection, job, TENSORBOARD))

    def until_ready(self, timeout: float | None = 100.0) -> CompanionView:
        return self.use(
            lambda connection: companion_status.until_ready(connection, "digits", TENSORBOARD, timeout)
        )
