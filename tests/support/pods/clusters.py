"""The cluster that the conformance tests of pods run on: the embedded one, or with WINDLASS_TEST_CLUSTER=real that of
KUBECONFIG; without one, that of `make kubernetes`, which is brought up where it is not."""

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from pods import daemons, levels, specs
from pods.daemons import Daemon
from pods.place import Place

from conformance import servers
from conformance.client import Access, Client
from conformance.waiting import wait_for
from one_node import cluster as one_node


class Cluster(msgspec.Struct, frozen=True):
    client: Client
    # 20 for Kubernetes 1.20
    minor: int
    # None for a real one.
    daemon: Daemon | None = None

    @property
    def is_real(self) -> bool:
        return self.daemon is None

    def new_place(self) -> Place:
        place = daemons.new_place(self.client, minor=self.minor)
        if self.is_real:
            # A new namespace has no service account yet, which every pod needs, nor that its token before 1.24.
            wait_for("pods to be allowed", lambda: self._would_take_a_pod(place))
        return place

    def _would_take_a_pod(self, place: Place) -> bool:
        return self.client.post(place.path("pods"), specs.pod("p"), dryRun="All").code == 201


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    if servers.chosen() == "real":
        with _client_of_real() as client:
            yield Cluster(client, _minor(client))
        return
    name: levels.Name = "nobody" if levels.why_not("root") else "root"
    reason = levels.why_not(name)
    level = levels.level("plain" if reason else name)
    with daemons.running(level, is_ephemeral=True) as daemon:
        yield Cluster(daemon.client, _minor(daemon.client), daemon)
        traces = daemon.traces()
        daemon.stop()
        traces.wait_until_gone()


@contextlib.contextmanager
def _client_of_real() -> Iterator[Client]:
    named = os.environ.get("KUBECONFIG")
    kubeconfig = Path(named) if named else one_node.up().kubeconfig
    with contextlib.closing(Client(Access.of_kubeconfig(kubeconfig))) as client:
        yield client


@functools.cache
def release() -> int | None:
    """The minor version of the real cluster that was chosen; None where it is the embedded one."""
    if servers.chosen() != "real":
        return None
    with _client_of_real() as client:
        return _minor(client)


def _minor(client: Client) -> int:
    text = client.get("/version").expect(200).body["minor"]
    return int(re.sub(r"\D", "", text))
