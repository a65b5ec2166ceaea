"""A complete Kubernetes with Windlass installed by its installer.

It is the cluster of KUBECONFIG, whose nodes need the images, or that of `make kubernetes`, which is started if
necessary. Only the latter may be broken.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import pytest
from live import jobs, request_counts
from live.place import Place
from live.request_counts import Account

import workshops
from conformance.client import Access, Client, Json
from conformance.objects import path as path_of
from conformance.waiting import wait_for
from images import catalogue, checkout
from one_node import layout
from one_node.cluster import Cluster as OneNode
from one_node.layout import Layout
from windlass.install import options

NAMESPACE: Final = options.DEFAULT_NAMESPACE
CONTROLLER: Final = f"system:serviceaccount:{NAMESPACE}:{options.CONTROLLER_NAME}"
"""The controller's user name on the API server."""
IMAGE: Final = os.environ.get("WINDLASS_TEST_CONTROLLER_IMAGE") or (
    options.DEFAULT_IMAGE if os.environ.get("KUBECONFIG") else catalogue.controller(checkout.read()).tags[-1]
)
"""The image of the controller; on our own cluster with a tag that is unique for the state of the checkout."""
LONGEST_LINE: Final = 300
"""Maximum length of log lines in messages, because some contain whole objects."""
TEST_NAMESPACE: Final = "live-"
"""Prefix of the tests' namespaces."""
SECONDS: Final = 300.0


class Cluster(msgspec.Struct, frozen=True):
    client: Client
    kubeconfig: Path
    # None for the cluster of KUBECONFIG.
    node: OneNode | None

    def breakable(self) -> OneNode:
        """Return the cluster if its components may be killed."""
        if self.node is None:
            pytest.skip("the cluster of KUBECONFIG is not ours to break")
        return self.node

    def new_place(self) -> Place:
        name = f"{TEST_NAMESPACE}{uuid.uuid4().hex[:10]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.client.post("/api/v1/namespaces", body).expect(201)
        place = Place(self.client, name)
        # Before 1.24 a pod needs the token of its service account, which is created after the namespace.
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, **jobs.template("true")}
        wait_for(
            "pods to be allowed", lambda: self.client.post(place.path("pods"), pod, dryRun="All").code == 201
        )
        return place

    def windlass(self, *arguments: str, is_expected_to_work: bool = True) -> subprocess.CompletedProcess[str]:
        """The command line of a cluster administrator."""
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
        if self._is_installed():
            self.wait_for_controllers()
        else:
            self.install_anew()

    def install_anew(self) -> None:
        """Install with the default options, whatever is installed."""
        self.windlass("install", "--image", IMAGE, "--apply")
        self.wait_for_controllers()

    def _is_installed(self) -> bool:
        found = self.client.get(path_of("deployments", options.CONTROLLER_NAME, namespace=NAMESPACE))
        return found.code == 200 and IMAGE in found.raw.decode()

    def wait_for_controllers(self) -> None:
        """Wait until both replicas are ready and one of them leads."""
        path = path_of("deployments", options.CONTROLLER_NAME, namespace=NAMESPACE)

        def are_ready() -> bool:
            found = self.client.get(path).expect(200).body
            status = found.get("status", {})
            # The counts may be older than the last change of the Deployment or of a pod.
            is_current = status.get("observedGeneration") == found["metadata"]["generation"]
            are_counted = status.get("replicas") == status.get("updatedReplicas") == 2
            return is_current and are_counted and len(self.ready_controllers()) == 2

        wait_for("two controllers", are_ready, SECONDS)
        wait_for("a leader", self.leader, SECONDS)

    def leader(self) -> str:
        """Return the name of the leading pod; empty if there is none."""
        lease = self.client.get(path_of("leases", options.CONTROLLER_NAME, namespace=NAMESPACE))
        holder = lease.body["spec"].get("holderIdentity") if lease.code == 200 else ""
        return next((name for name in self.controllers() if holder and holder.startswith(name)), "")

    def controllers(self) -> dict[str, Json]:
        """Return the pods of the Deployment by name."""
        ours = f"{options.INSTANCE}={NAMESPACE},app.kubernetes.io/component=controller"
        pods = self.client.get(path_of("pods", namespace=NAMESPACE), labelSelector=ours).expect(200)
        return {item["metadata"]["name"]: item for item in pods.body["items"]}

    def ready_controllers(self) -> set[str]:
        """Return the names of ready pods that are not terminating."""
        return {name for name, pod in self.controllers().items() if _is_ready(pod)}

    def controller_logs(self) -> dict[str, str]:
        return {name: self._log_of(name) for name in self.controllers()}

    def _log_of(self, controller: str) -> str:
        path = path_of("pods", controller, "log", namespace=NAMESPACE)
        lines = self.client.get(path, headers={"Accept": "*/*"}, tailLines="60").raw.decode().splitlines()
        return "\n".join(line[:LONGEST_LINE] for line in lines)

    def audited(self, user: str = CONTROLLER) -> list[Json]:
        """Return the completed requests of a user."""
        entries = request_counts.read(self.breakable().audit_log, user)
        return [entry for entry in entries if entry["user"]["username"] == user]

    def audited_in(self, namespace: str) -> list[Json]:
        """Return all requests in the namespace."""
        entries = request_counts.read(self.breakable().audit_log, namespace)
        return [entry for entry in entries if entry.get("objectRef", {}).get("namespace") == namespace]


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    """Start the cluster without Windlass. Several test processes may call it; one starts it."""
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
        with workshops.locked(Path(tempfile.gettempdir(), "windlass-live-install.lock"), "the installation"):
            cluster.install()
        yield cluster


def accounts_since(began: datetime) -> dict[str, Account]:
    """Return the request counts of all Frameworks since then; empty without a readable audit log."""
    log = Layout(layout.data_folder(os.environ), Path(), Path()).audit_log
    if os.environ.get("KUBECONFIG") or not log.exists():
        return {}
    return request_counts.by_namespace(request_counts.read(log, TEST_NAMESPACE, began), CONTROLLER)
