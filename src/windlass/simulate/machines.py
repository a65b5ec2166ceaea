"""The machine of a simulated controller, with its clock and its network.

While a machine is suspended, its controller does nothing, and requests that it has sent wait in network buffers. They
arrive when the machine resumes, possibly after another replica has become the leader.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from email.utils import format_datetime
from functools import partial
from random import Random

from windlass.controller.engine.system_clock import ServerClock
from windlass.simulate.api import MAX_REQUEST_SEC
from windlass.simulate.api_server import ApiServer
from windlass.simulate.scenario import Faults, Occurrence
from windlass.simulate.virtual_time import Timeline, VirtualClock, Wait


class Machine:
    def __init__(
        self,
        timeline: Timeline,
        server: ApiServer,
        random: Random,
        faults: Callable[[], Faults],
        *,
        rate: float = 1.0,
        ahead: float = 0.0,
    ) -> None:
        self._timeline = timeline
        self._server = server
        self.random = random
        self.faults = faults
        self.hardware_clock = VirtualClock(timeline, rate=rate, ahead=ahead)
        self.clock = ServerClock(self.hardware_clock)
        self._resumes_at = timeline.now

    @property
    def now(self) -> datetime:
        """The time of the API server."""
        return self._timeline.now

    @property
    def is_suspended(self) -> bool:
        return self._timeline.now < self._resumes_at

    def was_suspended_since(self, time: datetime) -> bool:
        return self._resumes_at > time

    def suspend(self, seconds: float) -> None:
        self._resumes_at = max(self._resumes_at, self._timeline.now + timedelta(seconds=seconds))
        self._timeline.at(self._resumes_at, lambda: None)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call a function after `seconds` or, if the machine is suspended then, when it resumes."""

        def call() -> None:
            if self.is_suspended:
                self._timeline.at(self._resumes_at, call)
            else:
                callback()

        self._timeline.after(seconds, call)

    def at(self, monotonic: float, callback: Callable[[], None]) -> None:
        """Call a function at a time of the monotonic clock of this machine, like `later`."""
        self.later((self.hardware_clock.time_of(monotonic) - self.now).total_seconds(), callback)

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait until the clock of this machine has advanced by `seconds`."""
        due = self.hardware_clock.monotonic() + seconds
        return Wait(lambda resume: self.at(due, partial(resume, None)))

    def latency(self) -> float:
        """Return a random transmission time for a request or an answer."""
        is_slow = self.random.random() < self.faults().error_before
        return self.random.uniform(0.1, MAX_REQUEST_SEC / 2) if is_slow else self.random.uniform(0.001, 0.01)

    def record_date(self, sent_at: float) -> None:
        """If clocks may be wrong, use the `Date` header of an answer whose request was sent at that monotonic time."""
        if not self._server.clock_tolerance:
            return
        before = self.clock.now()
        seconds = self.clock.monotonic() - sent_at
        self.clock.record_date(format_datetime(self._server.now, usegmt=True), seconds)
        if self.clock.now() != before:
            self._server.occurred.add(Occurrence.CLOCK_CORRECTED)
