"""What happens on the cluster of a run once it answers: a controller, the file's objects, and somebody who looks on.

What is seen of it is in `onlooker`.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from windlass.client.pods import Pod
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.leader import election
from windlass.controller.operator import Operator
from windlass.kubeapi import access, requests
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.resources import frameworks
from windlass.kubeapi.transport import Transport
from windlass.model.framework import ExecutionType
from windlass.model.settings import OFF, Settings
from windlass.runner import beforehand, free_ports, objects, report
from windlass.runner.audience import Audience
from windlass.runner.companions import Companions
from windlass.runner.interrupts import Interrupts
from windlass.runner.objects import RefusedError
from windlass.runner.report import Line, Topic, Verdict
from windlass.runner.run_plan import Doors, Job, Work
from windlass.runner.watcher import Followed, Onlooker

__all__ = ["NoAnswerError", "RefusedError", "Session", "Site"]

NOTICE_SECONDS = 60.0
"""For so long the controller may take to notice a Framework."""


class Site(msgspec.Struct, frozen=True):
    """The cluster of a run."""

    data: Path
    socket: Path
    is_network_shared: bool
    has_controller: bool = False
    """It brings one along. Otherwise it is the session's to run."""

    @property
    def is_ephemeral(self) -> bool:
        """It ends with the run. One that brings its controller along is that of a daemon, and stays."""
        return not self.has_controller


class Injector(Protocol):
    """Who does what `--inject` asks for."""

    def on_pod(self, pod: Pod) -> None: ...

    async def finish(self) -> None: ...

    async def stop(self) -> None: ...


MakeInjector = Callable[[Transport, Callable[[Line], None]], Injector]


class NoAnswerError(Exception):
    """The cluster or the controller does not do its part. One message."""


class Session:
    def __init__(
        self,
        work: Work,
        site: Site,
        interrupts: Interrupts,
        audience: Audience,
        *,
        reads_logs: bool,
        make_injector: MakeInjector | None = None,
    ) -> None:
        self._work = work
        self._site = site
        self._interrupts = interrupts
        self._access = access.unix(site.socket)
        self._transport = Transport(self._access, user_agent="windlass-run")
        self._news = Onlooker(work, self._transport, audience, site.data, reads_logs=reads_logs)
        self._companions = Companions(self._transport, self._news.tell, Doors())
        self._make_injector = make_injector
        self._injector: Injector | None = None
        self._stop_controller = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        """Goes on until it is cancelled; what ends before is a fault."""

    async def run(self) -> list[Verdict]:
        """Until all jobs have completed: how each of them did. Raises RefusedError, NoAnswerError and ClientError."""
        try:
            async with self._transport:
                try:
                    return await self._run()
                finally:
                    await self._end_all()
        except ApiError as error:
            raise NoAnswerError(f"the cluster did not do what it was asked for: {error}") from error

    async def _run(self) -> list[Verdict]:
        await objects.define(self._transport, self._work)
        controller = None if self._site.has_controller else self._begin(self._controller())
        if self._make_injector is not None:
            self._injector = self._make_injector(self._transport, self._news.tell)
            self._news.on_pod = self._injector.on_pod
        for look in self._news.looks():
            self._begin(look)
        await self._submit()
        await self._wait()
        if self._injector is not None:
            await self._injector.finish()
        if controller is not None:
            await self._end(controller)
        await self._news.hear_the_rest()
        verdicts = [self._verdict(followed) for followed in self._news.jobs.values()]
        await self._stay(verdicts)
        return verdicts

    async def _end_all(self) -> None:
        await self._companions.end()
        await _cancelled({*self._background, *self._news.end()})
        if self._injector is not None:
            await self._injector.stop()

    async def _submit(self) -> None:
        await objects.create_others(self._transport, self._work)
        self._companions.tell_passwords(self._work)
        self._companions.open(self._work.written_companions)
        for job in self._work.jobs:
            await self._prepare_and_create(job)
            self._news.tell(Line(Topic.FRAMEWORK, _now(), job.name, "Submitted", "is submitted"))
            self._companions.open(job.companions)
        self._interrupts.can_be_graceful = True

    async def _prepare_and_create(self, job: Job) -> None:
        """As `windlass submit` does it. Raises ClientError besides."""
        if job.preparation is None:
            await objects.create_framework(self._transport, job)
            return
        async with beforehand.made(
            self._transport, job, job.preparation, self._news.tell, is_ephemeral=self._site.is_ephemeral
        ) as prepared:
            created = await objects.create_framework(self._transport, job)
        await prepared.give_to(created)

    async def _wait(self) -> None:
        if not await self._until(self._news.were_noticed, seconds=NOTICE_SECONDS):
            raise NoAnswerError(f"the controller has not noticed the Framework within {NOTICE_SECONDS:g} s")
        await self._until(self._news.are_over, self._interrupts.stop)
        if not self._news.are_over.is_set():
            for followed in self._news.jobs.values():
                if not followed.is_over:
                    await self._ask_to_stop(followed)
            await self._until(self._news.are_over)
        self._interrupts.can_be_graceful = False

    async def _stay(self, verdicts: Sequence[Verdict]) -> None:
        """For companions that outlive the jobs, as long as there are any: on a cluster that goes when the run ends."""
        was_asked_to_end = self._interrupts.stop.is_set()
        if was_asked_to_end or not self._site.is_ephemeral or not self._companions.is_any_kept:
            return
        self._interrupts.no_hurry.set()
        self._interrupts.can_be_graceful = True
        message = report.what_goes_on(verdicts, self._companions.where)
        self._news.tell(Line(Topic.COMPANION, _now(), self._work.name, "GoesOn", message))
        await first_of(self._companions.until_gone(are_kept=True), self._interrupts.stop.wait())

    async def _ask_to_stop(self, followed: Followed) -> None:
        job = followed.job
        followed.was_asked_to_stop = True
        message = "is asked to stop; its pods have their grace period, and Ctrl-C once more ends them at once"
        self._news.tell(Line(Topic.FRAMEWORK, _now(), job.name, "Stopping", message))
        body = msgspec.json.encode({"spec": {"executionType": ExecutionType.STOP}})
        await self._transport.send(requests.merge_patch(frameworks(job.group), job.namespace, job.name, body))

    def _verdict(self, followed: Followed) -> Verdict:
        return report.verdict(
            followed.framework, followed.job.name, _now(), was_interrupted=followed.was_asked_to_stop
        )

    # What goes on beside it

    async def _controller(self) -> None:
        settings = Settings(leader_election=False, metrics_address=OFF)
        identity = election.identity(socket.gethostname(), secrets.token_hex(8))
        operator = Operator(
            settings,
            self._access,
            SystemClock(),
            identity=identity,
            stream=None,
            choose_ports=free_ports.choose if self._site.is_network_shared else None,
        )
        await operator.run(self._stop_controller)

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._background.add(task)
        return task

    async def _end(self, controller: "asyncio.Task[None]") -> None:
        self._background.discard(controller)
        self._stop_controller.set()
        await controller

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


async def first_of(*doing: Coroutine[Any, Any, Any]) -> None:
    """Until one of them is over. Raises what that one has raised."""
    tasks = {asyncio.create_task(each) for each in doing}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _cancelled(tasks)


async def _cancelled(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _now() -> datetime:
    return datetime.now(UTC)
