"""Report the controller's actions and errors as events, metrics, log lines and snapshots."""

import logging
from collections.abc import Iterator, Sequence
from typing import TextIO

from windlass.controller.engine.api import ConflictError, NotFoundError, RefusedError, RequestError
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.http_api import NoStatusSubresourceError
from windlass.controller.engine.lease_guard import NotLeadingError
from windlass.controller.observe import logs
from windlass.controller.observe.events import Recorder
from windlass.controller.observe.metrics import Metrics, RecordOutcome
from windlass.decide.types import Reason, ReasonKind
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.resources import Resource
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.settings import LogObjectSnapshot
from windlass.model.status import TaskRoleStatus, TaskStatus
from windlass.objects import environment
from windlass.wire import snapshots
from windlass.wire.snapshots import SnapshotTrigger

log = logging.getLogger(__name__)

REPEAT_WARNING_SEC = 300.0
MAX_REMEMBERED_WARNINGS = 10_000

SNAPSHOT_TRIGGERS = {
    ReasonKind.FRAMEWORK_RETRIED: SnapshotTrigger.FRAMEWORK_RETRY,
    ReasonKind.TASK_RETRIED: SnapshotTrigger.TASK_RETRY,
    ReasonKind.TASK_DELETED: SnapshotTrigger.TASK_DELETION,
}


class Observers:
    def __init__(
        self,
        metrics: Metrics,
        recorder: Recorder | None,
        snapshot_settings: LogObjectSnapshot,
        stream: TextIO | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._warned_at: dict[tuple[str, str, type[RequestError]], float] = {}
        self._metrics = metrics
        self._recorder = recorder
        self._snapshot_settings = snapshot_settings
        self._stream = stream

    def on_reasons(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        logs.log_reasons(framework, reasons)
        self._metrics.on_reasons(reasons)
        if self._recorder is not None:
            self._recorder.record(framework, reasons)
        for line in snapshot_lines(framework, reasons, self._snapshot_settings):
            self.write_snapshot(line)

    def on_stored(self, before: Framework, after: Framework) -> None:
        self._metrics.on_stored(before, after)

    def on_deletion(self, framework: Framework) -> None:
        self._metrics.on_deletion(framework)

    def on_failure(self, framework: Framework, action: str, error: RequestError) -> None:
        """Log a failed action: expected errors at debug level, others as a warning, once per REPEAT_WARNING_SEC at
        most.

        With the warning, record an event if the API server refused the action.
        """
        fields = {"namespace": framework.namespace, "framework": framework.name}
        if isinstance(error, ConflictError | NotLeadingError | NotFoundError | NoStatusSubresourceError):
            log.debug("cannot %s, will retry: %s", action, error, extra=fields)
            return
        if not self._is_warning_due((framework.uid, action, type(error))):
            return
        log.warning("cannot %s, will retry: %s", action, error, extra=fields)
        if isinstance(error, RefusedError) and self._recorder is not None:
            message = f"Cannot {action}, will retry: {error.failure.message}"
            self._recorder.record(framework, (Reason(ReasonKind.POSTPONED, message, is_warning=True),))

    def on_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None:
        """Log and count a record that cannot be written. The job is not affected."""
        self._metrics.on_record(RecordOutcome.REJECTED)
        if self._is_warning_due((framework.namespace, "record", type(error))):
            fields = {"namespace": framework.namespace, "framework": framework.name}
            log.warning("cannot write the record of attempt %d: %s", attempt_id, error, extra=fields)

    def on_record(self, outcome: RecordOutcome, count: int = 1) -> None:
        self._metrics.on_record(outcome, count)

    def _is_warning_due(self, warning: tuple[str, str, type[RequestError]]) -> bool:
        """Return whether the warning has to be logged now. If so, remember the time."""
        now = self._clock.monotonic()
        if now < self._warned_at.get(warning, -REPEAT_WARNING_SEC) + REPEAT_WARNING_SEC:
            return False
        if len(self._warned_at) >= MAX_REMEMBERED_WARNINGS:
            self._warned_at.clear()
        self._warned_at[warning] = now
        return True

    def on_status_subresource_missing(self, group: str) -> None:
        log.error(
            "cannot store statuses: the CustomResourceDefinition of Frameworks has lost its status subresource. "
            "Another controller may have replaced it. Stop that controller, then run "
            "`windlass install --crds-only --apply`",
            extra={"group": group},
        )

    def on_pass_end(self, seconds: float) -> None:
        self._metrics.observe_pass(seconds)

    def on_watch_error(self, resource: Resource, error: ApiError) -> None:
        self._metrics.on_watch_error(resource.plural)
        log.warning("cannot watch %s: %s", resource.plural, error, extra={"group": resource.group})

    def write_snapshot(self, line: str) -> None:
        logs.write_snapshot(line, self._stream)


def snapshot_lines(
    framework: Framework, reasons: Sequence[Reason], settings: LogObjectSnapshot
) -> Iterator[str]:
    """Yield a line for each status that a retry or rescale has removed, if snapshots of that kind are enabled
    (statement 49 of docs/behaviours.md)."""
    for reason in reasons:
        trigger = SNAPSHOT_TRIGGERS.get(reason.kind)
        if trigger is None or not snapshots.is_enabled(trigger, settings):
            continue
        subject: Framework | Json = framework
        if reason.status is not None:
            subject = framework.with_status(reason.status)
        elif reason.task is not None:
            subject = _task_snapshot(framework, reason.role, reason.task)
        yield snapshots.snapshot_line(reason.message, trigger, subject)


def _task_snapshot(framework: Framework, role: str, task: TaskStatus) -> Json:
    """Return the task with the annotations of its pod."""
    annotations = {}
    if framework.status is not None:
        attempt = framework.status.attempt_status
        found = next((status for status in attempt.roles if status.name == role), TaskRoleStatus(name=role))
        annotations = environment.identity(framework, attempt, found, task)
    return snapshots.task_snapshot(framework, role, task, annotations)
