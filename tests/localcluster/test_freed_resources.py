"""The disk space of deleted pods."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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
    folder = directory.PodDirectory(tmp_path / "uid")
    log = folder.logs("main") / "0.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line")
    monkeypatch.setattr(directory, "low_free_bytes", lambda _: free)
    place: Any = SimpleNamespace(
        folder=folder, _directories=SimpleNamespace(is_ephemeral=is_ephemeral, path=tmp_path)
    )
    PodSandbox.remove(place)
    assert log.exists() is stays


def test_free_space_is_sufficient_or_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert directory.low_free_bytes(tmp_path / "nowhere") is None
    monkeypatch.setattr(directory, "MIN_FREE_BYTES", 0)
    assert directory.low_free_bytes(tmp_path) is None
    monkeypatch.setattr(directory, "MIN_FREE_BYTES", 2**63)
    assert (directory.low_free_bytes(tmp_path) or 0) > 0
