"""The disk space of deleted pods."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.localcluster.kubelet import disk_errors
from windlass.localcluster.kubelet.pods import directory
from windlass.localcluster.kubelet.pods.pod_sandbox import PodSandbox


@pytest.mark.parametrize(
    ("is_ephemeral", "free", "stays"),
    [(False, None, False), (False, 0, False), (True, None, True), (True, 0, False)],
    ids=["lasting", "lasting and full", "ephemeral", "ephemeral and full"],
)
def test_logs_of_deleted_pods(
    is_ephemeral: bool, free: int | None, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ephemeral cluster keeps them while there is space."""
    folder = directory.of(tmp_path, "uid")
    log = folder.logs("main") / "0.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line")
    monkeypatch.setattr(disk_errors, "free_if_short", lambda _: free)
    place: Any = SimpleNamespace(
        folder=folder, _directories=SimpleNamespace(is_ephemeral=is_ephemeral, path=tmp_path)
    )
    PodSandbox.remove(place)
    assert log.exists() is stays


def test_free_space_is_sufficient_or_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_errors.free_if_short(tmp_path / "nowhere") is None
    monkeypatch.setattr(disk_errors, "LEAST_FREE_BYTES", 0)
    assert disk_errors.free_if_short(tmp_path) is None
    monkeypatch.setattr(disk_errors, "LEAST_FREE_BYTES", 2**63)
    assert (disk_errors.free_if_short(tmp_path) or 0) > 0
