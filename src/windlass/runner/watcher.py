"""Watch the jobs of a run: Frameworks, pods, events, logs, progress and usage. `report` selects the lines."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.client import pods, tasks, usage
from windlass.client.logs.lines import LineBuffer
from windlass.client.pods import Pod, Run
from windlass.client.submit.plan import SubmitPlan
from windlass.kubeapi import requests, responses
from windlass.kubeapi.errors import ApiError, ForbiddenError, NotFoundError, ResponseError
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import EVENTS, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.localcluster.cluster import PODS as PODS_DIRECTORY
from windlass.localcluster.kubelet import log_reader
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.localcluster.sandbox import log_format
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.render.manifest import Manifest
from windlass.runner import eta
from windlass.runner.output_files import OutputFiles
from windlass.runner.report import (
    Event,
    Line,
    LineGenerator,
    LogLines,
    ProgressLine,
    Reporter,
    Source,
    Topic,
    UnfinishedLine,
    now,
)
from windlass.wire import codec, progress
from windlass.wire.progress import Progress

MAX_LINE_BYTES = 64 * 1024
"""Longer lines are split."""
MAX_BLOCK_BYTES = 64 * 1024
"""Amount of output that is formatted at once."""
POLL_SECONDS = 2.0
"""Interval for reading progress files and usage."""
UNFINISHED_POLL_SECONDS = 0.5
"""Interval for reading the states of incomplete lines."""

_GONE_CODES = (400, 404)
"""Responses to a log request if the pod was deleted: 404, or 400 while a new pod of the same name has not started."""

_decode_event = msgspec.json.Decoder(Event).decode

Receive = Callable[[msgspec.Raw], None]


def _ignore(_: object) -> None:
    pass


class WatchedJob:
    """The last observed state of a job."""

    def __init__(self, job: Manifest) -> None:
        self.job = job
        self.framework: Framework | None = None
        self.is_over = False
        """Whether it has completed or was deleted."""
        self.was_stopped = False


class SeenPods:
    """The pods that the watch has delivered, by UID."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._versions: dict[str, int] = {}
        self._deleted: set[str] = set()
        self._lists = 0
        self.may_have_missed = False
        """Whether pods may have been created and deleted before the first list."""

    def add(self, pod: Pod) -> None:
        self._versions[pod.uid] = int(pod.metadata.resource_version)
        self._changed.set()

    def remove(self, pod: Pod) -> None:
        self._deleted.add(pod.uid)
        self._changed.set()

    def replace(self, listed: Iterable[msgspec.Raw]) -> None:
        """Add all pods that exist. The watch may have missed pods that were created and deleted before this list."""
        self._lists += 1
        self._deleted |= self._versions.keys() - {pods.decode(body).uid for body in listed}
        self._changed.set()

    async def wait_for(self, existing: Iterable[Pod], ended: Iterable[str]) -> None:
        """Wait until the watch has delivered these states of pods, and the deletion of the pods that have ended."""
        while not (all(map(self._has_state, existing)) and all(map(self._is_deleted, ended))):
            self._changed.clear()
            await self._changed.wait()

    def _has_state(self, pod: Pod) -> bool:
        is_newer = self._versions.get(pod.uid, 0) >= int(pod.metadata.resource_version)
        return is_newer or pod.uid in self._deleted

    def _is_deleted(self, uid: str) -> bool:
        is_missed = self._lists > (0 if self.may_have_missed else 1) and uid not in self._versions
        return is_missed or uid in self._deleted


