"""The cluster of `make kubernetes` itself: brought up twice it is the same, and taken down nothing of it stays."""

import os
import subprocess
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


def test_up_starts_only_what_does_not_run(cluster: Cluster, data: Path) -> None:
    before = _components(data)
    cluster.breakable().kill(components.SCHEDULER)
    again = one_node.up()
    after = _components(data)
    assert again.kubeconfig == cluster.kubeconfig
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {components.SCHEDULER}


def test_down_leaves_nothing(cluster: Cluster, data: Path) -> None:
    """Not even of a job that runs; and up makes it anew."""
    node = machine.running(data)
    assert node is not None
    place = cluster.new_place()
    held = [os.open(f"/proc/{node.pid}/ns/{kind}", os.O_RDONLY) for kind in ("pid", "net", "mnt")]
    namespaces = {Path(f"/proc/self/fd/{descriptor}").readlink() for descriptor in held}
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

    one_node.down()
    assert not data.exists()
    # As long as we have them open, no other namespace gets their numbers.
    assert not [found for found in _namespaces_in_use() if found in namespaces]
    for descriptor in held:
        os.close(descriptor)
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


def _namespaces_in_use() -> set[Path]:
    """By any process of the machine."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/*"):
        try:
            found.add(entry.readlink())
        except OSError:  # it has ended
            continue
    return found
