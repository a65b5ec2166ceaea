"""One machine as several nodes."""

from collections.abc import Iterator

import pytest
from pods import daemons
from pods.daemons import Daemon
from pods.levels import Level
from pods.specs import FOREVER, container

PORT = 28123


@pytest.fixture
def three(best: Level) -> Iterator[Daemon]:
    with daemons.running(best, "auto", "--nodes", "3", is_ephemeral=True) as daemon:
        yield daemon


def test_three_logical_nodes_exist(three: Daemon) -> None:
    nodes = three.client.get("/api/v1/nodes").expect(200).body["items"]
    names = {node["metadata"]["name"] for node in nodes}
    assert len(names) == 3
    assert {node["metadata"]["labels"]["kubernetes.io/hostname"] for node in nodes} == names
    place = three.new_place()
    for name in names:
        pod = place.start("true", nodeSelector={"kubernetes.io/hostname": name})
        assert (pod.ended().phase, pod.seen().node) == ("Succeeded", name)


@pytest.mark.parametrize("is_host_network", [True, False], ids=["host-network", "host-port"])
def test_host_port_is_free_on_each_node(three: Daemon, is_host_network: bool) -> None:
    place = three.new_place()
    port = {"containerPort": PORT, **({} if is_host_network else {"hostPort": PORT})}
    pods = [place.start(container(FOREVER, ports=[port]), hostNetwork=is_host_network) for _ in range(4)]
    judged = [pod.wait("to be judged", lambda seen: "PodScheduled" in seen.conditions) for pod in pods]
    assert len({seen.node for seen in judged if seen.node}) == 3
    (late,) = (pod for pod, seen in zip(pods, judged, strict=True) if not seen.node)
    words = "0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports"
    assert late.event("FailedScheduling")["message"].startswith(words)
