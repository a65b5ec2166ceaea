"""The logs of deleted pods: by UID, within a limit of bytes, and only for their namespace."""

import os
from pathlib import Path

import pytest

from windlass.localcluster.kubelet import log_archive
from windlass.localcluster.kubelet.log_archive import LogArchive, LogOwner
from windlass.localcluster.kubelet.pods.directory import PodDirectory


@pytest.fixture
def archive(tmp_path: Path) -> LogArchive:
    return LogArchive(tmp_path / "archive", tmp_path / "pods", max_bytes=20_000)


def pod(tmp_path: Path, uid: str, size: int = 10, namespace: str = "team", runs: int = 1) -> PodDirectory:
    folder = PodDirectory(tmp_path / "pods" / uid)
    folder.logs("main").mkdir(parents=True)
    for run in range(runs):
        folder.log("main", run).write_bytes(b"x" * size)
    LogArchive(tmp_path, tmp_path).describe(folder, LogOwner(namespace, "job-worker-0", ("main",)))
    return folder


def test_logs_are_found_by_uid_after_the_pod_is_deleted(archive: LogArchive, tmp_path: Path) -> None:
    folder = pod(tmp_path, "uid-1")
    archive.keep(folder)
    assert not folder.all_logs.exists()
    found = LogArchive(archive.path, tmp_path / "pods").find("uid-1")
    assert found is not None, "by a restarted daemon too"
    owner, kept = found
    assert (owner.namespace, owner.name) == ("team", "job-worker-0")
    assert kept.log("main", 0).read_bytes() == b"x" * 10


def test_oldest_logs_are_deleted_beyond_the_limit(archive: LogArchive, tmp_path: Path) -> None:
    for number in range(4):
        archive.keep(pod(tmp_path, f"uid-{number}", size=4000))
        os.utime(archive.path / f"uid-{number}", (number, number))
    archive.keep(pod(tmp_path, "uid-9", size=4000))
    kept = [folder.uid for folder in archive.folders()]
    assert kept[-1] == "uid-9"
    assert 0 < len(kept) < 5
    assert kept == sorted(kept), "the oldest ones are gone"


@pytest.mark.parametrize("uid", ["", ".", "..", "../pods/uid-1", "uid-2"])
def test_other_uids_are_not_found(archive: LogArchive, tmp_path: Path, uid: str) -> None:
    archive.keep(pod(tmp_path, "uid-1"))
    assert archive.find(uid) is None


def test_logs_are_deleted_with_their_namespace(tmp_path: Path) -> None:
    archive = LogArchive(tmp_path / "archive", tmp_path / "pods")
    archive.keep(pod(tmp_path, "uid-1"))
    archive.keep(pod(tmp_path, "uid-2", namespace="other"))
    assert {folder.uid for folder in archive.folders()} == {"uid-1", "uid-2"}
    archive.remove_namespace("team")
    assert [folder.uid for folder in archive.folders()] == ["uid-2"]


def test_pod_without_logs_is_not_kept(archive: LogArchive, tmp_path: Path) -> None:
    folder = pod(tmp_path, "uid-1", runs=0)
    archive.keep(folder)
    assert archive.folders() == []


def test_newest_log_is_that_of_the_last_or_the_previous_run(tmp_path: Path) -> None:
    folder = pod(tmp_path, "uid-1", runs=2)
    assert log_archive.newest_file(folder, "main", previous=False) == "1.log"
    assert log_archive.newest_file(folder, "main", previous=True) == "0.log"
    assert log_archive.newest_file(folder, "sidecar", previous=False) is None
