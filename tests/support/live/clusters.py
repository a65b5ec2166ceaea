"""A complete Kubernetes, with Windlass installed in it as a user installs it.

It is that of KUBECONFIG, whose nodes have to have the images, or the one of `make kubernetes`, which is brought up
where it is not. Only the latter may be broken.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
from live.place import Place

from conformance.client import Access, Client, Json
from conformance.objects import path as path_of
from conformance.waiting import wait_for
from one_node.cluster import Cluster as OneNode
from windlass.install import plan

NAMESPACE: Final = plan.DEFAULT_NAMESPACE
CONTROLLER: Final = f"system:serviceaccount:{NAMESPACE}:{plan.CONTROLLER}"
"""The name by which the API server knows it."""
IMAGE: Final = os.environ.get("WINDLASS_TEST_CONTROLLER_IMAGE", plan.DEFAULT_IMAGE)
SECONDS: Final = 300.0


class Cluster(msgspec.Struct, frozen=True):
    client: Client
    kubeconfig: Path
    # None for that of KUBECONFIG.
    node: OneNode | None

    def breakable(self) -> OneNode:
        """Whose components may be killed."""
        if self.node is None:
            pytest.skip("the cluster of KUBECONFIG is not ours to break")
        return self.node

    def new_place(self) -> Place:
        name = f"live-{uuid.uuid4().hex[:10]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.client.post("/api/v1/namespaces", body).expect(201)
        place = Place(self.client, name)
        account = place.path("serviceaccounts", "default")
        wait_for("the service account", lambda: self.client.get(account).code == 200)
        return place

    def windlass(self, *arguments: str, is_expected_to_work: bool = True) -> subprocess.CompletedProcess[str]:
        """The command line, as somebody whose cluster this is."""
        done = subprocess.run(  # noqa: S603
            [Path(sys.executable).with_name("windlass"), *arguments],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
        )
        if is_expected_to_work:
            assert done.returncode == 0, f"windlass {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done

    # The controller

    def install(self) -> None:
        self.windlass("install", "--image", IMAGE, "--apply")
        self.wait_for_controllers()

    def wait_for_controllers(self) -> None:
        """Both replicas are there, and one of them leads."""
        path = path_of("deployments", plan.CONTROLLER, namespace=NAMESPACE)

        def are_ready() -> bool:
            status = self.client.get(path).expect(200).body.get("status", {})
            return bool(status.get("readyReplicas") == status.get("updatedReplicas") == 2)

        wait_for("two controllers", are_ready, SECONDS)
        wait_for("a leader", self.leader, SECONDS)

    def leader(self) -> str:
        """The name of the pod that leads. Empty: none does."""
        lease = self.client.get(path_of("leases", plan.CONTROLLER, namespace=NAMESPACE))
        holder = lease.body["spec"].get("holderIdentity") if lease.code == 200 else ""
        return next((name for name in self.controllers() if holder and holder.startswith(name)), "")

    def controllers(self) -> dict[str, Json]:
        """The pods of the Deployment by name."""
        ours = f"{plan.INSTANCE}={NAMESPACE},app.kubernetes.io/component=controller"
        pods = self.client.get(path_of("pods", namespace=NAMESPACE), labelSelector=ours).expect(200)
        return {item["metadata"]["name"]: item for item in pods.body["items"]}

    def controller_logs(self) -> dict[str, str]:
        inside = path_of("pods", namespace=NAMESPACE)
        return {
            name: self.client.get(
                f"{inside}/{name}/log", headers={"Accept": "*/*"}, tailLines="60"
            ).raw.decode()
            for name in self.controllers()
        }

    def audited(self, user: str = CONTROLLER) -> list[Json]:
        """The requests of a user that the API server has answered."""
        entries = [json.loads(line) for line in self.breakable().audit_log.read_text().splitlines()]
        return [
            entry
            for entry in entries
            if entry["stage"] == "ResponseComplete" and entry["user"]["username"] == user
        ]


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    """The cluster without Windlass. Several test processes may ask at once; one brings it up."""
    node = None if os.environ.get("KUBECONFIG") else _one_node()
    kubeconfig = Path(os.environ["KUBECONFIG"]) if node is None else node.kubeconfig
    with contextlib.closing(Client(Access.of_kubeconfig(kubeconfig))) as client:
        yield Cluster(client, kubeconfig, node)


def _one_node() -> OneNode:
    from one_node import cluster

    return cluster.up()


@contextlib.contextmanager
def with_windlass() -> Iterator[Cluster]:
    with running() as cluster:
        with Path(tempfile.gettempdir(), "windlass-live-install.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cluster.install()
        yield cluster
