"""Logs as they are written: of the pods that are there and of those that come later, until the job is over.

A connection that is cut is made anew from where the log was read to.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection
from typing import Any

import msgspec

from windlass.client import pods, tasks, watch
from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.client.logs import container_log
from windlass.client.logs.container_log import LogOptions, Note, Source
from windlass.client.logs.lines import Cursor, Line
from windlass.client.pods import ContainerStatus, Pod, Run
from windlass.client.tasks import TaskSelector
from windlass.kubeapi import requests
from windlass.kubeapi.errors import (
    AccessError,
    AnsweredError,
    ForbiddenError,
    NotFoundError,
    UnansweredError,
    UnauthorizedError,
)
from windlass.kubeapi.following import Changed, Follower, Listed, News
from windlass.kubeapi.resources import PODS
from windlass.model.framework import Framework
from windlass.model.states import State

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
MOST_TRIES = 5
"""So often the end of a run that is over is asked for."""
MOST_WAITING = 1000
"""So many lines wait for whoever reads them; until then no more are taken from the connections."""


async def follow(
    connection: Connection, framework: Framework, choice: TaskSelector, options: LogOptions, note: Note
) -> AsyncGenerator[Line, None]:
    following = _Following(connection, framework, choice, options, note)
    work = asyncio.create_task(following.work())
    try:
        while (line := await following.lines.get()) is not None:
            yield line
        await work
    finally:
        await _cancelled({work})
    if following.error is not None:
        raise following.error


class _Following:
    def __init__(
        self,
        connection: Connection,
        framework: Framework,
        choice: TaskSelector,
        options: LogOptions,
        note: Note,
    ) -> None:
        self.lines: asyncio.Queue[Line | None] = asyncio.Queue(MOST_WAITING)
        """None comes last."""
        self.error: Exception | None = None
        self._connection = connection
        self._framework = framework
        self._choice = choice
        self._wanted = options
        self._note = note
        self._is_first_sight = True
        self._is_trouble_told = False
        self._runs: dict[Run, asyncio.Task[None]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def work(self) -> None:
        try:
            await self._work()
        except Exception as error:
            self.error = error
        await self.lines.put(None)

    async def _work(self) -> None:
        looking: set[asyncio.Task[None]] = set()
        try:
            pods = await tasks.list_pods(self._connection, self._framework, self._choice)
            container_log.check_container(pods, self._wanted)
            for pod in pods:
                self._see(pod)
            self._is_first_sight = False
            looking = {asyncio.create_task(self._pods().run()), asyncio.create_task(self._until_over())}
            done, _ = await asyncio.wait(looking, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            # The watch of the pods may be behind that of the job.
            for pod in await tasks.list_pods(self._connection, self._framework, self._choice):
                self._see(pod)
            while self._reading:
                await asyncio.wait(self._reading, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled({*looking, *self._reading})

    # What is seen

    def _pods(self) -> Follower:
        return Follower(
            self._connection.transport,
            PODS,
            namespace=self._connection.namespace,
            label_selector=tasks.pod_selector(self._framework),
            receive=self._receive_pods,
            on_error=self._trouble,
        )

    def _receive_pods(self, news: News) -> None:
        match news:
            case Listed(items=items):
                for item in items:
                    self._see(pods.decode(item))
            case Changed(object=body):
                self._see(pods.decode(body))

    async def _until_over(self) -> None:
        """The job has completed, or is gone. Raises ApiError when it cannot be looked at any more."""
        async with contextlib.aclosing(watch.watch_framework(self._connection, self._framework)) as changes:
            async for framework in changes:
                status = None if framework is None else framework.status
                if framework is None or (status is not None and status.state is State.COMPLETED):
                    return

    def _trouble(self, error: Exception) -> None:
        if isinstance(error, UnansweredError | AccessError) and not self._is_trouble_told:
            self._is_trouble_told = True
            self._note(f"{self._connection.where} does not answer ({error}); it is tried again")

    # What is read

    def _see(self, pod: Pod) -> None:
        if not pod.is_of(self._framework) or not self._choice.holds(pod.task):
            return
        for source in container_log.sources_of(pod, self._wanted):
            status = pod.status_of(source.container)
            if status is None or not status.has_begun:
                continue
            run = pod.run_of(status)
            if run not in self._runs:
                # Of what comes later all is options.
                tail = self._wanted.tail if self._is_first_sight else None
                options = msgspec.structs.replace(self._wanted, tail=tail)
                task = asyncio.create_task(self._follow(source, status.restart_count, options))
                self._runs[run] = task
                self._reading.add(task)
                task.add_done_callback(self._reading.discard)

    async def _follow(self, source: Source, restart_count: int, options: LogOptions) -> None:
        """One run of a container, from its beginning to its end."""
        cursor, pause, tries = Cursor(), FIRST_PAUSE_SECONDS, 0
        is_over = is_whole = False
        while tries < MOST_TRIES:
            before = cursor.position
            try:
                is_whole = await self._read(source, cursor, options)
                if is_whole and is_over:
                    return
                status = await self._status(source)
            except NotFoundError:
                # A restarted node does not know its pods yet: only the API server knows whether the pod is gone.
                if await self._is_gone(source):
                    if not is_whole:
                        self._note(f"the pod of {source.label} was gone before all of its log could be read")
                    return
                is_whole, status = False, None
            except AnsweredError as error:
                self._note(f"the log of {source.label} cannot be read: {error.failure.message}")
                return
            except ClientError:
                # Told already. Whether it goes on is not known.
                is_whole, status = False, None
            else:
                if status is None or status.restart_count > restart_count + 1:
                    return
            if status is not None:
                is_over, options = _next(options, status, restart_count)
            if is_whole and is_over:
                continue
            tries += is_over
            pause = FIRST_PAUSE_SECONDS if cursor.position != before else pause
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._note(f"the end of the log of {source.label} cannot be read")

    async def _read(self, source: Source, cursor: Cursor, options: LogOptions) -> bool:
        """Whether the answer ended in good order. Raises ClientError, and AnsweredError for what will not change."""
        asked = container_log.request(
            source, self._connection.namespace, options, since=cursor.since, times=True
        )

        async def is_meant() -> bool:
            return await self._status(source) is not None

        def tell(message: str) -> None:
            # One that was read goes with its container, as when a job is stopped.
            if not cursor.has_begun:
                self._note(message)

        lines = container_log.lines_of(
            self._connection, asked, source, times=True, cursor=cursor, is_meant=is_meant, note=tell
        )
        try:
            async with contextlib.aclosing(lines):
                async for line in lines:
                    self._is_trouble_told = False
                    await self.lines.put(line)
        except (UnansweredError, AccessError) as error:
            self._trouble(error)
            return False
        except AnsweredError as error:
            # A container that is about to start, a node that is away for a moment.
            is_for_good = isinstance(error, NotFoundError | ForbiddenError | UnauthorizedError)
            if is_for_good:
                raise
            return False
        return True

    async def _is_gone(self, source: Source) -> bool:
        """Return whether the pod is gone. While the API server does not answer, it is not known to be."""
        try:
            return await self._status(source) is None
        except ClientError:
            return False

    async def _status(self, source: Source) -> ContainerStatus | None:
        """Of the container as it is now. Another pod that has the name is another attempt's. Raises ClientError."""
        try:
            body = await self._connection.send(
                requests.get(PODS, self._connection.namespace, source.pod.name)
            )
        except NotFoundError:
            return None
        pod = pods.decode(body)
        return pod.status_of(source.container) if pod.uid == source.pod.uid else None


def _next(options: LogOptions, status: ContainerStatus, restart_count: int) -> tuple[bool, LogOptions]:
    """Whether the run is over, and how what is left of it is asked for.

    Only what was asked for after a run was over is all of it: an answer may end in good order while the container
    writes on.
    """
    is_previous = status.restart_count > restart_count
    is_over = is_previous or not status.is_running
    return is_over, msgspec.structs.replace(options, follow=not is_over, previous=is_previous)


async def _cancelled(started: "Collection[asyncio.Task[Any]]") -> None:
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
