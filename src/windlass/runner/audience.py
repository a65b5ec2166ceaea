"""The receiver of what a run reports: lines, statuses and usage. A terminal or a pipe implements it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from windlass.model.framework import Framework
from windlass.runner.report import Advance, Line, LogLine, Verdict
from windlass.runner.run_plan import Job
from windlass.runner.usage import Usage

Said = Line | LogLine | Advance | Verdict


class Audience(Protocol):
    """Whoever a run is told to."""

    wants_usage: bool
    """Whether somebody looks at what tasks use."""

    def attach(self, loop: asyncio.AbstractEventLoop, when_closed: Callable[[], None]) -> None:
        """`when_closed` is called when nobody looks any more."""

    def say(self, said: Said) -> None:
        """Never waits."""

    def framework(self, job: Job, framework: Framework) -> None:
        """How a job stands."""

    def usage(self, usage: Mapping[tuple[str, str], Usage]) -> None: ...

    async def room(self) -> None:
        """Until the reader has caught up."""

    def finish(self) -> None:
        """Waits until all of it is written. Raises OSError if that could not be done."""
