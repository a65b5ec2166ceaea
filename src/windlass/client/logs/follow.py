"""Follow the logs of existing and later pods until the job has completed or is deleted.

After a lost connection, reading resumes after the last line that was read.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection
from typing import Any

import msgspec

from windlass.client import lifecycle, pods, tasks, wait
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
    ForbiddenError,
    NotFoundError,
    NoValidResponseError,
    ResponseError,
    UnauthorizedError,
)
from windlass.kubeapi.reflector import Changed, Listed, Reflector, ResourceEvent
from windlass.kubeapi.resources import PODS
from windlass.model.framework import Framework

MIN_PAUSE_SECONDS = 0.2
MAX_PAUSE_SECONDS = 5.0
MAX_ATTEMPTS = 5
"""Maximum number of attempts to read the end of the log of a terminated container."""
MAX_QUEUED = 16
"""Maximum number of batches that are read ahead of the consumer."""


async def follow(
    connection: Connection, framework: Framework, selector: TaskSelector, options: LogOptions, note: Note
) -> AsyncGenerator[list[Line], None]:
    follower = _Follower(connection, framework, selector, options, note)
    work = asyncio.create_task(follower.work())
    try:
        while (batch := await follower.batches.get()) is not None:
            yield batch
        await work
    finally:
        await _cancel({work})
    if follower.error is not None:
        raise follower.error


class _ReplacedError(Exception):
    """The response is not the log of the expected pod, which was deleted or replaced by a pod of the same name."""


class _Follower:
    def __init__(
        self,
        connection: Connection,
        framework: Framework,
        selector: TaskSelector,
        options: LogOptions,
        note: Note,
    ) -> None:
        self.batches: asyncio.Queue[list[Line] | None] = asyncio.Queue(MAX_QUEUED)
        """None marks the end."""
        self.error: Exception | None = None
        self._connection = connection
        self._framework = framework
        self._selector = selector
        self._options = options
        self._note = note
        self._is_initial = True
        self._is_outage_reported = False
        self._runs: dict[Run, asyncio.Task[None]] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has the first unexpected exception of a task that reads a log."""

    async def work(self) -> None:
        try:
            await self._work()
        except Exception as error:
            self.error = error
        await self.batches.put(None)

    async def _work(self) -> None:
        watches: set[asyncio.Future[None]] = {self._crash}
        try:
            pods = await tasks.list_pods(self._connection, self._framework, self._selector)
            container_log.check_container(pods, self._options)
            for pod in pods:
                self._start_reading(pod)
            self._is_initial = False
            watches |= {
                asyncio.create_task(self._pod_reflector().run()),
                asyncio.create_task(self._wait_until_completed()),
            }
            done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            # The watch of the pods may lag behind the watch of the job.
            for pod in await tasks.list_pods(self._connection, self._framework, self._selector):
                self._start_reading(pod)
            while self._reading and not self._crash.done():
                await asyncio.wait({*self._reading, self._crash}, return_when=asyncio.FIRST_COMPLETED)
            if self._crash.done():
                self._crash.result()
        finally:
            await _cancel({*watches, *self._reading})

    # Watches

    def _pod_reflector(self) -> Reflector:
        return Reflector(
            self._connection.transport,
            PODS,
            namespace=self._connection.namespace,
            label_selector=tasks.pod_selector(self._framework),
            receive=self._receive_pods,
            on_error=self._report_outage,
        )

    def _receive_pods(self, event: ResourceEvent) -> None:
        match event:
            case Listed(items=items):
                for item in items:
                    self._start_reading(tasks.decode_pod(self._framework, item))
            case Changed(object=body):
                self._start_reading(tasks.decode_pod(self._framework, body))

    async def _wait_until_completed(self) -> None:
        """Wait until the job has completed or is deleted. Raises ApiError if it cannot be watched any more."""
        async with contextlib.aclosing(wait.watch_framework(self._connection, self._framework)) as changes:
            async for framework in changes:
                if framework is None or lifecycle.is_completed(framework):
                    return

    def _report_outage(self, error: Exception) -> None:
        if isinstance(error, NoValidResponseError | AccessError) and not self._is_outage_reported:
            self._is_outage_reported = True
            self._note(f"{self._connection.where} does not respond ({error}); retrying")

    # Logs

    def _start_reading(self, pod: Pod) -> None:
        if not pod.may_belong_to(self._framework) or not self._selector.matches(pod.task):
            return
        for source in container_log.sources_of(pod, self._options):
            status = pod.status_of(source.container)
            if status is None or not status.has_started:
                continue
            run = pod.run_of(status)
            if run not in self._runs:
                # --tail applies only to runs that had already started.
                tail = self._options.tail if self._is_initial else None
                options = msgspec.structs.replace(self._options, tail=tail)
                task = asyncio.create_task(self._follow(source, status.restart_count, options))
                self._runs[run] = task
                self._reading.add(task)
                task.add_done_callback(self._finish_reading)

    def _finish_reading(self, task: asyncio.Task[None]) -> None:
        self._reading.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._crash.done():
            self._crash.set_exception(error)

    async def _follow(self, source: Source, restart_count: int, options: LogOptions) -> None:
        """Follow one run of a container to the end of its log, or report why it cannot be read."""
        try:
            await self._follow_to_end(source, restart_count, options)
        except ResponseError as error:
            self._note(f"cannot read the log of {source.label}: {error.failure.message}")

    async def _follow_to_end(self, source: Source, restart_count: int, options: LogOptions) -> None:
        """Follow one run of a container. Raises ResponseError for permanent errors."""
        cursor, pause, attempts = Cursor(), MIN_PAUSE_SECONDS, 0
        has_ended = is_complete = False
        while attempts < MAX_ATTEMPTS:
            before = cursor.position
            try:
                is_complete = await self._read(source, cursor, options)
                if is_complete and has_ended:
                    return
                status = await self._status(source)
            except (NotFoundError, _ReplacedError):
                # A restarted kubelet may not know its pods yet: ask the API server whether the pod is deleted.
                if await self._is_deleted(source):
                    self._report_deleted_log(source, is_complete=is_complete)
                    return
                is_complete, status = False, None
            except ClientError:
                # The watch of the pods reports the outage. Whether the container still runs is unknown.
                is_complete, status = False, None
            else:
                if status is None or status.restart_count > restart_count + 1:
                    self._report_deleted_log(source, is_complete=is_complete)
                    return
            if status is not None:
                has_ended, options = _next_request(options, status, restart_count)
            if is_complete and has_ended:
                continue
            attempts += has_ended
            pause = MIN_PAUSE_SECONDS if cursor.position != before else pause
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
        self._note(f"cannot read the end of the log of {source.label}")

    def _report_deleted_log(self, source: Source, *, is_complete: bool) -> None:
        if not is_complete:
            self._note(f"the log of {source.label} was deleted before it was read completely")

    async def _read(self, source: Source, cursor: Cursor, options: LogOptions) -> bool:
        """Queue new lines. Return False after a temporary error, otherwise True.

        Raises _ReplacedError, ClientError, and ResponseError for permanent errors.
        """
        request = container_log.request(
            source, self._connection.namespace, options, since=cursor.since, has_timestamps=True
        )

        async def is_expected_pod() -> bool:
            if await self._status(source) is None:
                raise _ReplacedError
            return True

        def note(message: str) -> None:
            # After lines were read, a missing log is normal: it is deleted with its container.
            if not cursor.has_started:
                self._note(message)

        batches = container_log.read_batches(
            self._connection,
            request,
            source,
            has_timestamps=True,
            cursor=cursor,
            is_expected_pod=is_expected_pod,
            note=note,
        )
        try:
            async with contextlib.aclosing(batches):
                async for batch in batches:
                    self._is_outage_reported = False
                    if cursor.has_gap:
                        self._note(f"lines of {source.label} may be missing: the log was rotated")
                        cursor.has_gap = False
                    await self.batches.put(batch)
        except (NoValidResponseError, AccessError) as error:
            self._report_outage(error)
            return False
        except ResponseError as error:
            # Other errors are temporary, e.g. if the container is about to start.
            if isinstance(error, NotFoundError) or _is_permanent(error):
                raise
            return False
        return True

    async def _is_deleted(self, source: Source) -> bool:
        """Return whether the pod is deleted or replaced; False if that is unknown because of a temporary error.

        Raises ResponseError for permanent errors.
        """
        try:
            return await self._status(source) is None
        except ClientError:
            return False

    async def _status(self, source: Source) -> ContainerStatus | None:
        """Return the current status of the container; None if it has none, or if its pod is deleted or replaced.

        Raises ClientError for temporary errors, and ResponseError for permanent errors.
        """
        try:
            body = await self._connection.send(
                requests.get(PODS, self._connection.namespace, source.pod.name)
            )
        except NotFoundError:
            return None
        except ResponseError as error:
            if _is_permanent(error):
                raise
            raise self._connection.to_client_error(error) from error
        pod = pods.decode(body)
        return pod.status_of(source.container) if pod.uid == source.pod.uid else None


def _is_permanent(error: ResponseError) -> bool:
    return isinstance(error, ForbiddenError | UnauthorizedError)


def _next_request(
    options: LogOptions, status: ContainerStatus, restart_count: int
) -> tuple[bool, LogOptions]:
    """Return whether the run has ended, and the options for reading the rest of its log.

    Only the response to a request that was sent after the end of the run is complete: an earlier response may end while
    the container still writes.
    """
    is_previous = status.restart_count > restart_count
    has_ended = is_previous or not status.is_running
    return has_ended, msgspec.structs.replace(options, follow=not has_ended, previous=is_previous)


async def _cancel(started: "Collection[asyncio.Future[Any]]") -> None:
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
