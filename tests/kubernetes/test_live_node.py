"""The cluster of `make kubernetes`: up is idempotent, and down leaves nothing."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from live import clusters
from live.clusters import Cluster

from conformance.waiting import wait_for
from one_node import cluster as one_node
from one_node import components, layout, machine

pytestmark = pytest.mark.renewal


@pytest.fixture
def data(cluster: Cluster) -> Path:
    return cluster.breakable().place.data


def test_up_starts_only_stopped_components(cluster: Cluster, data: Path) -> None:
    before = _components(data)
    cluster.breakable().kill(components.SCHEDULER)
    again = one_node.up()
    after = _components(data)
    assert again.kubeconfig == cluster.kubeconfig
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {components.SCHEDULER}


def test_down_leaves_nothing(cluster: Cluster, data: Path) -> None:
    """Not even of a running job; up creates a new cluster."""
    node = machine.running(data)
    assert node is not None
    place = cluster.new_place()
    namespaces = {Path(f"/proc/{node.pid}/ns/{kind}").readlink() for kind in ("pid", "net", "mnt")}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sleeper"},
        "spec": {
            "containers": [{"name": "main", "image": "windlass/test:1", "command": ["sleep", "100000"]}]
        },
    }
    cluster.client.post(place.path("pods"), body).expect(201)
    wait_for("the pod to run", lambda: place.pod("sleeper")["status"]["phase"] == "Running")

    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    one_node.down()
    assert not data.exists()
    assert not [found for found in _namespaces_in_use(now) if found in namespaces]
    assert str(data) not in Path("/proc/self/mountinfo").read_text()
    assert not Path("/sys/class/net", layout.UPLINK).exists()
    routes = subprocess.run(["ip", "route"], check=True, capture_output=True, text=True).stdout  # noqa: S607
    assert "198.18." not in routes
    assert not [group for group in machine.control_groups() if group.exists()]

    with clusters.with_windlass() as anew:
        assert "sleeper" not in str(anew.client.get("/api/v1/pods").expect(200).body)


def _components(data: Path) -> dict[str, int]:
    node = machine.running(data)
    assert node is not None
    table = components.table(one_node.up().place)
    found = node.processes()
    return {
        name: pid for name, each in table.items() for pid, argv in found.items() if each.is_started_by(argv)
    }


def _namespaces_in_use(before: float) -> set[Path]:
    """Return processes started before: a later one may have reused a PID."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if _started(process) <= before:
                found |= {entry.readlink() for entry in (process / "ns").iterdir()}
        except OSError:  # it has ended
            continue
    return found


def _started(process: Path) -> float:
    """Return the start time in seconds since boot."""
    _, _, fields = (process / "stat").read_text().rpartition(")")
    return int(fields.split()[19]) / os.sysconf("SC_CLK_TCK")
