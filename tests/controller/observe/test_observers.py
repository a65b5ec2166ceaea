"""Observers pass reasons and failures to events, metrics, logs and snapshots."""

import asyncio
import io
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import builders
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from windlass.controller.engine.api import ConflictError, RefusedError, RequestError, UnknownOutcomeError
from windlass.controller.engine.lease_guard import NotLeadingError
from windlass.controller.observe.events import Recorder
from windlass.controller.observe.metrics import Metrics
from windlass.controller.observe.observers import Observers
from windlass.decide import initial_status
from windlass.decide.types import Reason, ReasonKind
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import frameworks
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework
from windlass.model.names import CONTROLLER_GROUP
from windlass.model.settings import LogFrameworkSnapshot, LogObjectSnapshot
from windlass.model.states import State

QUIET = LogObjectSnapshot(framework=LogFrameworkSnapshot(on_framework_retry=False))


def job() -> Framework:
    made = builders.framework("job", namespace="team", uid="fw-1")
    return made.with_status(initial_status.framework_status(made, builders.NOW))


JOB = job()
STARTED = Reason(ReasonKind.ATTEMPT_STARTED, "attempt 0 has begun")
FAILED = Reason(ReasonKind.TASK_FAILED, "task 1 failed", "worker", 1, is_warning=True)
RETRIED = Reason(ReasonKind.FRAMEWORK_RETRIED, "tried again", status=JOB.status)


class Bench:
    def __init__(self, *, has_events: bool = True, wanted: LogObjectSnapshot | None = None) -> None:
        self.posted: list[Any] = []
        self.errors = io.BytesIO()
        self.metrics = Metrics(self, frameworks=lambda: (), queue_depth=lambda: 0, is_leader=lambda: True)
        self.recorder = (
            Recorder(self.send, self, instance="test", count_outcome=self.metrics.on_event)
            if has_events
            else None
        )
        stream = io.TextIOWrapper(self.errors, encoding="utf-8", write_through=True)
        self.observers = Observers(self.metrics, self.recorder, wanted or LogObjectSnapshot(), stream, self)

    async def send(self, request: Request, timeout: float = 30.0) -> bytes:
        self.posted.append(msgspec.json.decode(request.body))
        return b"{}"

    def now(self) -> datetime:
        return builders.NOW

    def monotonic(self) -> float:
        return 0.0

    def announce(self, *reasons: Reason) -> None:
        async def story() -> None:
            self.observers.on_reasons(JOB, reasons)
            if self.recorder is not None:
                await self.recorder.flush(60)

        asyncio.run(story())

    def sample(self, name: str, **labels: str) -> float:
        text = self.metrics.exposition().decode()
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found)

    @property
    def snapshots(self) -> list[str]:
        return self.errors.getvalue().decode().splitlines()


