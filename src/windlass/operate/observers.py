"""Tells everybody who wants to know what happens: events, metrics, log lines, snapshots."""

import logging
from collections.abc import Sequence
from typing import TextIO

from windlass.decide.contract import Reason
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.resources import Resource
from windlass.model.framework import Framework
from windlass.operate import logs, snapshots
from windlass.operate.events import Recorder
from windlass.operate.metrics import Metrics
from windlass.settings import LogObjectSnapshot

log = logging.getLogger(__name__)


class Observers:
    def __init__(
        self,
        metrics: Metrics,
        recorder: Recorder | None,
        wanted_snapshots: LogObjectSnapshot,
        stream: TextIO | None,
    ) -> None:
        self._metrics = metrics
        self._recorder = recorder
        self._wanted_snapshots = wanted_snapshots
        self._stream = stream

    def announced(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        logs.log_reasons(framework, reasons)
        self._metrics.announced(framework, reasons)
        if self._recorder is not None:
            self._recorder.record(framework, reasons)
        for line in snapshots.lines(framework, reasons, self._wanted_snapshots):
            self.snapshot(line)

    def stored(self, before: Framework, after: Framework) -> None:
        self._metrics.stored(before, after)

    def gone(self, framework: Framework) -> None:
        self._metrics.gone(framework)

    def status_is_missing(self, group: str) -> None:
        log.error(
            "the definition of Frameworks has no status subresource any more, so nothing can be stored: "
            "another controller may have rewritten it. Windlass stands still and forgets nothing. Stop the other "
            "controller, then run `windlass install --crds-only --apply`",
            extra={"group": group},
        )

    def passed(self, seconds: float) -> None:
        self._metrics.observe_pass(seconds)

    def troubled(self, resource: Resource, error: ApiError) -> None:
        self._metrics.watch_troubled(resource.plural)
        log.warning("%s cannot be watched: %s", resource.plural, error, extra={"group": resource.group})

    def snapshot(self, line: str) -> None:
        logs.write_snapshot(line, self._stream)
