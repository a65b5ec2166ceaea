"""A pod's folder: what lies in it, the files that its containers share, and that all of it goes."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.localcluster.kubelet.pods import directory, disk
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.kubelet.pods.pod_sandbox import PodSandbox
from windlass.model.base import Json

POD: Json = {"metadata": {"name": "worker-0", "namespace": "train", "uid": "0b1c"}, "spec": {}}
FACTS = PodFacts(pod_ips=("10.88.0.7",), host_ips=("192.0.2.1",), allocatable={})


@pytest.fixture
def folder(tmp_path: Path) -> PodDirectory:
    made = PodDirectory(tmp_path / "pods" / "0b1c")
    directory.make(made)
    return made


def test_paths(tmp_path: Path) -> None:
    folder = PodDirectory(tmp_path / "0b1c")
    paths = {
        "volumes/data": folder.volume("data"),
        "containers/r1/termination-log": folder.termination_log("r1"),
        "logs/main/2.log": folder.log("main", 2),
        "hosts": folder.hosts,
        "resolv.conf": folder.resolv_conf,
        "hostname": folder.hostname,
    }
    assert paths == {name: tmp_path / "0b1c" / name for name in paths}


def test_directory_is_private(folder: PodDirectory) -> None:
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_termination_log_is_writable_for_all_users(folder: PodDirectory) -> None:
    directory.make_run(folder, "r1", "main")
    assert folder.termination_log("r1").stat().st_mode & 0o777 == 0o666
    assert folder.logs("main").is_dir()


@pytest.mark.parametrize(("spec", "name"), [({}, "worker-0"), ({"hostNetwork": True}, "laptop")])
def test_hostname(spec: Json, name: str) -> None:
    assert directory.hostname({**POD, "spec": spec}, "laptop") == name


def test_hosts_file_is_rewritten_in_place(folder: PodDirectory) -> None:
    def write(*entries: tuple[str, tuple[str, ...]]) -> bool:
        return directory.write_hosts(folder, POD, FACTS, entries, node_hosts="")

    assert write(("10.88.0.8", ("ps-0", "ps-0.train")))
    inode = folder.hosts.stat().st_ino
    assert not write(("10.88.0.8", ("ps-0", "ps-0.train")))
    assert write(("10.88.0.9", ("ps-0",)))
    assert folder.hosts.stat().st_ino == inode
    assert folder.hosts.read_text().endswith(
        "10.88.0.7\tworker-0\n\n# Entries added by the cluster.\n10.88.0.9\tps-0\n"
    )


@pytest.mark.parametrize(
    ("of_machine", "nameservers", "expected"),
    [
        ("nameserver 127.0.0.53\nsearch lan\n", (), "search lan\nnameserver 127.0.0.53\n"),
        ("nameserver 127.0.0.53\nsearch lan\n", ("10.88.0.1",), "search lan\nnameserver 10.88.0.1\n"),
        (
            "nameserver ::1\nnameserver 9.9.9.9\n",
            ("10.88.0.1",),
            "nameserver 10.88.0.1\nnameserver 9.9.9.9\n",
        ),
        ("nameserver 9.9.9.9\n", ("10.88.0.1",), "nameserver 9.9.9.9\n"),
        ("search lan\n", ("10.88.0.1",), "search lan\nnameserver 10.88.0.1\n"),
        ("nameserver\nnameserver what\n", ("10.88.0.1",), "nameserver what\n"),
    ],
)
def test_resolv_conf(
    folder: PodDirectory, of_machine: str, nameservers: tuple[str, ...], expected: str
) -> None:
    directory.write_resolv_conf(folder, POD, of_machine, nameservers)
    assert folder.resolv_conf.read_text() == expected


def test_hostname_file(folder: PodDirectory) -> None:
    directory.write_hostname(folder, "a-longer-name")
    directory.write_hostname(folder, "short")
    assert folder.hostname.read_text() == "short\n"


def test_full_disk_is_reported(folder: PodDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(
        SetupError, match=r"Failed to create pod sandbox: .*hostname: No space left on device"
    ) as told:
        directory.write_hostname(folder, "x")
    assert told.value.reason == "FailedCreatePodSandBox"


def test_file_in_place_of_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("")
    with pytest.raises(SetupError, match="Not a directory"):
        directory.make(PodDirectory(tmp_path / "pods" / "0b1c"))


# Removal


@pytest.mark.parametrize(
    ("is_ephemeral", "is_full", "stays"),
    [(False, False, False), (False, True, False), (True, False, True), (True, True, False)],
    ids=["lasting", "lasting and full", "ephemeral", "ephemeral and full"],
)
def test_logs_of_deleted_pods(
    is_ephemeral: bool, is_full: bool, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ephemeral cluster keeps them while there is space."""
    folder = directory.PodDirectory(tmp_path / "uid")
    log = folder.logs("main") / "0.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line")
    monkeypatch.setattr(disk, "MIN_FREE_BYTES", 1 << 62 if is_full else 0)
    monkeypatch.setattr(disk, "MIN_FREE_INODES", 0)
    place: Any = SimpleNamespace(
        folder=folder,
        _directories=SimpleNamespace(is_ephemeral=is_ephemeral, path=tmp_path, archive=None),
    )
    PodSandbox.remove(place)
    assert log.exists() is stays
