"""The state of a pod on disk."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from windlass.localcluster.kubelet.lifecycle.records import (
    ContainerRecord,
    Ending,
    PodRecord,
    Running,
    Terminated,
    Waiting,
)
from windlass.localcluster.kubelet.pods.container_tracker import STATE_FILE, ContainerTracker, PodState
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.sandbox import state_file

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
RUNNING = ContainerRecord(
    "main", 2, Running(NOW, "id"), Terminated(1, finished_at=NOW), True, True, "/i", 20.0
)
STATES = [
    PodState(PodRecord((ContainerRecord("main"),))),
    PodState(PodRecord((RUNNING,)), {"other": "run"}),
    PodState(
        PodRecord(
            containers=(ContainerRecord("main", current=Waiting("CrashLoopBackOff", "why", NOW)),),
            init_containers=(
                ContainerRecord("fetch", current=Terminated(137, 9, "Error", "é", NOW, NOW, "x")),
            ),
            pod_ips=("10.0.0.1",),
            host_ips=("192.168.0.1",),
            start_time=NOW,
            has_sandbox=True,
            ending=Ending(30, "Evicted", "why"),
        )
    ),
]


@pytest.mark.parametrize("state", STATES)
def test_written_state_is_read(tmp_path: Path, state: PodState) -> None:
    state_file.write(tmp_path / STATE_FILE, STATES[0])
    state_file.write(tmp_path / STATE_FILE, state)
    assert state_file.read(tmp_path / STATE_FILE, PodState) == state
    assert len(list(tmp_path.iterdir())) == 1


def test_missing_state_is_none(tmp_path: Path) -> None:
    assert state_file.read(tmp_path / STATE_FILE, PodState) is None
    assert state_file.read(tmp_path / "none" / STATE_FILE, PodState) is None


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"record": {}}', b"\xff", b'{"record": {"containers": 1}}']
)
def test_invalid_state_is_none(tmp_path: Path, text: bytes) -> None:
    state_file.write(tmp_path / STATE_FILE, STATES[0])
    (file,) = tmp_path.iterdir()
    file.write_bytes(text)
    assert state_file.read(tmp_path / STATE_FILE, PodState) is None


def test_failed_write_keeps_earlier_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state_file.write(tmp_path / STATE_FILE, STATES[1])

    def write_half(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OSError, match="No space left"):
        state_file.write(tmp_path / STATE_FILE, STATES[0])
    monkeypatch.undo()
    assert state_file.read(tmp_path / STATE_FILE, PodState) == STATES[1]


def test_reports_that_arrive_at_once_are_saved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a write for each report, a pod with 500 containers stops the API server for seconds."""
    names = [f"c{number}" for number in range(100)]
    pod: dict[str, Any] = {"spec": {"containers": [{"name": name} for name in names]}}
    record = PodRecord(tuple(ContainerRecord(name, current=Running(NOW, f"run-{name}")) for name in names))
    sandbox: Any = SimpleNamespace(
        folder=PodDirectory(tmp_path), pod_name="p", termination_message=lambda *_, **__: ""
    )
    tracker = ContainerTracker(
        pod,
        sandbox,
        PodState(record),
        events=Mock(),
        faults=Mock(apply=lambda report: report),
        on_started=lambda *_: None,
        on_ended=lambda _: None,
    )
    writes: list[PodState] = []
    monkeypatch.setattr(state_file, "write", lambda _, state: writes.append(state))
    tracker.on_supervisor_lost()
    assert not tracker.record.is_anything_running
    tracker.save_reports()
    tracker.save_reports()
    assert writes == [PodState(tracker.record)]
