"""The sandbox of a pod writes files only when their content may have changed."""

import asyncio
import socket
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass.localcluster.kubelet.addresses import PodNetwork
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.pods.pod_sandbox import PodDirectories, PodSandbox
from windlass.localcluster.sandbox.messages import Ready
from windlass.localcluster.sandbox.process import processes
from windlass.localcluster.sandbox.process.supervisor import SOCKET
from windlass.model.base import Json

POD: Json = {"metadata": {"name": "worker-0", "namespace": "train", "uid": "0b1c"}, "spec": {}}


class Names:
    """The names in the namespace of the pod."""

    def __init__(self) -> None:
        self.entries: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def host_entries(self, _: Json) -> Any:
        # A new object with each call, as in the ObjectLookup.
        return (*self.entries,)

    def facts(self, _: Json, pod_ips: tuple[str, ...], host_ips: tuple[str, ...]) -> PodFacts:
        return PodFacts(pod_ips=pod_ips, host_ips=host_ips, allocatable={})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({}, "nameserver 10.88.0.1\n"), ({"hostNetwork": True}, "nameserver 127.0.0.53\n")],
    ids=["pod network", "host network"],
)
def test_only_isolated_pods_get_nameservers_of_pod_network(
    spec: Json, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = {**POD, "spec": spec}
    ready = Ready(has_namespaces=True, gateway="10.88.0.1", prefix_length=24, nameservers=("10.88.0.1",))
    unused: Any = None

    async def spawn(_: object) -> None:
        pass

    sandbox = PodSandbox(
        pod,
        directories=PodDirectories(tmp_path, "cluster", is_ephemeral=False),
        host=cast(
            "Any",
            SimpleNamespace(
                hosts_file="", hostname="h", resolv_conf="nameserver 127.0.0.53\n", can_mount=False
            ),
        ),
        network=PodNetwork(ready, "192.0.2.1", PurePath(tmp_path)),
        objects=cast("Any", Names()),
        account_tokens=unused,
        claim_folder=unused,
        images=unused,
        spawner=cast("Any", SimpleNamespace(spawn=spawn)),
    )
    monkeypatch.setattr(sandbox, "prepare_volumes", lambda _: SimpleNamespace(mounted=()))
    sandbox.allocate_addresses(pod)
    asyncio.run(sandbox.create(pod))
    assert sandbox.folder.resolv_conf.read_text() == expected


def test_hosts_file_is_written_only_if_names_or_addresses_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: Any = Names()
    unused: Any = None
    host: Any = SimpleNamespace(hosts_file="")
    sandbox = PodSandbox(
        POD,
        directories=PodDirectories(tmp_path, "cluster", is_ephemeral=False),
        host=host,
        network=PodNetwork(Ready(has_namespaces=True), "192.0.2.1", PurePath(tmp_path)),
        objects=names,
        account_tokens=unused,
        claim_folder=unused,
        images=unused,
        spawner=unused,
    )
    directory.make(sandbox.folder)
    write, written = directory.write_hosts, []

    def count(*arguments: Any) -> bool:
        written.append(arguments)
        return write(*arguments)

    monkeypatch.setattr(directory, "write_hosts", count)
    for _ in range(5):
        sandbox.refresh_hosts(POD)
    assert len(written) == 1

    names.entries = (("10.88.0.9", ("worker-1.job",)),)
    for _ in range(5):
        sandbox.refresh_hosts(POD)
    assert len(written) == 2
    assert "worker-1.job" in sandbox.folder.hosts.read_text()

    address = sandbox.allocate_addresses(POD).pod[0]
    sandbox.refresh_hosts(POD)
    assert address in sandbox.folder.hosts.read_text()


@pytest.mark.parametrize(("is_killed", "searches"), [(False, 0), (True, 1)])
def test_processes_are_searched_only_after_a_killed_supervisor(
    is_killed: bool, searches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search reads the environment of every process of the machine, so that many ended pods would take long."""
    searched = []

    def search(_: bytes, value: bytes) -> list[int]:
        searched.append(value)
        return []

    monkeypatch.setattr(processes, "pids_with_variable", search)
    folder = directory.PodDirectory(tmp_path / "0b1c")
    folder.path.mkdir()
    if is_killed:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(folder.path / SOCKET))
    asyncio.run(PodDirectories(tmp_path, "cluster", is_ephemeral=True).end_pod(folder))
    assert searched == [b"0b1c"] * searches
