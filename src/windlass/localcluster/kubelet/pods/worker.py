"""The worker of one pod: performs the steps that bring its containers to the desired state, and publishes the status.

`lifecycle` decides the steps. One task performs them. It wakes up when a timer expires, and e.g. when the pod changes,
its supervisor reports, or a probe changes the health of a container.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.kubelet.addresses import NetworkFullError
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.directory_watch import DirectoryWatcher
from windlass.localcluster.kubelet.fault_injection import FaultInjector
from windlass.localcluster.kubelet.lifecycle import restarts, specs, statuses, terminations
from windlass.localcluster.kubelet.lifecycle.records import PodRecord, Running
from windlass.localcluster.kubelet.lifecycle.restarts import Finished, StartContainer, StopAll, WaitUntil
from windlass.localcluster.kubelet.pods.container_monitor import ContainerMonitor
from windlass.localcluster.kubelet.pods.container_tracker import ContainerTracker, PodState
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.kubelet.pods.pod_sandbox import PodSandbox
from windlass.localcluster.kubelet.pods.status_manager import StatusManager
from windlass.localcluster.kubelet.pods.stopping import ContainerStopper
from windlass.localcluster.kubelet.spawner_client import CannotSpawnError
from windlass.localcluster.store_types import StoreError
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_FIRST_SANDBOX_RETRY_SECONDS = 1.0
_MAX_SANDBOX_RETRY_SECONDS = 30.0
_SYNC_RETRY_SECONDS = 1.0
_REMOVAL_DELAYS = (0.0, 0.1, 1.0)


class PodWorker:
    """The worker of a pod that has a node. `state` is the state that an earlier daemon saved."""

    def __init__(
        self,
        pod: Json,
        sandbox: PodSandbox,
        *,
        status_manager: StatusManager,
        events: PodEvents,
        faults: FaultInjector,
        log_watcher: DirectoryWatcher,
        on_store_error: Callable[[], None],
        state: PodState | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.is_over = False
        self._status_manager = status_manager
        self._events = events
        self._log_watcher = log_watcher
        self._on_store_error = on_store_error
        self.containers = ContainerTracker(
            pod,
            sandbox,
            state,
            events=events,
            faults=faults,
            on_started=self._on_container_started,
            on_ended=self._on_container_ended,
        )
        self._monitor = ContainerMonitor(self.containers, events)
        self._stopper = ContainerStopper(self.containers, self._monitor, events)
        self._is_deleted = False
        self._has_freed_disk = False
        self._is_shutting_down = False
        self._has_shut_down = asyncio.Event()
        self._retry_seconds = _FIRST_SANDBOX_RETRY_SECONDS
        self._retry_at = 0.0
        self._delayed_until = time.monotonic() + (0.0 if state else faults.start_delay(pod))
        self._reported_back_offs: dict[str, int] = {}
        self._sync_timer: asyncio.TimerHandle | None = None

    @property
    def pod(self) -> Json:
        return self.containers.pod

    @property
    def record(self) -> PodRecord:
        return self.containers.record

    def _on_container_started(self, name: str, run: Running) -> None:
        self._monitor.begin(name, run)

    def _on_container_ended(self, name: str) -> None:
        self._monitor.stop_probes(name)
        self._log_watcher.notify(self.sandbox.folder.logs(name))

    # Changes from outside

    def set_pod(self, pod: Json) -> None:
        before, self.containers.pod = self.pod["metadata"], pod
        if any(before.get(field) != pod["metadata"].get(field) for field in ("labels", "annotations")):
            self.sandbox.refresh_volumes(pod)
        self.containers.changed.set()

    def on_deleted(self) -> None:
        """The object was deleted from the API server: remove the pod from this machine."""
        self._is_deleted = True
        self.containers.changed.set()

    def refresh_volumes(self) -> None:
        """An object that the pod may refer to has changed: update volume files, and retry a failed setup at once."""
        self.sandbox.refresh_volumes(self.pod)
        self._retry_at = 0.0
        self.containers.changed.set()

    def refresh_hosts(self) -> None:
        if self.containers.supervisor is not None:
            with contextlib.suppress(SetupError):
                self.sandbox.refresh_hosts(self.pod)

    async def adopt(self) -> None:
        """Continue with the supervisor of an earlier daemon, or with the saved state if the supervisor was killed."""
        self.sandbox.adopt_addresses(self.pod, self.record)
        if not await self.containers.adopt():
            await self.sandbox.kill_orphaned_processes()
            return
        self.sandbox.adopt_volumes(self.pod)
        for container in self.record.all_containers:
            run = container.current
            if isinstance(run, Running):
                self._monitor.start_probes(container.name, run, _now() - run.started_at)

    # The sync loop

    async def run(self) -> None:
        try:
            while not self.is_over:
                self.containers.changed.clear()
                pause = await self._sync_logging_errors()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.containers.changed.wait()
        finally:
            self._has_shut_down.set()
            self._monitor.stop_all()
            if self._sync_timer is not None:
                self._sync_timer.cancel()
            if self.containers.supervisor is not None:
                self.containers.supervisor.disconnect()

    async def _sync_logging_errors(self) -> float | None:
        """Sync, log errors, and return the seconds after which to sync again even without a change."""
        try:
            return await self._sync()
        except ApiError as error:
            # 404: the pod was deleted, but `on_deleted` has not been called yet.
            if error.code != 404:
                logger.warning("pod %s: %s", self.sandbox.pod_name, error.message)
        except StoreError as error:
            logger.warning("pod %s: %s", self.sandbox.pod_name, error)
            self._on_store_error()
        except Exception:
            logger.exception("pod %s: internal error", self.sandbox.pod_name)
        return _SYNC_RETRY_SECONDS

    async def _sync(self) -> float | None:
        self.containers.save_reports()
        if self._is_deleted:
            await self._remove()
            return None
        self._record_ending(_now())
        pauses: list[float | None] = []
        for step in restarts.next_steps(self.pod, self.record, _now()):
            match step:
                case StartContainer(name):
                    # Checked before other tasks run: afterwards, the container may have started and even ended.
                    if self.containers.is_starting(name):
                        continue
                    # Planning the containers of a large pod takes long, and other clients must not wait for all.
                    await asyncio.sleep(0)
                    if not self._is_ending:
                        pauses.append(await self._start(name))
                case WaitUntil(moment):
                    pauses.append(max((moment - _now()).total_seconds(), 0.0))
                case StopAll():
                    pauses.append(self._stopper.stop(step))
                case Finished():
                    # A container that is starting is stopped once it has started.
                    if not self.containers.is_any_starting:
                        await self._finish()
        if self._is_shutting_down:
            pauses.append(self._stop_for_shutdown())
        self._report_back_offs()
        if not self.is_over:
            self._publish()
        return min((pause for pause in pauses if pause is not None), default=None)

    # Starting

    async def _start(self, name: str) -> float | None:
        """Start a container or record why that failed. If no sandbox can be created yet, return the seconds to wait."""
        if self.containers.supervisor is None:
            wait = max(self._retry_at, self._delayed_until) - time.monotonic()
            if wait > 0:
                return wait
            if not await self._create_sandbox():
                return self._retry_at - time.monotonic()
            if self._is_ending:
                return None
        run_id, container = secrets.token_hex(32), self.record.container(name)
        restart_count = container.restart_count + (1 if container.has_run else 0)
        self._log_watcher.prepare_removal(self.sandbox.folder.logs(name))
        try:
            self.sandbox.remove_old_runs(name, restart_count, self.containers.recorded_run_ids())
            plan = self.sandbox.plan(self.pod, name, run_id, restart_count)
        except SetupError as error:
            self.containers.reject_start(name, error)
            return None
        self._events.pulled(self.pod, name)
        self._events.created(self.pod, name)
        if fields := self.sandbox.unapplied_security_fields(self.pod, name):
            self._events.security_not_applied(self.pod, name, fields)
        self.containers.start(name, plan)
        return None

    async def _create_sandbox(self) -> bool:
        """Create the sandbox of the pod, and return whether that succeeded. Retries have an exponential backoff."""
        try:
            addresses = self.sandbox.allocate_addresses(self.pod)
            self.containers.update(start_time=self.record.start_time or _now(), host_ips=addresses.host)
            self._publish()
            await self.sandbox.create(self.pod)
            await self.containers.connect()
        except SetupError as error:
            self._events.setup_failed(self.pod, error)
        except (CannotSpawnError, NetworkFullError, OSError) as error:
            self._events.sandbox_creation_failed(self.pod, str(error))
        else:
            self._retry_seconds = _FIRST_SANDBOX_RETRY_SECONDS
            self.containers.update(has_sandbox=True, pod_ips=addresses.pod)
            return True
        self._retry_at = time.monotonic() + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, _MAX_SANDBOX_RETRY_SECONDS)
        return False

    # Stopping

    @property
    def _is_ending(self) -> bool:
        """Whether no container may be started any more."""
        is_terminating = terminations.ending_of(self.pod, self.record, _now()) is not None
        return self._is_deleted or self._is_shutting_down or is_terminating

    @property
    def is_finished(self) -> bool:
        """Whether no container is running or will be started, even if the final status is not stored yet."""
        steps = restarts.next_steps(self.pod, self.record, _now())
        return steps == (Finished(),) and not self.containers.is_any_starting

    @property
    def is_being_evicted(self) -> bool:
        return self._is_evicted and not self._has_freed_disk

    @property
    def _is_evicted(self) -> bool:
        return self.record.ending is not None and self.record.ending.reason == terminations.EVICTED

    def _record_ending(self, now: datetime) -> None:
        """Record and report once that the deadline is exceeded, whether or not a container has started.

        This precedes the status that says so, because a pod whose status is final has been reported.
        """
        ending = terminations.ending_of(self.pod, self.record, now)
        is_known = self.record.ending is not None or specs.has_final_phase(self.pod)
        if ending is None or not ending.reason or is_known:
            return
        self.containers.record = self.record.with_ending(ending)
        self._events.ending(self.pod, ending)
        self.containers.save()

    def evict(self, message: str) -> None:
        """Fail the pod, and free its disk space."""
        self.containers.record = self.record.with_ending(terminations.eviction(message))
        self.containers.changed.set()

    async def shut_down(self) -> None:
        """Stop the containers because the cluster stops. When it starts again, they are restarted as after any exit."""
        self._is_shutting_down = True
        self.containers.changed.set()
        await self._has_shut_down.wait()

    def _stop_for_shutdown(self) -> float | None:
        if not self.record.is_anything_running and not self.containers.is_any_starting:
            self._has_shut_down.set()
            return None
        return self._stopper.stop(restarts.stop_step(self.pod, self.record))

    async def _finish(self) -> None:
        """Publish the final status, then end the supervisor and complete a deletion."""
        ending = self.record.ending
        if ending is not None and self._is_evicted:
            # Nothing can be stored before disk space is freed.
            await asyncio.to_thread(self.sandbox.free_disk)
            self._has_freed_disk = True
            if not specs.has_final_phase(self.pod):
                self._events.ending(self.pod, ending)
        self.containers.update(has_sandbox=False)
        self._publish()
        await self.containers.end_supervisor()
        self.sandbox.release_addresses()
        if self.pod["metadata"].get("deletionTimestamp"):
            self._status_manager.delete(self.pod)
            self._status_manager.on_failed_commit(self._on_failed_commit)

    async def _remove(self) -> None:
        """Remove the pod from this machine. In an ephemeral cluster its logs may stay."""
        self._monitor.stop_all()
        await self.containers.end_supervisor()
        self.sandbox.release_addresses()
        for container in self.record.all_containers:
            self._log_watcher.prepare_removal(self.sandbox.folder.logs(container.name))
        await self._remove_directory()
        self.is_over = True

    async def _remove_directory(self) -> None:
        problem = None
        for delay in _REMOVAL_DELAYS:
            await asyncio.sleep(delay)
            try:
                await asyncio.to_thread(self.sandbox.remove)
                return
            except OSError as error:
                # A process that is just ending may still have written a file.
                problem = error
        logger.warning(
            "pod %s: cannot delete its directory: %s. The next start of the cluster retries this.",
            self.sandbox.pod_name,
            problem,
        )

    # Status

    def _publish(self) -> None:
        now = _now()
        self._record_ending(now)
        self.containers.pod = self._status_manager.publish(
            self.pod, self.record, now, is_any_starting=self.containers.is_any_starting
        )
        self._status_manager.on_failed_commit(self._on_failed_commit)

    def _on_failed_commit(self, failure: StoreError) -> None:
        """Return to the stored pod, and sync later, which writes the status or the deletion again."""
        self.containers.pod = self._status_manager.stored(self.pod) or self.pod
        if self._sync_timer is None:
            logger.warning("pod %s: %s", self.sandbox.pod_name, failure)
            self._on_store_error()
            loop = asyncio.get_running_loop()
            self._sync_timer = loop.call_later(_SYNC_RETRY_SECONDS, self._sync_again)

    def _sync_again(self) -> None:
        self._sync_timer = None
        self.containers.changed.set()

    def _report_back_offs(self) -> None:
        for container in self.record.all_containers:
            is_new = self._reported_back_offs.get(container.name) != container.restart_count
            if is_new and statuses.is_backing_off(self.pod, self.record, container, _now()):
                self._reported_back_offs[container.name] = container.restart_count
                self._events.backing_off(self.pod, container)


def _now() -> datetime:
    return datetime.now(UTC)
