"""Shortages of disk space and inodes, and the usage of directories."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from deep_folders import make_deep_folder

from windlass.localcluster import file_trees
from windlass.localcluster.kubelet.pods import disk
from windlass.localcluster.kubelet.pods.disk import Shortage, Usage

ENOUGH_BYTES, ENOUGH_INODES = disk.MIN_FREE_BYTES, disk.MIN_FREE_INODES


@pytest.mark.parametrize(
    ("free", "inodes", "free_inodes", "resource"),
    [
        (ENOUGH_BYTES, 10**6, ENOUGH_INODES, None),
        (ENOUGH_BYTES - 1, 10**6, ENOUGH_INODES, "ephemeral-storage"),
        (ENOUGH_BYTES, 10**6, ENOUGH_INODES - 1, "inodes"),
        (ENOUGH_BYTES, 0, 0, None),
    ],
    ids=["enough", "few bytes", "few inodes", "no limit of inodes"],
)
def test_shortage_of_bytes_and_inodes(
    free: int,
    inodes: int,
    free_inodes: int,
    resource: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = SimpleNamespace(f_bavail=free, f_frsize=1, f_files=inodes, f_favail=free_inodes)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    shortage = disk.shortage(tmp_path)
    assert (None if shortage is None else shortage.resource) == resource


def test_unreadable_disk_has_no_shortage(tmp_path: Path) -> None:
    assert disk.shortage(tmp_path / "missing") is None


def test_usage_counts_inodes_of_empty_files_and_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for number in range(5):
        (tmp_path / "folder" / f"empty-{number}").touch()
    assert disk.usage(tmp_path).inodes == 6
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    once = disk.usage(tmp_path)
    os.link(tmp_path / "large", tmp_path / "folder" / "same")
    assert disk.usage(tmp_path) == once
    assert once.bytes >= 100_000
    assert disk.usage(tmp_path / "missing") == Usage()


def test_usage_counts_files_at_any_depth(tmp_path: Path) -> None:
    """Otherwise a pod could keep the eviction manager from freeing the disk."""
    make_deep_folder(tmp_path / "volume", 1500)
    found = disk.usage(tmp_path / "volume")
    file_trees.remove(tmp_path / "volume")
    assert found.inodes == 1501


def test_only_enough_usage_covers_a_shortage() -> None:
    shortage = Shortage("ephemeral-storage", required=100, free=40)
    assert not shortage.is_covered_by(Usage(bytes=59, inodes=1000))
    assert shortage.is_covered_by(Usage(bytes=60))
    assert Shortage("inodes", required=100, free=40).is_covered_by(Usage(inodes=60))
