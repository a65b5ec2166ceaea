"""The state of one pod's containers, from the reports of its supervisor. It is saved to disk for a restarted daemon."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from windlass.localcluster.kubelet.containers.errors import FAILED_MOUNT, SetupError
from windlass.localcluster.kubelet.fault_injection import FaultInjector
from windlass.localcluster.kubelet.lifecycle import records, restarts
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, PodRecord, Running
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.kubelet.pods.pod_sandbox import PodSandbox
from windlass.localcluster.kubelet.sandbox_connection import SandboxCallError
from windlass.localcluster.kubelet.supervisor_client import Report, SupervisorClient
from windlass.localcluster.sandbox import messages, state_file
from windlass.localcluster.sandbox.process import container_runs
from windlass.model.base import Json

logger = logging.getLogger(__name__)

# Mounting a network volume may take long.
_SECONDS_TO_SET_UP = 180.0
_SECONDS_TO_ANSWER = 10.0

STATE_FILE = "state.json"
"""File in the pod's directory with the PodState, for a restarted daemon."""


class PodState(msgspec.Struct, frozen=True):
    record: PodRecord
    # Container name → id of its starting run: saved before the start is requested, removed at the first report.
    starting: dict[str, str] = {}


class ContainerTracker:
    """`changed` is set on every change that the pod's worker must react to."""

    def __init__(
        self,
        pod: Json,
        sandbox: PodSandbox,
        state: PodState | None,
        *,
        events: PodEvents,
        faults: FaultInjector,
        on_started: Callable[[str, Running], None],
        on_ended: Callable[[str], None],
    ) -> None:
        self.pod = pod
        self.record: PodRecord = state.record if state else records.new(pod)
        self.supervisor: SupervisorClient | None = None
        self.has_lost_supervisor = False
        self.changed = asyncio.Event()
        self._sandbox = sandbox
        self._events = events
        self._faults = faults
        self._on_started = on_started
        self._on_ended = on_ended
        self._starting = dict(state.starting) if state else {}
        self._starts: dict[str, messages.Started] = {}
        self._has_unsaved_reports = False

    # State

    def require_supervisor(self) -> SupervisorClient:
        """Return the supervisor; raise SandboxCallError if the pod has none."""
        if self.supervisor is None:
            raise SandboxCallError("the pod is not running")
        return self.supervisor

    @property
    def is_any_starting(self) -> bool:
        return bool(self._starting)

    def is_starting(self, name: str) -> bool:
        return name in self._starting

    def active_run_ids(self) -> list[str]:
        """Return the ids of running and starting runs."""
        currents = [container.current for container in self.record.all_containers]
        return [*self._starting.values(), *(each.id for each in currents if isinstance(each, Running))]

    def running_containers(self) -> list[tuple[ContainerRecord, messages.Started]]:
        """Return the running containers, each with the supervisor's report of its start."""
        found = []
        for container in self.record.all_containers:
            run = container.current
            if isinstance(run, Running) and run.id in self._starts:
                found.append((container, self._starts[run.id]))
        return found

    def recorded_run_ids(self) -> set[str]:
        """Return the ids of starting and running runs, and of the last ended run of each container."""
        ends = [container.latest_end for container in self.record.all_containers]
        return {*self.active_run_ids(), *(end.id for end in ends if end is not None)}

    def name_of(self, run_id: str) -> str | None:
        """Return the name of the container of this run; None if the run is neither starting nor running."""
        for name, starting in self._starting.items():
            if starting == run_id:
                return name
        for container in self.record.all_containers:
            if isinstance(container.current, Running) and container.current.id == run_id:
                return container.name
        return None

    def update(self, **fields: object) -> None:
        """Replace fields of the pod's record."""
        self.record = msgspec.structs.replace(self.record, **fields)

    def set_health(self, name: str, *, has_started: bool, is_ready: bool) -> None:
        """Record the results of a container's probes if it is running."""
        container = self.record.container(name)
        if container.is_running and (container.has_started, container.is_ready) != (has_started, is_ready):
            self.record = self.record.with_container(
                msgspec.structs.replace(container, has_started=has_started, is_ready=is_ready)
            )
            self.changed.set()

    def save(self) -> None:
        """Write the state for the next daemon. An error, e.g. a full disk, is logged and does not end the pod."""
        try:
            state = PodState(self.record, self._starting)
            state_file.write(self._sandbox.folder.path / STATE_FILE, state)
        except OSError as error:
            logger.warning("pod %s: cannot save its state: %s", self._sandbox.pod_name, error)

    def save_reports(self) -> None:
        """Save the state if the supervisor has reported something since.

        Many reports may arrive at once. If the daemon ends before it saves them, the next one receives them again.
        """
        if self._has_unsaved_reports:
            self._has_unsaved_reports = False
            self.save()

    # Requests to the supervisor

    async def connect(self) -> None:
        """Connect to the supervisor of a new sandbox. Raises SetupError, e.g. if a mount failed, or OSError."""
        supervisor = SupervisorClient(self._sandbox.folder.path, self._on_report, self.on_supervisor_lost)
        hello = await supervisor.hello(_SECONDS_TO_SET_UP)
        if hello.problem:
            await supervisor.end()
            raise SetupError(hello.problem, FAILED_MOUNT)
        self.supervisor = supervisor

    async def adopt(self) -> bool:
        """Connect to the supervisor that an earlier daemon started, and return whether it still responds."""
        try:
            supervisor = SupervisorClient(self._sandbox.folder.path, self._on_report, self.on_supervisor_lost)
            hello = await supervisor.hello(_SECONDS_TO_ANSWER)
        except OSError:
            self.on_supervisor_lost()
            return False
        self.supervisor = supervisor
        supervised = {run.run_id for run in hello.runs}
        # Drop the runs whose start the earlier daemon saved but could not request before it was killed.
        self._starting = {name: run_id for name, run_id in self._starting.items() if run_id in supervised}
        for run in hello.runs:
            if run.end is None and self.name_of(run.run_id) is None:
                # The saved state does not contain this run: it would run in parallel with the next run.
                supervisor.signal(run.run_id, signal.SIGKILL)
            if run.started is not None:
                self._on_report(run.started)
            if run.end is not None:
                self._on_report(run.end)
        return True

    def start(self, name: str, plan: messages.ContainerPlan) -> None:
        supervisor = self.require_supervisor()
        self._starting[name] = plan.id
        self.save()
        supervisor.start(plan)

    def signal(self, run_id: str, number: int) -> None:
        """Send a signal to a run unless it has ended."""
        if self.supervisor is not None and self.name_of(run_id) is not None:
            self.supervisor.signal(run_id, number)

    async def end_supervisor(self) -> None:
        if self.supervisor is not None:
            supervisor, self.supervisor = self.supervisor, None
            await supervisor.end()
        if self.has_lost_supervisor:
            self.has_lost_supervisor = False
            await self._sandbox.kill_orphaned_processes()

    # Changes of state

    def reject_start(self, name: str, error: SetupError) -> None:
        """Record that a container cannot be started now."""
        container = self.record.container(name)
        self.record = self.record.with_container(
            container.with_failed_start(error.reason, error.message, datetime.now(UTC))
        )
        self._events.failed(self.pod, name, error.message)
        self.changed.set()

    def _on_report(self, report: Report) -> None:
        name = self.name_of(report.run_id)
        if name is None:
            return
        match report:
            case messages.Started():
                self._record_start(name, report)
            case messages.NotStarted():
                self._record_start_error(name, report)
            case messages.Ended():
                self._record_end(name, self._faults.apply(report))
        self._has_unsaved_reports = True
        self.changed.set()

    def _record_start(self, name: str, report: messages.Started) -> None:
        self._starts[report.run_id] = report
        if self._starting.pop(name, None) is None:
            return
        run = Running(_time(report.at), report.run_id)
        image_id = self._sandbox.image_id(self.pod, name)
        self.record = restarts.with_started(self.pod, self.record, name, run, image_id=image_id)
        self._events.started(self.pod, name)
        self._on_started(name, run)

    def _record_start_error(self, name: str, report: messages.NotStarted) -> None:
        self._starting.pop(name, None)
        at = _time(report.at)
        started = restarts.with_started(self.pod, self.record, name, Running(at, report.run_id))
        end = records.start_error(report.message, at, report.run_id)
        self.record = started.with_container(started.container(name).with_end(end))
        self._events.failed(self.pod, name, report.message)

    def _record_end(self, name: str, report: messages.Ended) -> None:
        if name in self._starting:
            # No start was recorded: an earlier daemon or the supervisor ended too soon, or the container was killed
            # before it could start.
            self._record_start(name, messages.Started(report.run_id, report.at))
        self._starts.pop(report.run_id, None)
        container = self.record.container(name)
        run = container.current
        if not isinstance(run, Running):
            return
        message = self._sandbox.termination_message(self.pod, name, container.restart_count, report)
        end = records.end(
            run,
            max(_time(report.at), run.started_at),
            exit_code=report.exit_code,
            signal=report.signal,
            was_out_of_memory=report.was_out_of_memory,
            message=message,
        )
        self.record = self.record.with_container(container.with_end(end))
        self._on_ended(name)

    def on_supervisor_lost(self) -> None:
        """Record the ends of all active runs: those that the lost supervisor saved, and SIGKILL for the other runs."""
        if self.supervisor is None and not self.active_run_ids():
            return
        self.has_lost_supervisor = True
        self.supervisor = None
        self.update(has_sandbox=False)
        for run_id in self.active_run_ids():
            saved = container_runs.read_run(self._sandbox.folder.run(run_id))
            end = None if saved is None else saved.end
            self._on_report(end or messages.Ended(run_id, time.time(), 0, signal.SIGKILL))
        self.changed.set()


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
