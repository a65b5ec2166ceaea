"""The life of one pod on this machine: looks at what is, does what is next, and writes down what came of it.

What is next follows from `podlife`; what a container starts with from `container_plans`. Everything here happens in one
task, woken by news of the pod, of its supervisor, of its probes, and by time.
"""

import asyncio
import contextlib
import logging
import secrets
import signal
import time
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.kubelet.addresses import NetworkFullError
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.context import Means
from windlass.localcluster.kubelet.lifecycle import records, restarts, specs, statuses, terminations
from windlass.localcluster.kubelet.lifecycle.records import ContainerRecord, PodRecord, Running
from windlass.localcluster.kubelet.lifecycle.restarts import Finished, StartContainer, StopAll, WaitUntil
from windlass.localcluster.kubelet.pods import hooks, state_file
from windlass.localcluster.kubelet.pods.container_lifecycle import ContainerMonitor
from windlass.localcluster.kubelet.pods.runtime import PodSandbox
from windlass.localcluster.kubelet.pods.state_file import PodState
from windlass.localcluster.kubelet.pods.stopping import Stopping
from windlass.localcluster.kubelet.sandbox_connection import SandboxCallError
from windlass.localcluster.kubelet.spawner_client import CannotSpawnError
from windlass.localcluster.kubelet.supervisor_client import News, SupervisorClient
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.process import container_runs
from windlass.localcluster.store_types import StoreError
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 30.0
_SECONDS_AFTER_A_FAULT = 1.0
# A volume that is mounted over a network may take its time.
_SECONDS_TO_SET_UP = 180.0
_SECONDS_TO_ANSWER = 10.0
_PAUSES_BETWEEN_REMOVALS = (0.0, 0.1, 1.0)


