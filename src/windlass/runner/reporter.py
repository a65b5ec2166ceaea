"""The interface through which a run reports lines, statuses and usage. `cli.terminal` implements it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from windlass.model.framework import Framework
from windlass.render.manifest import Manifest
from windlass.runner.report import Advance, Line, LogLine, Verdict
from windlass.runner.usage import Usage

Reported = Line | LogLine | Advance | Verdict


class Reporter(Protocol):
    wants_usage: bool
    """Whether it shows the CPU and memory usage of tasks."""

    def attach(self, loop: asyncio.AbstractEventLoop, when_closed: Callable[[], None]) -> None:
        """Connect the reporter to the event loop. It calls `when_closed` when its reader goes away."""

    def say(self, item: Reported) -> None:
        """Report without blocking."""

    def framework(self, job: Manifest, framework: Framework) -> None:
        """Report the status of a job."""

    def usage(self, usage: Mapping[tuple[str, str], Usage]) -> None: ...

    async def room(self) -> None:
        """Wait until the reader has caught up."""

    def finish(self) -> None:
        """Wait until everything is written. Raises OSError if that fails."""
