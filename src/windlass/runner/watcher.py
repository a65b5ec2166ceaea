"""What is seen of jobs while they run: frameworks, pods, events, logs, progress and usage, told to the audience.

What is told of them is decided in `report`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from windlass.client import pods
from windlass.client.pods import Pod, Run
from windlass.kubeapi import answers, requests
from windlass.kubeapi.errors import ApiError, NotFoundError
from windlass.kubeapi.following import Changed, Deleted, Follower, Listed, News
from windlass.kubeapi.resources import EVENTS, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.runner import container_logs, eta, usage
from windlass.runner.audience import Audience
from windlass.runner.report import Advance, Event, Line, LogLine, Report, Source, Topic
from windlass.runner.run_plan import Job, Work
from windlass.wire import codec, progress
from windlass.wire.progress import Progress

LAST_LOGS_SECONDS = 5.0
"""For so long the output of containers may still come after the jobs have completed."""
SECONDS_BETWEEN_LOOKS = 2.0
"""At the files in which tasks say how far they are, and at what they use."""

_decode_event = msgspec.json.Decoder(Event).decode

Receive = Callable[[msgspec.Raw], None]


class Followed:
    """One job, as it was seen last."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.framework: Framework | None = None
        self.is_over = False
        """It has completed, or is gone."""
        self.was_asked_to_stop = False


class Onlooker:
    def __init__(
        self, work: Work, transport: Transport, audience: Audience, data: Path, *, reads_logs: bool
    ) -> None:
        self.jobs = {job.key: Followed(job) for job in work.jobs}
        self.were_noticed = asyncio.Event()
        """The controller knows of all jobs."""
        self.are_over = asyncio.Event()
        self.on_pod: Callable[[Pod], None] = _ignore
        """Who else wants to see pods."""
        self._transport = transport
        self._audience = audience
        self._data = data
        self._reads_logs = reads_logs
        self._report = Report(work.jobs, work.companions)
        self._logs: dict[Run, asyncio.Task[None]] = {}
        self._paces: dict[str, eta.Pace] = {}
        self._files = eta.Files()
        self._writing: dict[Path, Pod] = {}
        """The files of pods that may still say how far they are."""

    def looks(self) -> Iterator[Coroutine[Any, Any, None]]:
        """To be run beside the jobs. None of them ends."""
        for group in dict.fromkeys(followed.job.group for followed in self.jobs.values()):
            yield self._look(frameworks(group), self._on_framework, self._on_deleted_framework)
        yield self._look(PODS, self._on_pod, self._on_deleted_pod, names.FRAMEWORK_NAME)
        yield self._look(EVENTS, self._on_event, _ignore)
        yield self._look_at_files()
        if self._audience.wants_usage:
            yield self._look_at_usage()

    async def hear_the_rest(self) -> None:
        """The controller posts its events after what they tell of, and containers wrote until a moment ago."""
        listed = await self._transport.send(requests.list_page(EVENTS, limit=0))
        for item in answers.decode_page(listed).objects:
            self._on_event(item)
        if self._logs:
            await asyncio.wait(self._logs.values(), timeout=LAST_LOGS_SECONDS)
        self._read_files()

    def end(self) -> "Iterable[asyncio.Task[None]]":
        """What is still being read."""
        return self._logs.values()

    def tell(self, *lines: Line) -> None:
        for line in lines:
            self._audience.say(line)

    async def _look(self, resource: Resource, changed: Receive, deleted: Receive, selector: str = "") -> None:
        def receive(news: News) -> None:
            match news:
                case Listed(items=items):
                    for item in items:
                        changed(item)
                case Changed(object=body):
                    changed(body)
                case Deleted(object=body):
                    deleted(body)

        await Follower(self._transport, resource, label_selector=selector, receive=receive).run()

    # Jobs

    def _on_framework(self, body: msgspec.Raw, *, is_gone: bool = False) -> None:
        framework = codec.decode_framework(body)
        followed = self.jobs.get((framework.metadata.namespace, framework.name))
        if followed is None or names.group_of(framework.api_version) != followed.job.group:
            return
        if framework.status is not None:
            followed.framework = framework
            followed.is_over |= framework.status.state is State.COMPLETED
            self._audience.framework(followed.job, framework)
        followed.is_over |= is_gone
        if all(each.framework is not None or each.is_over for each in self.jobs.values()):
            self.were_noticed.set()
        if all(each.is_over for each in self.jobs.values()):
            self.are_over.set()

    def _on_deleted_framework(self, body: msgspec.Raw) -> None:
        self._on_framework(body, is_gone=True)

    # Pods and events

    def _on_pod(self, body: msgspec.Raw) -> None:
        pod = pods.decode(body)
        if pod.job_key not in self.jobs:
            return
        self.on_pod(pod)
        self.tell(*self._report.pod(pod, _now()))
        file = eta.file_of(pod, container_logs.folder(self._data, pod.metadata.uid))
        if file is not None:
            self._writing[file] = pod
        for status in pod.container_statuses if self._reads_logs else ():
            run = pod.run_of(status)
            if status.has_begun and run not in self._logs:
                self._logs[run] = asyncio.create_task(self._read_log(pod, run))

    def _on_deleted_pod(self, body: msgspec.Raw) -> None:
        pod = pods.decode(body)
        if pod.job_key in self.jobs:
            self.tell(*self._report.deleted_pod(pod, _now()))

    def _on_event(self, body: msgspec.Raw) -> None:
        self.tell(*self._report.event(_decode_event(body), _now()))

    # Logs and progress

    async def _read_log(self, pod: Pod, run: Run) -> None:
        meta, container = pod.metadata, run.container
        try:
            async for line in container_logs.follow(self._transport, meta.namespace, meta.name, container):
                await self._audience.room()
                self._on_line(pod, container, line)
        except NotFoundError:
            # The pod has gone faster than it could be asked for its log, which is still there.
            for line in container_logs.kept(self._data, run):
                self._on_line(pod, container, line)
        except ApiError as error:
            message = f"the output of container {container} cannot be read: {error}"
            self.tell(Line(Topic.POD, _now(), self._report.name_of(pod), "NoLog", message))

    def _on_line(self, pod: Pod, container: str, line: str) -> None:
        found = progress.of_line(line)
        self._audience.say(LogLine(Topic.LOG, _now(), self._report.name_of(pod), container, line))
        if found is not None:
            self._advance(pod, found, Source.LOG)

    async def _look_at_files(self) -> None:
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            self._read_files()

    def _read_files(self) -> None:
        for file, found in self._files.look(tuple(self._writing)):
            self._advance(self._writing[file], found, Source.FILE)
        self._writing = {file: pod for file, pod in self._writing.items() if not pod.is_over}

    def _advance(self, pod: Pod, found: Progress, source: Source) -> None:
        now = _now()
        remaining = self._paces.setdefault(pod.metadata.uid, eta.Pace()).remaining(found, now)
        name = self._report.name_of(pod)
        said = Advance(Topic.PROGRESS, now, name, found.step, found.total, found.values, source, remaining)
        self._audience.say(said)

    async def _look_at_usage(self) -> None:
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            try:
                self._audience.usage(usage.answered(await self._transport.send(usage.request())))
            except NotFoundError:
                await asyncio.Event().wait()  # this cluster does not measure
            except (ApiError, msgspec.DecodeError):
                continue


def _now() -> datetime:
    return datetime.now(UTC)


def _ignore(_: object) -> None:
    pass