def lines(caplog: pytest.LogCaptureFixture) -> Sequence[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_reason_becomes_an_event_and_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass")
    bench = Bench()
    bench.announce(STARTED, FAILED)
    assert {(event["reason"], event["type"], event["message"]) for event in bench.posted} == {
        ("AttemptStarted", "Normal", "attempt 0 has begun"),
        ("TaskFailed", "Warning", "task 1 failed"),
    }
    assert lines(caplog) == [(logging.INFO, "attempt 0 has begun"), (logging.WARNING, "task 1 failed")]
    assert bench.snapshots == []


def test_events_can_be_disabled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass")
    bench = Bench(has_events=False)
    bench.announce(STARTED)
    assert bench.posted == []
    assert lines(caplog) == [(logging.INFO, "attempt 0 has begun")]


@pytest.mark.parametrize(("wanted", "count"), [(LogObjectSnapshot(), 1), (QUIET, 0)])
def test_retry_is_counted_and_leaves_a_snapshot_if_enabled(wanted: LogObjectSnapshot, count: int) -> None:
    bench = Bench(wanted=wanted)
    bench.announce(RETRIED)
    assert len(bench.snapshots) == count
    assert all(": ObjectSnapshot: " in line and '"fw-1"' in line for line in bench.snapshots)
    assert bench.sample("windlass_retries_total", level="framework") == 1


def test_stores_and_deletions_reach_the_metrics() -> None:
    """The time to the first pod is what a store can show."""
    bench = Bench()
    assert JOB.status is not None
    attempt = msgspec.structs.replace(JOB.status.attempt_status, config_map_uid="cm-1")
    before = JOB.with_status(msgspec.structs.replace(JOB.status, attempt_status=attempt))
    role = attempt.roles[0]
    (task,) = role.task_statuses
    created = msgspec.structs.replace(
        task,
        state=State.ATTEMPT_PREPARING,
        attempt_status=msgspec.structs.replace(task.attempt_status, pod_uid="pod-1"),
    )
    role = msgspec.structs.replace(role, task_statuses=(created,))
    assert before.status is not None
    after = before.with_status(
        msgspec.structs.replace(
            before.status, attempt_status=msgspec.structs.replace(attempt, task_role_statuses=(role,))
        )
    )
    bench.observers.on_stored(before, after)
    bench.observers.on_deletion(after)
    assert bench.sample("windlass_time_to_first_pod_seconds_count") == 1


def test_passes_reach_the_metrics() -> None:
    bench = Bench()
    bench.observers.on_pass_end(0.25)
    assert bench.sample("windlass_pass_duration_seconds_sum") == 0.25


def test_watch_error_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.observers.on_watch_error(frameworks(CONTROLLER_GROUP), errors.NoValidResponseError("cut"))
    assert lines(caplog) == [(logging.WARNING, "cannot watch frameworks: cut")]
    assert vars(caplog.records[0])["group"] == CONTROLLER_GROUP
    assert bench.sample("windlass_watch_errors_total", resource="frameworks") == 1


def test_missing_status_subresource_is_logged_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    Bench().observers.on_status_subresource_missing(CONTROLLER_GROUP)
    ((level, message),) = lines(caplog)
    assert level == logging.ERROR
    assert "windlass install --crds-only --apply" in message
    assert vars(caplog.records[0])["group"] == CONTROLLER_GROUP


def test_snapshot_is_written_to_the_log_stream() -> None:
    bench = Bench()
    bench.observers.write_snapshot("The pod was deleted: ObjectSnapshot: {}")
    assert bench.snapshots == ["The pod was deleted: ObjectSnapshot: {}"]


def test_snapshots_are_dropped_without_a_stream() -> None:
    bench = Bench()
    silent = Observers(bench.metrics, None, LogObjectSnapshot(), None, bench)
    silent.on_reasons(JOB, [RETRIED])
    silent.write_snapshot("line")
    assert bench.snapshots == []


REFUSED = RefusedError(ApiFailure(403, "Forbidden", "exceeded quota: gpus"))


@pytest.mark.parametrize(
    ("error", "is_logged", "is_an_event"),
    [
        (REFUSED, True, True),
        (UnknownOutcomeError("no answer"), True, False),
        (RequestError("not sent"), True, False),
        (ConflictError("the object has changed"), False, False),
        (NotLeadingError("too little of the lease is left"), False, False),
    ],
)
def test_repeated_failure_is_reported_once(
    error: RequestError, is_logged: bool, is_an_event: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        bench = Bench()
        caplog.set_level(logging.INFO, "windlass")
        for _ in range(20):
            bench.observers.on_failure(JOB, "create pods", error)
        assert bench.recorder is not None
        await bench.recorder.flush(5)
        warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert len(warnings) == int(is_logged)
        assert [event["reason"] for event in bench.posted] == (["Postponed"] if is_an_event else [])
        if is_an_event:
            assert "exceeded quota: gpus" in bench.posted[0]["message"]

    asyncio.run(scene())
