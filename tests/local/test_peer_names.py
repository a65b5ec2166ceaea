"""Pods find each other by the names of a headless Service."""

from collections.abc import Iterator
from typing import Any

import pytest
from pods import daemons, levels
from pods.daemons import Daemon, Network
from pods.specs import FOREVER, RESOLVE, container, headless_service

from conformance.waiting import wait_for


@pytest.fixture(params=["isolated", "shared"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    network: Network = request.param
    name: levels.Name = "nobody" if levels.why_not("root") else "root"
    if reason := levels.why_not(name):
        pytest.skip(reason)
    with daemons.running(levels.level(name), network, is_ephemeral=True) as daemon:
        yield daemon


def test_pods_resolve_earlier_and_later_peers(daemon: Daemon) -> None:
    """Pods created before and after it."""
    place = daemon.new_place()
    place.create(headless_service("ring", {"app": "ring"}))
    labels = {"labels": {"app": "ring"}}
    names = [f"worker-{number}" for number in range(3)]
    asked = [
        text
        for name in names
        for text in (f"{name}.ring", f"{name}.ring.{place.namespace}.svc.cluster.local")
    ]
    run = container(["python3", "-c", RESOLVE + "\ntime.sleep(100000)", *asked])
    pods = [place.start(run, name=name, hostname=name, subdomain="ring", metadata=labels) for name in names]
    addresses = {pod.name: pod.running().address for pod in pods}
    for pod in pods:
        text = pod.says(asked[-1])
        found = dict(line.split() for line in text.splitlines())
        assert found == {name: addresses[name.partition(".")[0]] for name in asked}


def test_name_of_a_recreated_peer_is_updated(daemon: Daemon) -> None:
    place = daemon.new_place()
    place.create(headless_service("ring", {"app": "ring"}))
    labels = {"labels": {"app": "ring"}}
    shape: dict[str, Any] = {"subdomain": "ring", "metadata": labels}
    first = place.start(FOREVER, name="a", hostname="a", **shape)
    watcher = place.start(FOREVER, name="b", hostname="b", **shape)
    old = first.running().address
    watcher.running()
    look = ["python3", "-c", RESOLVE, "a.ring"]
    assert watcher.execute(*look).text == f"a.ring {old}\n"
    first.delete(grace=0)
    again = place.start(FOREVER, name="a2", hostname="a", **shape)
    new = again.running().address
    wait_for("the new address", lambda: watcher.execute(*look).text == f"a.ring {new}\n")
