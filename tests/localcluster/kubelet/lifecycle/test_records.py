"""The facts of a container: what a start, an end and a failed start leave behind, and that they can be stored."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from windlass.localcluster.kubelet.lifecycle import records, restarts
from windlass.localcluster.kubelet.lifecycle.records import (
    ContainerRecord,
    PodRecord,
    Running,
    Terminated,
    Waiting,
)

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
RUN = Running(NOW - timedelta(seconds=5), "id1")
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u1"},
    "spec": {
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "a"}, {"name": "b", "startupProbe": {}, "readinessProbe": {}}],
    },
}


@pytest.mark.parametrize(
    ("given", "code", "reason"),
    [
        ({}, 0, "Completed"),
        ({"exit_code": 3}, 3, "Error"),
        ({"signal": 9}, 137, "Error"),
        ({"signal": 15}, 143, "Error"),
        ({"signal": 9, "was_out_of_memory": True}, 137, "OOMKilled"),
        ({"exit_code": 1, "was_out_of_memory": True}, 1, "OOMKilled"),
    ],
)
def test_end_has_exit_code_and_reason(given: dict[str, Any], code: int, reason: str) -> None:
    end = records.end(RUN, NOW, **given)
    assert (end.exit_code, end.reason) == (code, reason)
    assert (end.started_at, end.finished_at, end.id) == (RUN.started_at, NOW, "id1")


def test_start_error_has_exit_code_128() -> None:
    error = records.start_error("no such file", NOW, "id1")
    assert (error.exit_code, error.reason, error.started_at) == (128, "StartError", None)


def test_restart_increments_count_and_keeps_last_state() -> None:
    first = restarts.with_started(POD, records.new(POD), "a", RUN)
    assert first.container("a").restart_count == 0
    end = records.end(RUN, NOW, exit_code=1)
    ended = first.with_container(first.container("a").with_end(end))
    assert not ended.container("a").is_ready
    second = restarts.with_started(POD, ended, "a", Running(NOW, "id2"))
    container = second.container("a")
    assert (container.restart_count, container.last, container.container_id) == (1, end, "id2")


def test_failed_start_does_not_count_as_restart() -> None:
    record = ContainerRecord("a").with_failed_start("CreateContainerConfigError", "no such map", NOW)
    assert not record.has_run
    started = restarts.with_started(POD, records.new(POD).with_container(record), "a", RUN)
    assert started.container("a").restart_count == 0


@pytest.mark.parametrize(("name", "is_at_once"), [("a", True), ("b", False), ("i", True)])
def test_container_with_probes_is_not_ready_at_start(name: str, is_at_once: bool) -> None:
    container = restarts.with_started(POD, records.new(POD), name, RUN).container(name)
    assert (container.has_started, container.is_ready) == (is_at_once, is_at_once)


@pytest.mark.parametrize("current", [Waiting("CrashLoopBackOff", "m", NOW), RUN, records.end(RUN, NOW)])
def test_record_survives_serialization(current: Running | Waiting | Terminated) -> None:
    record = PodRecord(
        containers=(ContainerRecord("a", 2, current, records.LOST, back_off_seconds=20),),
        ending=records.Ending(30, "Evicted", "m"),
    )
    assert msgspec.json.decode(msgspec.json.encode(record), type=PodRecord) == record
