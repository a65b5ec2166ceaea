"""Kill components and controllers, and restore everything."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from live.clusters import NAMESPACE, Cluster
from live.place import SECONDS

from conformance.objects import path as path_of
from conformance.waiting import wait_for
from one_node import cluster as one_node
from one_node import components, layout
from windlass.install import options

LEADER: Final = "the leading controller"
VICTIMS: Final = (
    LEADER,
    components.API_SERVER,
    components.ETCD,
    components.KUBELET,
    components.CONTAINERD,
)
NODE_PATH: Final = f"/api/v1/nodes/{layout.NODE}"


def kill(cluster: Cluster, victim: str) -> None:
    """Kill with SIGKILL."""
    if victim == LEADER:
        _kill_leader(cluster)
        return
    cluster.breakable().kill(victim)


def revive(cluster: Cluster, victim: str) -> None:
    """Restart a component; the kubelet restarts a controller."""
    if victim == LEADER:
        return
    cluster.breakable().start(victim)
    # Its state is in etcd.
    cluster.breakable().wait_until_it_serves(components.API_SERVER)
    cluster.client.close()


def restart_exited_scheduler(cluster: Cluster) -> None:
    """Start kube-scheduler if it does not run, like the kubelet of other control planes.

    kube-scheduler exits with "Scheduler cache is corrupted" if the API server dies before it answers a binding and the
    pod is then replaced by one of the same name.
    """
    cluster.breakable().launch(components.SCHEDULER)


def _kill_leader(cluster: Cluster) -> None:
    leader = wait_for("a leader", cluster.leader, SECONDS)
    pids = wait_for(f"a process of {leader}", lambda: list(_controllers_in(leader)), SECONDS)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _controllers_in(pod: str) -> Iterator[int]:
    """Return processes by their PID on the host. A pod's name is its host name and in its environment."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if f"HOSTNAME={pod}".encode() in environment and b"controller" in arguments:
                yield int(entry.name)


def set_unschedulable(cluster: Cluster, value: bool) -> None:
    cluster.client.patch(NODE_PATH, {"spec": {"unschedulable": value}}).expect(200)


def scale_controllers(cluster: Cluster, replicas: int) -> None:
    path = path_of("deployments", options.CONTROLLER_NAME, namespace=NAMESPACE)
    cluster.client.patch(path, {"spec": {"replicas": replicas}}).expect(200)


@contextlib.contextmanager
def beside_another_node(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Add a healthy fake node, because Kubernetes evicts pods of a lost node only while another one is healthy.

    Yield a function that must be called now and then to keep it healthy.
    """
    metadata, spec = {"name": "elsewhere"}, {"unschedulable": True}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    cluster.client.post("/api/v1/nodes", body).expect(201)
    path = "/api/v1/nodes/elsewhere"

    def beat() -> None:
        ready = {"type": "Ready", "status": "True", "reason": "Well", "message": "It is."}
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        conditions = [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}]
        patch = {"status": {"conditions": conditions}}
        cluster.client.patch(f"{path}/status", patch, kind="strategic").expect(200)

    try:
        beat()
        yield beat
    finally:
        cluster.client.delete(path)


def restore_all(cluster: Cluster) -> None:
    """Restore after a test: all components run, the node is schedulable, and two controllers exist."""
    node = cluster.breakable()
    for name in components.table(node.place):
        node.start(name)
    cluster.client.close()
    wait_for("the node to be ready", lambda: one_node.is_node_ready(node), SECONDS)
    set_unschedulable(cluster, value=False)
    scale_controllers(cluster, 2)
    cluster.wait_for_controllers()
