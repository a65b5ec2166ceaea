"""Folders with the credentials of the administrator are hidden from containers."""

from pathlib import Path

from windlass.localcluster.cluster import ClusterOptions, LocalCluster
from windlass.localcluster.kubelet import machine
from windlass.localcluster.kubelet.containers import plan
from windlass.localcluster.kubelet.gpus import MachineGpus
from windlass.localcluster.sandbox.messages import Mount, Ready


def test_resolved_data_directory_and_other_folders_are_hidden(tmp_path: Path) -> None:
    """A volume can replace a link in the path, but not the folder to which the link leads."""
    (tmp_path / "real" / "data").mkdir(parents=True)
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link"
    link.symlink_to("../real")
    options = ClusterOptions(hidden_folders=(link / "state",))
    host = LocalCluster(link / "data", options)._host(
        Ready(has_namespaces=True), machine.detect(tmp_path), MachineGpus(tmp_path, {})
    )
    real = str((tmp_path / "real").resolve())
    empty = f"{link}/data/empty"
    assert plan._hidden_folders(host) == [
        Mount(empty, f"{real}/state", read_only=True, hides=True),
        Mount(empty, f"{real}/data", read_only=True, hides=True),
    ]
