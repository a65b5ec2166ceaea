"""An API server, a controller and a fake kubelet in this process, with a kubeconfig.

Containers do not run; `fake_cluster.Logs` contains their output.
"""

import asyncio
import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import fake_cluster
import msgspec
from fake_kubelet import lifecycle
from fake_kubelet.kubelet import FakeKubelet
from fake_kubelet.lifecycle import Life
from operated import loop_thread
from operated.loop_thread import LoopThread
from operated.place import Namespace

from conformance.client import Access, Client
from conformance.waiting import wait_for
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.operator import Operator
from windlass.kubeapi import access, requests
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS
from windlass.kubeapi.transport import Transport
from windlass.localcluster.apiserver import credentials
from windlass.localcluster.apiserver.streams.handlers import PodRuntime
from windlass.localcluster.controllers.workloads.controller import WorkloadController
from windlass.localcluster.server import ApiServer
from windlass.model import names
from windlass.model.settings import OFF, History, Settings
from windlass.wire.crd import manifests


class ClusterNamespace(Namespace):
    """A namespace for one test."""

    def __init__(self, world: "InProcessCluster", client: Client, name: str) -> None:
        super().__init__(client, name)
        self.world = world
        self.kubeconfig = world.kubeconfig

    @property
    def options(self) -> list[str]:
        """Return the options of a command line."""
        return ["--kubeconfig", str(self.kubeconfig), "--namespace", self.name]

    def end_pod(self, name: str, exit_code: int = 0) -> None:
        """End a pod that runs forever."""
        behaviour = lifecycle.annotations(runs_for=0, exit_code=exit_code)
        self.client.patch(self.path("pods", name), {"metadata": {"annotations": behaviour}}).expect(200)


class InProcessCluster:
    def __init__(self, stage: LoopThread, kubeconfig: Path, client: Client) -> None:
        self.stage = stage
        self.kubeconfig = kubeconfig
        self.client = client

    def new_place(self) -> ClusterNamespace:
        name = f"t-{uuid.uuid4().hex[:10]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.client.post("/api/v1/namespaces", body).expect(201)
        return ClusterNamespace(self, self.client, name)


@contextlib.contextmanager
def opened(
    *,
    is_installed: bool = True,
    has_controller: bool = True,
    has_workloads: bool = False,
    life: Life | None = None,
    logs: PodRuntime | None = None,
    label: str = names.FRAMEWORK_NAME,
) -> Iterator[InProcessCluster]:
    """Start a cluster. Without an installation there is only an API server. With workloads, Deployments and others
    have pods. `life` is the default of pods without their own, `logs` the output of containers, `label` the label of
    the pods that run."""
    # Not pytest's folder: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="windlass-") as name, loop_thread.running() as stage:
        folder = Path(name)
        server = stage.wait(_serve(folder, logs or fake_cluster.Logs()))
        kubeconfig = folder / "kubeconfig"
        credentials.write_kubeconfig(kubeconfig, server.url, server.credentials)
        client = Client(Access.of_kubeconfig(kubeconfig))
        try:
            running = []
            if is_installed:
                stage.wait(_define(folder / "api"))
                running = [stage.start(_run_pods(folder / "api", life or Life(), label))]
                running += [stage.start(_control(folder / "api"))] if has_controller else []
                running += [stage.start(_keep_workloads(server))] if has_workloads else []
            world = InProcessCluster(stage, kubeconfig, client)
            wait_for("the world to answer", lambda: client.get("/readyz").code == 200)
            yield world
            stage.raise_errors()
            for each in running:
                stage.end(each)
        finally:
            client.close()
            stage.wait(server.stop())


async def _serve(folder: Path, logs: PodRuntime) -> ApiServer:
    """Run the server in its own thread, which owns the store."""
    server = ApiServer(folder)
    server.set_pod_runtime(logs)
    await server.start(socket_path=folder / "api")
    return server


async def _define(socket: Path) -> None:
    async with Transport(access.unix(socket)) as transport:
        for definition in manifests.definitions(has_records=True):
            body = msgspec.json.encode(definition)
            await transport.send(requests.create(CUSTOM_RESOURCE_DEFINITIONS, "", body))


async def _control(socket: Path) -> None:
    settings = Settings(leader_election=False, metrics_address=OFF, history=History(enabled=True))
    operator = Operator(
        settings, access.unix(socket), SystemClock(), identity="the-only-one", snapshot_stream=None
    )
    await operator.run(asyncio.Event())


async def _keep_workloads(server: ApiServer) -> None:
    await WorkloadController(server.lifecycle).run()


async def _run_pods(socket: Path, life: Life, label: str) -> None:
    async with Transport(access.unix(socket), user_agent="hollow-kubelet") as transport:
        await FakeKubelet(transport, play=lifecycle.by_annotations(life), label=label).run()
