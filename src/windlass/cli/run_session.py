"""What happens on the cluster of a run once it answers: a controller, the file's objects, and somebody who looks on.

What is told of it is decided in `run_report`.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.cli import free_ports, run_logs, run_objects, run_report
from windlass.cli.interrupts import Interrupts
from windlass.cli.run_file import Job
from windlass.cli.run_objects import RefusedError
from windlass.cli.run_output import Output
from windlass.cli.run_report import Event, Line, LogLine, Pod, Report, Topic, Verdict
from windlass.kubeapi import access, answers, requests
from windlass.kubeapi.errors import ApiError, NotFoundError
from windlass.kubeapi.following import Changed, Deleted, Follower, Listed, News
from windlass.kubeapi.resources import EVENTS, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.localcluster.cluster import LocalCluster
from windlass.model import names
from windlass.model.framework import ExecutionType, Framework
from windlass.model.states import State
from windlass.operate import election
from windlass.operate.operator import Operator
from windlass.operate.system_clock import SystemClock
from windlass.settings import OFF, Settings
from windlass.wire import codec

__all__ = ["NoAnswerError", "RefusedError", "Session"]

NOTICE_SECONDS = 60.0
"""For so long the controller may take to notice a Framework."""
LAST_LOGS_SECONDS = 5.0
"""For so long the output of containers may still come after the Framework has completed."""

_decode_pod = msgspec.json.Decoder(Pod).decode
_decode_event = msgspec.json.Decoder(Event).decode

Receive = Callable[[msgspec.Raw], None]


class NoAnswerError(Exception):
    """The cluster or the controller does not do its part. One message."""


class Session:
    def __init__(
        self, job: Job, cluster: LocalCluster, interrupts: Interrupts, output: Output, *, shows_logs: bool
    ) -> None:
        self._job = job
        self._data = cluster.data
        self._access = access.unix(cluster.socket)
        self._is_network_shared = cluster.network == "shared"
        self._interrupts = interrupts
        self._output = output
        self._shows_logs = shows_logs
        self._transport = Transport(self._access, user_agent="windlass-run")
        self._report = Report(job.name)
        self._framework: Framework | None = None
        self._was_noticed = asyncio.Event()
        self._is_over = asyncio.Event()
        """The Framework has completed, or is gone."""
        self._stop_controller = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        """Goes on until it is cancelled; what ends before is a fault."""
        self._logs: dict[run_logs.Run, asyncio.Task[None]] = {}

    async def run(self) -> Verdict:
        """Until the Framework has completed. Raises RefusedError and NoAnswerError."""
        try:
            async with self._transport:
                try:
                    return await self._run()
                finally:
                    await _cancelled({*self._background, *self._logs.values()})
        except ApiError as error:
            raise NoAnswerError(f"the cluster did not do what it was asked for: {error}") from error

    async def _run(self) -> Verdict:
        await run_objects.define(self._transport, self._job)
        controller = self._begin(self._controller())
        self._begin_to_look()
        await run_objects.create_others(self._transport, self._job)
        await run_objects.create_framework(self._transport, self._job)
        self._tell(Line(Topic.FRAMEWORK, _now(), self._job.name, "Submitted", "is submitted"))
        self._interrupts.can_be_graceful = True
        if not await self._until(self._was_noticed, seconds=NOTICE_SECONDS):
            raise NoAnswerError(f"the controller has not noticed the Framework within {NOTICE_SECONDS:g} s")
        await self._until(self._is_over, self._interrupts.stop)
        if not self._is_over.is_set():
            await self._ask_to_stop()
            await self._until(self._is_over)
        self._interrupts.can_be_graceful = False
        await self._hear_the_rest(controller)
        return run_report.verdict(
            self._framework, self._job.name, _now(), was_interrupted=self._interrupts.stop.is_set()
        )

    async def _controller(self) -> None:
        settings = Settings(leader_election=False, metrics_address=OFF)
        identity = election.identity(socket.gethostname(), secrets.token_hex(8))
        operator = Operator(
            settings,
            self._access,
            SystemClock(),
            identity=identity,
            stream=None,
            choose_ports=free_ports.choose if self._is_network_shared else None,
        )
        await operator.run(self._stop_controller)

    async def _ask_to_stop(self) -> None:
        message = "is asked to stop; its pods have their grace period, and Ctrl-C once more ends them at once"
        self._tell(Line(Topic.FRAMEWORK, _now(), self._job.name, "Stopping", message))
        body = msgspec.json.encode({"spec": {"executionType": ExecutionType.STOP}})
        job = self._job
        await self._transport.send(requests.merge_patch(frameworks(job.group), job.namespace, job.name, body))

    async def _hear_the_rest(self, controller: "asyncio.Task[None]") -> None:
        """The controller posts its events after what they tell of, and containers wrote until a moment ago."""
        self._background.discard(controller)
        self._stop_controller.set()
        await controller
        listed = await self._transport.send(requests.list_page(EVENTS, self._job.namespace, limit=0))
        for item in answers.decode_page(listed).objects:
            self._on_event(item)
        if self._logs:
            await asyncio.wait(self._logs.values(), timeout=LAST_LOGS_SECONDS)

    # What goes on beside it

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._background.add(task)
        return task

    async def _until(self, *conditions: asyncio.Event, seconds: float | None = None) -> bool:
        """Whether one of them came in time. Raises NoAnswerError when something ends that should go on."""
        waiting = {asyncio.create_task(condition.wait()) for condition in conditions}
        try:
            done, _ = await asyncio.wait(
                {*waiting, *self._background}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            await _cancelled(waiting)
        for task in done & self._background:
            raise NoAnswerError("the controller has ended") from task.exception()
        return bool(done)

    # What is seen

    def _begin_to_look(self) -> None:
        mine = f"{names.FRAMEWORK_NAME}={self._job.name}"
        self._look(frameworks(self._job.group), self._on_framework, self._on_deleted_framework)
        self._look(PODS, self._on_pod, self._on_deleted_pod, mine)
        self._look(EVENTS, self._on_event, _ignore)

    def _look(self, resource: Resource, changed: Receive, deleted: Receive, selector: str = "") -> None:
        def receive(news: News) -> None:
            match news:
                case Listed(items=items):
                    for item in items:
                        changed(item)
                case Changed(object=body):
                    changed(body)
                case Deleted(object=body):
                    deleted(body)

        follower = Follower(
            self._transport,
            resource,
            namespace=self._job.namespace,
            label_selector=selector,
            receive=receive,
        )
        self._begin(follower.run())

    def _on_framework(self, body: msgspec.Raw) -> None:
        framework = codec.decode_framework(body)
        if framework.name != self._job.name or framework.status is None:
            return
        self._framework = framework
        self._was_noticed.set()
        if framework.status.state is State.COMPLETED:
            self._is_over.set()

    def _on_deleted_framework(self, body: msgspec.Raw) -> None:
        self._on_framework(body)
        self._was_noticed.set()
        self._is_over.set()

    def _on_pod(self, body: msgspec.Raw) -> None:
        pod = _decode_pod(body)
        self._tell(*self._report.pod(pod, _now()))
        if not self._shows_logs:
            return
        for run, container in run_logs.runs(pod):
            if run not in self._logs:
                shown = self._show_log(pod, container.name, container.restart_count)
                self._logs[run] = asyncio.create_task(shown)

    def _on_deleted_pod(self, body: msgspec.Raw) -> None:
        self._tell(*self._report.deleted_pod(_decode_pod(body), _now()))

    def _on_event(self, body: msgspec.Raw) -> None:
        self._tell(*self._report.event(_decode_event(body), _now()))

    async def _show_log(self, pod: Pod, container: str, restart_count: int) -> None:
        try:
            async for line in run_logs.follow(
                self._transport, self._job.namespace, pod.metadata.name, container
            ):
                await self._output.room()
                self._output.say(LogLine(Topic.LOG, _now(), pod.short_name, container, line))
        except NotFoundError:
            # The pod has gone faster than it could be asked for its log, which is still there.
            for line in run_logs.kept(self._data, pod.metadata.uid, container, restart_count):
                self._output.say(LogLine(Topic.LOG, _now(), pod.short_name, container, line))
        except ApiError as error:
            message = f"the output of container {container} cannot be read: {error}"
            self._tell(Line(Topic.POD, _now(), pod.short_name, "NoLog", message))

    def _tell(self, *lines: Line) -> None:
        for line in lines:
            self._output.say(line)


async def _cancelled(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _now() -> datetime:
    return datetime.now(UTC)


def _ignore(_: msgspec.Raw) -> None:
    pass