class Watcher:
    def __init__(
        self,
        plan: SubmitPlan,
        transport: Transport,
        reporter: Reporter,
        data: Path,
        outputs: OutputFiles,
        *,
        reads_logs: bool,
        namespace: str = "",
    ) -> None:
        """`namespace`: the only namespace to watch, if not all."""
        self.jobs = {job.key: WatchedJob(job) for job in plan.jobs}
        self.all_have_status = asyncio.Event()
        """Set when every job has a status or is over."""
        self.all_are_over = asyncio.Event()
        self.on_pod: Callable[[Pod], None] = _ignore
        """Additional callback for each observed pod."""
        self._transport = transport
        self._reporter = reporter
        self._data = data
        self._outputs = outputs
        self._reads_logs = reads_logs
        self._namespace = namespace
        self._lines = LineGenerator(plan.jobs, plan.companions)
        self._logs: dict[Run, asyncio.Task[None]] = {}
        self._seen_pods = SeenPods()
        self._paces: dict[str, eta.Pace] = {}
        self._unfinished: dict[Run, Pod] = {}
        """The pods of the runs whose logs are read."""
        self._progress_files = eta.ProgressFiles()
        self._pods_by_progress_file: dict[Path, Pod] = {}
        """The pods whose progress files are still read."""

    def watch_coroutines(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the coroutines that watch and poll. They run until they are cancelled."""
        for group in dict.fromkeys(watched.job.group for watched in self.jobs.values()):
            yield self._watch(frameworks(group), self._on_framework, self._on_deleted_framework)
        yield self._watch(
            PODS, self._on_pod, self._on_deleted_pod, names.FRAMEWORK_NAME, self._seen_pods.replace
        )
        yield self._watch(EVENTS, self._on_event, _ignore)
        yield self._poll_files()
        if self._reporter.shows_usage:
            yield self._poll_usage()
        if self._reporter.shows_unfinished_lines:
            yield self._poll_unfinished_lines()

    async def ignore_existing_events(self, uid: str = "") -> None:
        """Ignore the events that exist now, except those of the object with this UID, and later events of other jobs.
        For clusters that have or had other jobs."""
        for item in await self._list_events():
            event = _decode_event(item)
            if event.involved_object.uid != uid:
                self._lines.ignore(event)
        self._lines.is_shared = True
        self._seen_pods.may_have_missed = bool(uid)

    async def drain(self) -> None:
        """Process the remaining events and output, which arrive after the status changes that they belong to."""
        await self._wait_for_pods()
        for item in await self._list_events():
            self._on_event(item)
        # These tasks end by themselves: a supervisor records where the log of an ended container ends.
        if self._logs:
            await asyncio.wait(self._logs.values())
        self._read_files()

    async def _list_events(self) -> Sequence[msgspec.Raw]:
        """Return the events; none if the user may not list them."""
        try:
            body = await self._transport.send(requests.list_page(EVENTS, self._namespace, limit=0))
        except ForbiddenError:
            return ()
        return responses.decode_page(body).objects

    async def _wait_for_pods(self) -> None:
        """Wait until the watch has delivered every change of the jobs' pods until now."""
        body = await self._transport.send(
            requests.list_page(PODS, self._namespace, names.FRAMEWORK_NAME, limit=0)
        )
        listed = map(pods.decode, responses.decode_page(body).objects)
        existing = [pod for pod in listed if pod.job_key in self.jobs]
        latest = {
            task.attempt_status.pod_uid
            for watched in self.jobs.values()
            if watched.framework is not None
            for _, task in tasks.statuses(watched.framework)
            if task.attempt_status.pod_uid
        }
        await self._seen_pods.wait_for(existing, latest - {pod.uid for pod in existing})

    def report_submitted(self, job: Manifest) -> None:
        self._report(self._lines.submitted_lines(job.key, now()))

    @property
    def log_tasks(self) -> "Iterable[asyncio.Task[None]]":
        return self._logs.values()

    def _report(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._reporter.report(line)

    async def _watch(
        self,
        resource: Resource,
        on_changed: Receive,
        on_deleted: Receive,
        selector: str = "",
        on_listed: Callable[[Sequence[msgspec.Raw]], None] = _ignore,
    ) -> None:
        def receive(event: ResourceEvent) -> None:
            match event:
                case Listed(items=items):
                    for item in items:
                        on_changed(item)
                    on_listed(items)
                case Changed(object=body):
                    on_changed(body)
                case Deleted(object=body):
                    on_deleted(body)

        reflector = Reflector(
            self._transport, resource, namespace=self._namespace, label_selector=selector, receive=receive
        )
        await reflector.run()

    # Jobs

    def _on_framework(self, body: msgspec.Raw, *, is_deleted: bool = False) -> None:
        framework = codec.decode_framework(body)
        watched = self.jobs.get((framework.metadata.namespace, framework.name))
        if watched is None or names.group_of(framework.api_version) != watched.job.group:
            return
        if framework.status is not None:
            watched.framework = framework
            watched.is_over |= framework.status.state is State.COMPLETED
            self._reporter.update_status(watched.job, framework)
        watched.is_over |= is_deleted
        if all(each.framework is not None or each.is_over for each in self.jobs.values()):
            self.all_have_status.set()
        if all(each.is_over for each in self.jobs.values()):
            self.all_are_over.set()

    def _on_deleted_framework(self, body: msgspec.Raw) -> None:
        self._on_framework(body, is_deleted=True)

    # Pods and events

    def _on_pod(self, body: msgspec.Raw) -> None:
        pod = pods.decode(body)
        if pod.job_key not in self.jobs:
            return
        self._seen_pods.add(pod)
        self.on_pod(pod)
        self._report(self._lines.pod_lines(pod, now()))
        file = eta.progress_file(pod, self._pod_directory(pod.metadata.uid))
        if file is not None:
            self._pods_by_progress_file[file] = pod
        self._start_reading(pod)

    def _on_deleted_pod(self, body: msgspec.Raw) -> None:
        pod = pods.decode(body)
        if pod.job_key in self.jobs:
            self._seen_pods.remove(pod)
            self._start_reading(pod)
            self._report(self._lines.deleted_pod_lines(pod, now()))

    def _on_event(self, body: msgspec.Raw) -> None:
        self._report(self._lines.event_lines(_decode_event(body), now()))

    # Logs and progress

    def _start_reading(self, pod: Pod) -> None:
        for run in pod.started_runs if self._reads_logs else ():
            if run not in self._logs:
                self._logs[run] = asyncio.create_task(self._read_log(pod, run))

    async def _read_log(self, pod: Pod, run: Run) -> None:
        buffer = LineBuffer(MAX_LINE_BYTES)
        self._unfinished[run] = pod
        try:
            async with contextlib.aclosing(self._log_chunks(pod, run)) as chunks:
                async for chunk in chunks:
                    for start in range(0, len(chunk), MAX_BLOCK_BYTES):
                        await self._reporter.wait_for_reader()
                        self._on_output(pod, run, buffer.feed(chunk[start : start + MAX_BLOCK_BYTES]))
        except (ApiError, OSError) as error:
            message = f"cannot read the output of container {run.container}: {error}"
            self._reporter.report(Line(Topic.POD, now(), self._lines.name_of(pod), "NoLog", message))
        self._on_output(pod, run, buffer.end())
        del self._unfinished[run]
        if self._reporter.shows_unfinished_lines:
            self._report_unfinished(pod, run, b"")

    async def _log_chunks(self, pod: Pod, run: Run) -> AsyncGenerator[bytes, None]:
        """Yield the output of one run of a container until the run ends. Raises ApiError and OSError.

        A log is requested by pod name, but the pod may have been deleted or replaced by the pod of the next attempt,
        and the container may have been restarted. In these cases the run has ended, and its log file is read.
        """
        namespace, name = pod.metadata.namespace, pod.metadata.name
        request = requests.log(namespace, name, container=run.container, follow="true")
        try:
            async with self._transport.stream(request) as chunks:
                current = pods.decode(await self._transport.send(requests.get(PODS, namespace, name)))
                if run in map(current.run_of, current.container_statuses):
                    async for chunk in chunks:
                        yield chunk
                    return
        except ResponseError as error:
            is_gone = error.failure.code in _GONE_CODES
            if not is_gone:
                raise
        directory = self._pod_directory(run.pod)
        if not directory.path.exists():
            raise FileNotFoundError("the log was deleted with its pod")
        file = log_format.file_name(run.restart_count)
        for chunk in log_reader.ended_log(directory.logs(run.container), file):
            yield chunk
            await asyncio.sleep(0)

    def _pod_directory(self, uid: str) -> PodDirectory:
        return PodDirectory(self._data / PODS_DIRECTORY / uid)

    def _on_output(self, pod: Pod, run: Run, data: bytes) -> None:
        start = 0
        for end, found in progress.parse_lines(data):
            self._report_output(pod, run, data[start:end])
            self._report_progress(pod, found, Source.LOG)
            start = end
        self._report_output(pod, run, data[start:])

    def _report_output(self, pod: Pod, run: Run, data: bytes) -> None:
        if data:
            name = self._lines.name_of(pod)
            self._outputs.write(name, data)
            self._reporter.report(
                LogLines(Topic.LOG, now(), name, run.container, data, pod=run.pod, is_init=_is_init(pod, run))
            )

    async def _poll_unfinished_lines(self) -> None:
        while True:
            await asyncio.sleep(UNFINISHED_POLL_SECONDS)
            for run, pod in tuple(self._unfinished.items()):
                name = log_format.unfinished_name(log_format.file_name(run.restart_count))
                with contextlib.suppress(OSError):
                    data = (self._pod_directory(run.pod).logs(run.container) / name).read_bytes()
                    self._report_unfinished(pod, run, data.partition(b"\n")[0])

    def _report_unfinished(self, pod: Pod, run: Run, state: bytes) -> None:
        self._reporter.report(
            UnfinishedLine(
                Topic.LOG,
                now(),
                self._lines.name_of(pod),
                run.container,
                state,
                pod=run.pod,
                is_init=_is_init(pod, run),
            )
        )

    async def _poll_files(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self._read_files()

    def _read_files(self) -> None:
        for file, found in self._progress_files.changes(tuple(self._pods_by_progress_file)):
            self._report_progress(self._pods_by_progress_file[file], found, Source.FILE)
        self._pods_by_progress_file = {
            file: pod for file, pod in self._pods_by_progress_file.items() if not pod.is_over
        }

    def _report_progress(self, pod: Pod, found: Progress, source: Source) -> None:
        time = now()
        remaining = self._paces.setdefault(pod.metadata.uid, eta.Pace()).remaining(found, time)
        name = self._lines.name_of(pod)
        self._reporter.report(
            ProgressLine(Topic.PROGRESS, time, name, found.step, found.total, found.values, source, remaining)
        )

    async def _poll_usage(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                body = await self._transport.send(usage.request(self._namespace))
                self._reporter.update_usage(usage.decode(body))
            except NotFoundError:
                await asyncio.Event().wait()  # stop polling: the cluster has no metrics API
            except (ApiError, msgspec.DecodeError):
                continue


def _is_init(pod: Pod, run: Run) -> bool:
    return run.container not in pod.main_container_names
