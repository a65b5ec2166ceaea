"""Stop the containers of a pod: SIGTERM for one wave after another, SIGKILL for all after the grace period."""

import signal
import time
from collections.abc import Callable, Iterator

from windlass.localcluster.kubelet.lifecycle.records import Running
from windlass.localcluster.kubelet.lifecycle.restarts import StopAll
from windlass.localcluster.kubelet.pods import container_monitor
from windlass.localcluster.kubelet.pods.container_monitor import ContainerMonitor
from windlass.localcluster.kubelet.pods.container_tracker import ContainerTracker
from windlass.localcluster.kubelet.pods.events import PodEvents

KILL_TIMEOUT_SECONDS = 10.0


class StopSchedule:
    """Determines the signals that are due, from the first `StopAll` step until the pod has ended."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._began_at: float | None = None
        self._deadline = float("inf")
        self._terminated: set[str] = set()
        self._killed: set[str] = set()
        self._killed_at = 0.0

    def signals(self, step: StopAll) -> Iterator[tuple[str, int]]:
        """Yield (container, signal) for the signals that are due. A later step can only shorten the grace period."""
        now = self._monotonic()
        if self._began_at is None:
            self._began_at = now
        self._deadline = min(self._deadline, self._began_at + step.grace_seconds)
        if now >= self._deadline:
            for name in (name for wave in step.waves for name in wave if name not in self._killed):
                self._killed.add(name)
                self._killed_at = now
                yield name, signal.SIGKILL
            return
        for name in next(iter(step.waves), ()):
            if name not in self._terminated:
                self._terminated.add(name)
                yield name, signal.SIGTERM

    @property
    def is_overdue(self) -> bool:
        """Whether SIGKILL was sent long ago: a remaining container is stuck, e.g. because of a stopped supervisor."""
        return bool(self._killed) and self._monotonic() - self._killed_at >= KILL_TIMEOUT_SECONDS

    @property
    def seconds_left(self) -> float | None:
        """Seconds until SIGKILL or, after SIGKILL, until the kill is overdue; None before the first step."""
        if self._began_at is None:
            return None
        until = self._killed_at + KILL_TIMEOUT_SECONDS if self._killed else self._deadline
        return max(until - self._monotonic(), 0.0)


class ContainerStopper:
    def __init__(self, containers: ContainerTracker, monitor: ContainerMonitor, events: PodEvents) -> None:
        self._containers = containers
        self._monitor = monitor
        self._events = events
        self._schedule = StopSchedule(time.monotonic)

    def stop(self, step: StopAll) -> float | None:
        """Send the signals that are due, and return the seconds after which to call this method again.

        If SIGKILL has no effect, the supervisor is killed, and the result is None.
        """
        containers, schedule = self._containers, self._schedule
        for name, number in schedule.signals(step):
            self._signal(name, number)
        if schedule.is_overdue and containers.supervisor is not None:
            # The containers end together with the supervisor.
            containers.supervisor.kill()
            return None
        return schedule.seconds_left

    def _signal(self, name: str, number: int) -> None:
        """Send a signal to a container. SIGTERM follows the preStop hook if there is one."""
        run = self._containers.record.container(name).current
        if not isinstance(run, Running) or self._containers.supervisor is None:
            return
        if number == signal.SIGTERM:
            self._events.stopping(self._containers.pod, name)
            seconds = self._schedule.seconds_left or 0.0
            if self._monitor.start_hook(name, run, container_monitor.PRE_STOP, seconds):
                return
        self._containers.supervisor.signal(run.id, number)
