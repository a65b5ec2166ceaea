"""Arguments and configuration of the one-node cluster's components. tests/kubernetes uses the cluster itself."""

import dataclasses
import ipaddress
import json
import os
import stat
import sys
from pathlib import Path

import kubernetes_cluster
import pytest

from one_node import cluster, components, layout, machine, settings
from one_node.layout import Layout


@pytest.fixture
def place(tmp_path: Path) -> Layout:
    place = Layout(tmp_path / "data", tmp_path / "binaries", tmp_path / "runtime", minor=37)
    settings.write(place)
    place.certificate.parent.mkdir()
    place.certificate.write_text("a certificate")
    settings.write_kubeconfigs(place)
    return place


def test_every_file_in_arguments_exists(place: Layout) -> None:
    written_later = {place.audit_log, place.certificate.parent}
    for component in components.table(place).values():
        for argument in component.argv[1:]:
            path = Path(argument.partition("=")[2])
            if path.is_relative_to(place.data) and "--cert-dir" not in argument and path not in written_later:
                assert path.is_file(), f"{component.name}: {argument}"


@pytest.mark.parametrize(("minor", "is_old"), [(20, True), (23, True), (24, False), (37, False)])
def test_flags_that_newer_releases_reject_are_given_to_older_ones_only(
    place: Layout, minor: int, is_old: bool
) -> None:
    table = components.table(dataclasses.replace(place, minor=minor))
    for name in (components.CONTROLLER_MANAGER, components.SCHEDULER):
        assert ("--port=0" in table[name].arguments) is is_old
    assert ("--container-runtime=remote" in table[components.KUBELET].arguments) is is_old


@pytest.mark.parametrize(("minor", "expected"), [(20, None), (31, False), (37, False)])
def test_kubelet_accepts_cgroup_v1(place: Layout, minor: int, expected: bool | None) -> None:
    settings.write(dataclasses.replace(place, minor=minor))
    written = json.loads((place.settings / "kubelet.json").read_text())
    assert written.get("failCgroupV1") is expected


def test_kubelet_starts_after_containerd(place: Layout) -> None:
    assert components.table(place)[components.KUBELET].required == components.CONTAINERD


def test_component_that_exits_before_its_requirement_is_initialized_is_started_again(
    place: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = cluster.Cluster(place, machine.Machine(1))
    launches: list[str] = []
    monkeypatch.setattr(up, "launch", launches.append)
    monkeypatch.setattr(up, "_has_ended", lambda component: component.name == components.KUBELET)
    monkeypatch.setattr(up, "_serves", lambda _: len(launches) == 3)
    up.wait_until_it_serves(components.KUBELET)
    assert launches == [components.KUBELET] * 3


def test_component_that_exits_is_an_error(place: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    up = cluster.Cluster(place, machine.Machine(1))
    (place.logs / "etcd.log").write_text("the disk is full\n")
    monkeypatch.setattr(up, "_has_ended", lambda _: True)
    monkeypatch.setattr(up, "_serves", lambda _: False)
    with pytest.raises(machine.MachineError, match=r"etcd has ended[^$]*the disk is full"):
        up.wait_until_it_serves(components.ETCD)


def test_cluster_of_another_release_is_rejected(place: Layout) -> None:
    with pytest.raises(
        machine.MachineError, match=r"1\.37 is running, but 1\.20 was requested.*kubernetes-down"
    ):
        cluster._require_same_release(dataclasses.replace(place, minor=20))


def test_secrets_are_private(place: Layout) -> None:
    assert stat.S_IMODE(place.secrets.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in place.secrets.glob("*.*")}
    assert modes == {0o600}


def test_every_user_has_a_kubeconfig_with_its_token(place: Layout) -> None:
    for line in (place.secrets / "tokens.csv").read_text().splitlines():
        token, user = line.split(",")[:2]
        config = json.loads(place.kubeconfig(user).read_text())
        assert config["users"] == [{"name": user, "user": {"token": token}}]
        assert config["clusters"][0]["cluster"]["server"] == layout.URL


def test_components_have_distinct_ports() -> None:
    network = ipaddress.ip_network(layout.NETWORK)
    pods, services = ipaddress.ip_network(layout.PODS), ipaddress.ip_network(layout.SERVICES)
    link = ipaddress.ip_interface(layout.HOST_END).network
    parts = (pods, services, link)
    assert all(part.subnet_of(network) for part in parts)  # type: ignore[arg-type]
    assert not any(one.overlaps(other) for one in parts for other in parts if one is not other)
    assert ipaddress.ip_interface(layout.NODE_END).network == link
    assert ipaddress.ip_address(layout.ADDRESS) in pods


@pytest.mark.parametrize("do", [cluster.up, cluster.down])
def test_root_is_required(do: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(machine.MachineError, match=r"needs Linux and root\. Set KUBECONFIG"):
        do({"XDG_CACHE_HOME": str(tmp_path)})  # type: ignore[operator]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("up", "export KUBECONFIG=/some/file  # already set: nothing was started\n"),
        ("down", "KUBECONFIG is set: the cluster of /some/file is not changed.\n"),
    ],
)
def test_cluster_of_kubeconfig_is_unchanged(
    what: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/some/file")
    monkeypatch.setattr(sys, "argv", ["kubernetes_cluster.py", what])
    assert kubernetes_cluster.main() == 0
    assert capsys.readouterr().out == said


@pytest.mark.skipif(sys.platform != "linux", reason="the cluster needs Linux")
class TestRecord:
    def test_machine_that_was_never_started(self, tmp_path: Path) -> None:
        assert machine.running(tmp_path) is None

    @pytest.mark.parametrize(("started", "is_running"), [("its own", True), ("1", False)])
    def test_reused_pid_is_detected(self, started: str, is_running: bool, tmp_path: Path) -> None:
        own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        record = {"pid": os.getpid(), "started": own if started == "its own" else started}
        (tmp_path / "machine.json").write_text(json.dumps(record))
        assert (machine.running(tmp_path) is not None) == is_running

    def test_ended_machine_is_not_running(self, tmp_path: Path) -> None:
        highest = int(Path("/proc/sys/kernel/pid_max").read_text())
        (tmp_path / "machine.json").write_text(json.dumps({"pid": highest + 1, "started": "5"}))
        assert machine.running(tmp_path) is None
