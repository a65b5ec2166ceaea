"""Tells everybody who wants to know what happens: events, metrics, log lines, snapshots."""

import logging
from collections.abc import Sequence
from typing import TextIO

from windlass.controller.engine.api_port import NoStatusError
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.lease_guard import NotLeadingError
from windlass.controller.engine.port import ConflictError, NotFoundError, PortError, RefusedError
from windlass.controller.observe import logs, snapshots
from windlass.controller.observe.events import Recorder
from windlass.controller.observe.metrics import Metrics
from windlass.decide.types import Reason, ReasonKind
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.resources import Resource
from windlass.model.framework import Framework
from windlass.model.settings import LogObjectSnapshot

log = logging.getLogger(__name__)

TELL_AGAIN_SEC = 300.0
MOST_REMEMBERED = 10_000


class Observers:
    def __init__(
        self,
        metrics: Metrics,
        recorder: Recorder | None,
        wanted_snapshots: LogObjectSnapshot,
        stream: TextIO | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._told_at: dict[tuple[str, str, type[PortError]], float] = {}
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

    def failed(self, framework: Framework, doing: str, error: PortError) -> None:
        """What goes on failing is told now and then. What is in the nature of things is told to those who look."""
        fields = {"namespace": framework.namespace, "framework": framework.name}
        if isinstance(error, ConflictError | NotLeadingError | NotFoundError | NoStatusError):
            log.debug("%s has to wait: %s", doing, error, extra=fields)
            return
        if not self._is_news((framework.uid, doing, type(error))):
            return
        log.warning("%s has to wait: %s", doing, error, extra=fields)
        if isinstance(error, RefusedError) and self._recorder is not None:
            message = (
                f"The API server does not take {doing} for now, and is asked again: {error.failure.message}"
            )
            self._recorder.record(framework, (Reason(ReasonKind.POSTPONED, message, is_warning=True),))

    def _is_news(self, what: tuple[str, str, type[PortError]]) -> bool:
        now = self._clock.monotonic()
        if now < self._told_at.get(what, -TELL_AGAIN_SEC) + TELL_AGAIN_SEC:
            return False
        if len(self._told_at) >= MOST_REMEMBERED:
            self._told_at.clear()
        self._told_at[what] = now
        return True

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