class PodWorker:
    """Of a pod that has a node. `state` is what an earlier daemon knew of it."""

    def __init__(self, pod: Json, means: Means, state: PodState | None = None) -> None:
        self.pod = pod
        self.place = PodSandbox(pod, means)
        self._means = means
        self._record = state.record if state else records.new(pod)
        self._starting = dict(state.starting) if state else {}
        self._supervision: SupervisorClient | None = None
        self._stopping = Stopping(time.monotonic)
        self._care = ContainerMonitor(self, means.events)
        self._news = asyncio.Event()
        self._is_object_gone = False
        self._is_lost = False
        self._is_winding_down = False
        self._has_wound_down = asyncio.Event()
        self._retry_seconds = _FIRST_RETRY
        self._retry_at = 0.0
        delay = 0.0 if state else means.interference.delay_of(pod)
        self._held_until = time.monotonic() + delay
        self._starts: dict[str, messages.Started] = {}
        self._told_back_offs: dict[str, int] = {}
        self.is_over = False

    @property
    def record(self) -> PodRecord:
        return self._record

    @property
    def supervision(self) -> SupervisorClient:
        """Raises SandboxCallError when the pod has none."""
        if self._supervision is None:
            raise SandboxCallError("the pod does not run")
        return self._supervision

    def run_ids(self) -> list[str]:
        """Of what runs, and of what is about to."""
        return [*self._starting.values(), *self._running_ids()]

    def runs(self) -> list[tuple[ContainerRecord, messages.Started]]:
        """What runs, and what was told of its start."""
        found = []
        for container in self._record.all_containers:
            run = container.current
            if isinstance(run, Running) and run.id in self._starts:
                found.append((container, self._starts[run.id]))
        return found

    # What is heard

    def see(self, pod: Json) -> None:
        before, self.pod = self.pod["metadata"], pod
        if any(before.get(field) != pod["metadata"].get(field) for field in ("labels", "annotations")):
            self.place.refresh_volumes(pod)
        self._news.set()

    def lose_object(self) -> None:
        """Somebody has deleted it by force."""
        self._is_object_gone = True
        self._news.set()

    def try_again(self) -> None:
        """Something that the pod refers to has changed."""
        self._retry_at = 0.0
        self._news.set()

    # The loop

    async def run(self) -> None:
        try:
            while not self.is_over:
                self._news.clear()
                pause = await self._pass()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._news.wait()
        finally:
            self._has_wound_down.set()
            self._care.end_all()
            if self._supervision is not None:
                self._supervision.let_go()

    async def _pass(self) -> float | None:
        """How long to wait for news at most."""
        try:
            return await self._look()
        except ApiError as error:
            if error.code != 404:
                logger.warning("pod %s: %s", self.place.shown, error.message)
            # That it is gone is still to be heard of.
        except StoreError as error:
            logger.warning("pod %s: %s", self.place.shown, error)
            self._means.store_has_failed()
        except Exception:
            logger.exception("pod %s", self.place.shown)
        return _SECONDS_AFTER_A_FAULT

    async def _look(self) -> float | None:
        if self._is_object_gone:
            await self._remove()
            return None
        pauses: list[float] = []
        for step in restarts.next_steps(self.pod, self._record, _now()):
            match step:
                case StartContainer(name):
                    if name not in self._starting and not self._is_winding_down:
                        pauses += await self._start(name)
                case WaitUntil(moment):
                    pauses.append(max((moment - _now()).total_seconds(), 0.0))
                case StopAll():
                    pauses += self._stop(step)
                case Finished():
                    # What is about to start is told to end when it has.
                    if not self._starting:
                        await self._finish()
        if self._is_winding_down:
            pauses += self._stop_for_now()
        self._tell_back_offs()
        if not self.is_over:
            self._publish()
        return min(pauses, default=None)

    # Starting

    async def _start(self, name: str) -> Iterable[float]:
        if self._supervision is None:
            wait = max(self._retry_at, self._held_until) - time.monotonic()
            if wait > 0:
                return [wait]
            if not await self._make_place():
                return [self._retry_at - time.monotonic()]
        run_id = secrets.token_hex(32)
        count = self._restarts_with_one_more(name)
        try:
            self.place.drop_old_runs(name, count, self._known_runs())
            plan = self.place.plan(self.pod, name, run_id, count)
        except SetupError as refusal:
            self._refuse_start(name, refusal)
            return []
        self._means.events.pulled(self.pod, name)
        self._means.events.created(self.pod, name)
        supervision = self.supervision
        self._starting[name] = run_id
        self._keep()
        supervision.start(plan)
        return []

    def _known_runs(self) -> set[str]:
        """Those that the status speaks of."""
        last = [container.latest_end for container in self._record.all_containers]
        return {*self.run_ids(), *(end.id for end in last if end is not None)}

    def _restarts_with_one_more(self, name: str) -> int:
        container = self._record.container(name)
        return container.restart_count + (1 if container.has_run else 0)

    def _refuse_start(self, name: str, refusal: SetupError) -> None:
        container = self._record.container(name)
        self._record = self._record.with_container(
            container.with_failed_start(refusal.reason, refusal.message, _now())
        )
        self._means.events.failed(self.pod, name, refusal.message)
        self._news.set()

    async def _make_place(self) -> bool:
        """What all containers share. What is refused is tried again, later and later."""
        try:
            addresses = self.place.take_addresses(self.pod)
            self._record = msgspec.structs.replace(
                self._record, start_time=self._record.start_time or _now(), host_ips=addresses.host
            )
            self._publish()
            await self.place.make(self.pod)
            await self._supervise()
        except SetupError as refusal:
            self._means.events.refused(self.pod, refusal)
        except (SandboxCallError, CannotSpawnError, NetworkFullError, OSError) as error:
            self._means.events.no_sandbox(self.pod, str(error))
        else:
            self._retry_seconds = _FIRST_RETRY
            self._record = msgspec.structs.replace(self._record, has_sandbox=True, pod_ips=addresses.pod)
            return True
        self._retry_at = time.monotonic() + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY)
        return False

    async def _supervise(self) -> None:
        supervision = SupervisorClient(self.place.folder.path, self._hear, self._lose)
        hello = await supervision.hello(_SECONDS_TO_SET_UP)
        if hello.problem:
            await supervision.end()
            raise SetupError(hello.problem, "FailedMount")
        self._supervision = supervision

    async def adopt(self) -> None:
        """Go on where an earlier daemon stopped: with its supervisor, or with what that has left behind."""
        self.place.adopt_addresses(self._record)
        try:
            supervision = SupervisorClient(self.place.folder.path, self._hear, self._lose)
            hello = await supervision.hello(_SECONDS_TO_ANSWER)
        except (SandboxCallError, OSError):
            self._lose()
            await self.place.end_leftovers()
            return
        self._supervision = supervision
        # What it runs with may be gone by now, and matters to nobody until a container is started again.
        with contextlib.suppress(SetupError):
            self.place.prepare_volumes(self.pod)
        told = {run.container: run for run in hello.runs}
        for name, run_id in tuple(self._starting.items()):
            if run_id not in told:
                # The daemon ended before it could say so.
                del self._starting[name]
        for run in hello.runs:
            if run.end is None and self._name_of(run.container) is None:
                # What is written of the pod does not know it: it would run beside its successor.
                supervision.signal(run.container, signal.SIGKILL)
            if run.started is not None:
                self._hear(run.started)
            if run.end is not None:
                self._hear(run.end)
        for container in self._record.all_containers:
            if isinstance(container.current, Running):
                self._care.probe(container.name, container.current, _now() - container.current.started_at)

    # What becomes of containers

    def _hear(self, news: News) -> None:
        name = self._name_of(news.container)
        if name is None:
            return
        match news:
            case messages.Started():
                self._has_started(name, news)
            case messages.NotStarted():
                self._has_not_started(name, news)
            case messages.Ended():
                self._has_ended(name, self._means.interference.reported(news))
        self._news.set()

    def _name_of(self, run_id: str) -> str | None:
        for name, starting in self._starting.items():
            if starting == run_id:
                return name
        for container in self._record.all_containers:
            if isinstance(container.current, Running) and container.current.id == run_id:
                return container.name
        return None

    def _has_started(self, name: str, news: messages.Started) -> None:
        self._starts[news.container] = news
        if self._starting.pop(name, None) is None:
            return
        run = Running(_moment(news.at), news.container)
        self._record = restarts.with_started(
            self.pod, self._record, name, run, image_id=self.place.image_id(self.pod, name)
        )
        self._means.events.started(self.pod, name)
        self._care.begin(name, run)
        self._keep()

    def _has_not_started(self, name: str, news: messages.NotStarted) -> None:
        self._starting.pop(name, None)
        at = _moment(news.at)
        begun = restarts.with_started(self.pod, self._record, name, Running(at, news.container))
        end = records.start_error(news.message, at, news.container)
        self._record = begun.with_container(begun.container(name).with_end(end))
        self._means.events.failed(self.pod, name, news.message)
        self._keep()

    def _has_ended(self, name: str, news: messages.Ended) -> None:
        if name in self._starting:
            # Its start was told to a daemon that is no more, or it was killed before it could start.
            self._has_started(name, messages.Started(news.container, news.at))
        self._starts.pop(news.container, None)
        self._care.end(name)
        container = self._record.container(name)
        run = container.current
        if not isinstance(run, Running):
            return
        message = self.place.termination_message(self.pod, name, container.restart_count, news)
        end = records.end(
            run,
            max(_moment(news.at), run.started_at),
            exit_code=news.exit_code,
            signal=news.signal,
            was_out_of_memory=news.was_out_of_memory,
            message=message,
        )
        self._record = self._record.with_container(container.with_end(end))
        self._keep()
        self._means.log_news.tell(self.place.folder.logs(name))

    def _lose(self) -> None:
        """The supervisor has gone: it was told to, or somebody has killed it, and what it looked after with it."""
        if self._supervision is None and not self.run_ids():
            return
        self._is_lost = True
        self._supervision = None
        self._record = msgspec.structs.replace(self._record, has_sandbox=False)
        for run_id in self.run_ids():
            known = container_runs.read_run(self.place.folder.run(run_id))
            self._hear(_end_of(known) or messages.Ended(run_id, time.time(), 0, signal.SIGKILL))
        self._news.set()

    def _running_ids(self) -> list[str]:
        currents = [container.current for container in self._record.all_containers]
        return [current.id for current in currents if isinstance(current, Running)]

    # What its containers are asked for

    def health(self, name: str, *, has_started: bool, is_ready: bool) -> None:
        """What the probes of a container say."""
        container = self._record.container(name)
        if container.is_running and (container.has_started, container.is_ready) != (has_started, is_ready):
            self._record = self._record.with_container(
                msgspec.structs.replace(container, has_started=has_started, is_ready=is_ready)
            )
            self._news.set()

    def kill_unhealthy(self, name: str, grace_seconds: int) -> None:
        run = self._record.container(name).current
        if isinstance(run, Running):
            self._care.kill(name, run, grace_seconds)

    def signal(self, run_id: str, number: int) -> None:
        """To a run, if it still goes on."""
        if self._supervision is not None and self._name_of(run_id) is not None:
            self._supervision.signal(run_id, number)

    def refresh_volumes(self) -> None:
        """What the pod refers to has changed."""
        self.place.refresh_volumes(self.pod)
        self.try_again()

    def refresh_hosts(self) -> None:
        if self._supervision is not None:
            with contextlib.suppress(SetupError):
                self.place.refresh_hosts(self.pod)

    # Stopping

    @property
    def is_being_evicted(self) -> bool:
        ending = self._record.ending
        return (
            ending is not None and ending.reason == terminations.EVICTED and self._record.is_anything_running
        )

    def evict(self, message: str) -> None:
        """It ends as failed, and gives back what it holds of the disk."""
        self._record = self._record.with_ending(terminations.eviction(message))
        self._news.set()

    def _stop(self, step: StopAll) -> Iterable[float]:
        if step.reason and self._record.ending is None:
            ending = records.Ending(step.grace_seconds, step.reason, step.message)
            self._record = self._record.with_ending(ending)
            self._means.events.ending(self.pod, ending)
            self._keep()
        for name, number in self._stopping.signals(step):
            run = self._record.container(name).current
            if not isinstance(run, Running) or self._supervision is None:
                continue
            if number == signal.SIGTERM:
                self._means.events.stopping(self.pod, name)
                if self._care.hook(name, run, hooks.PRE_STOP, self._stopping.seconds_left or 0.0):
                    continue
            self._supervision.signal(run.id, number)
        if self._stopping.is_overdue and self._supervision is not None:
            # Somebody has stopped it, say. What it looks after ends with it.
            self._supervision.kill()
            return []
        left = self._stopping.seconds_left
        return [] if left is None else [left]

    async def wind_down(self) -> None:
        """Nothing of the pod is to run for now; what it is to do later stays as it is."""
        self._is_winding_down = True
        self._news.set()
        await self._has_wound_down.wait()

    def _stop_for_now(self) -> Iterable[float]:
        if not self._record.is_anything_running and not self._starting:
            self._has_wound_down.set()
            return []
        return self._stop(restarts.stop_of(self.pod, self._record))

    async def _finish(self) -> None:
        """Nothing runs and nothing will, which is told before the pod's place is cleared."""
        if self._record.ending is not None and self._record.ending.reason == terminations.EVICTED:
            # Before: nothing can be told while the disk is full.
            await asyncio.to_thread(self.place.give_back_disk)
            if not specs.has_final_phase(self.pod):
                self._means.events.ending(self.pod, self._record.ending)
        self._record = msgspec.structs.replace(self._record, has_sandbox=False)
        self._publish()
        await self._end_supervision()
        self.place.give_back_addresses()
        if self.pod["metadata"].get("deletionTimestamp"):
            # Somebody's finalizer may keep it; what is known of it is kept as long.
            self._means.delete(self.pod)

    async def _end_supervision(self) -> None:
        if self._supervision is not None:
            supervision, self._supervision = self._supervision, None
            await supervision.end()
        if self._is_lost:
            self._is_lost = False
            await self.place.end_leftovers()

    async def _remove(self) -> None:
        """All that there is of the pod on this machine."""
        self._care.end_all()
        await self._end_supervision()
        self.place.give_back_addresses()
        await self._remove_folder()
        self.is_over = True

    async def _remove_folder(self) -> None:
        problem = None
        for pause in _PAUSES_BETWEEN_REMOVALS:
            await asyncio.sleep(pause)
            try:
                await asyncio.to_thread(self.place.remove)
                return
            except OSError as error:
                # A process that is only just ending may still have written something.
                problem = error
        logger.warning("pod %s: its folder is removed at the next start: %s", self.place.shown, problem)

    # Writing down

    def _keep(self) -> None:
        """For the next daemon. A disk that is full must not end the pod."""
        try:
            state_file.write(self.place.folder.path, PodState(self._record, self._starting))
        except OSError as error:
            logger.warning("pod %s: its state cannot be written: %s", self.place.shown, error)

    def _publish(self) -> None:
        status = statuses.pod_status(self.pod, self._record, _now())
        if status != self.pod.get("status"):
            self.pod = self._means.write_status(self.pod, status)

    def _tell_back_offs(self) -> None:
        for container in self._record.all_containers:
            is_new = self._told_back_offs.get(container.name) != container.restart_count
            if is_new and statuses.is_backing_off(self.pod, self._record, container, _now()):
                self._told_back_offs[container.name] = container.restart_count
                self._means.events.backing_off(self.pod, container)


def _end_of(run: messages.Run | None) -> messages.Ended | messages.NotStarted | None:
    return None if run is None else run.end


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _now() -> datetime:
    return datetime.now(UTC)
