"""Read the logs of a job: of one task, or of several merged by time. `follow` continues with new lines and pods."""

import asyncio
import contextlib
import heapq
from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache

import msgspec

from windlass.client import jobs, lifecycle, tasks, waiting
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, InvalidJobError, ObjectNotFoundError
from windlass.client.logs import container_log
from windlass.client.logs import follow as log_follow
from windlass.client.logs import lines as log_lines
from windlass.client.logs.container_log import LogOptions, Note, Source, ignore_note
from windlass.client.logs.lines import Line
from windlass.client.pods import Pod, Task
from windlass.client.tasks import TaskSelector
from windlass.kubeapi.errors import NotFoundError, ResponseError
from windlass.model.framework import Framework

MAX_MERGED = 64
"""Maximum number of logs that are merged by time. Further logs follow in groups of this size."""
MAX_FOLLOWED = 500
"""Maximum number of tasks to follow: each needs a connection."""


async def read(
    connection: Connection,
    framework: Framework,
    selector: TaskSelector | None = None,
    options: LogOptions | None = None,
    note: Note = ignore_note,
) -> AsyncGenerator[Line, None]:
    """Yield the lines of `read_batches` one by one."""
    batches = read_batches(connection, framework, selector, options, note)
    async with contextlib.aclosing(batches):
        async for batch in batches:
            for line in batch:
                yield line


async def read_batches(
    connection: Connection,
    framework: Framework,
    selector: TaskSelector | None = None,
    options: LogOptions | None = None,
    note: Note = ignore_note,
) -> AsyncGenerator[list[Line], None]:
    """Yield the log lines of the selected tasks. Raises ObjectNotFoundError, and the errors of `Connection.send`."""
    selector, options = selector or TaskSelector(), options or LogOptions()
    tasks.require_tasks(framework, selector)
    if options.follow and not lifecycle.is_completed(framework):
        _check_task_count(framework, selector)
        batches = log_follow.follow(connection, framework, selector, options, note)
    else:
        batches = _read(connection, framework, selector, options, note)
    async with contextlib.aclosing(batches):
        async for batch in batches:
            yield batch


async def read_by_name(
    connection: Connection,
    name: str,
    task: str = "",
    options: LogOptions | None = None,
    note: Note = ignore_note,
) -> AsyncGenerator[Line, None]:
    """Yield the log lines of a task (`worker-1`), of a role, or of all tasks.

    Raises as `read` does, and InvalidJobError for an invalid name.
    """
    try:
        job, selector = tasks.parse_selector(name, task)
    except ValueError as error:
        raise InvalidJobError(str(error)) from error
    lines = read(connection, await jobs.find(connection, job), selector, options, note)
    async with contextlib.aclosing(lines):
        async for line in lines:
            yield line


def _check_task_count(framework: Framework, selector: TaskSelector) -> None:
    number = sum(
        selector.matches(Task(role.name, index))
        for role in framework.spec.task_roles
        for index in range(role.task_number)
    )
    if number > MAX_FOLLOWED:
        role = selector.role or framework.spec.task_roles[0].name
        raise ClientError(
            f"cannot follow {number} tasks: the maximum is {MAX_FOLLOWED}. "
            f"Select a role or a task, e.g. {role}-0."
        )


async def _read(
    connection: Connection, framework: Framework, selector: TaskSelector, options: LogOptions, note: Note
) -> AsyncGenerator[list[Line], None]:
    pods = await tasks.list_pods(connection, framework, selector)
    container_log.check_container(pods, options)
    sources = [
        source
        for pod in pods
        for source in container_log.sources_of(pod, options)
        if has_log(source, options)
    ]
    if not sources:
        message = _no_log_message(framework, selector, pods, options)
        if selector.selects_one_task or options.previous or lifecycle.is_completed(framework):
            raise ObjectNotFoundError(message)
        note(message)
        return
    for begin in range(0, len(sources), MAX_MERGED):
        merged = sources[begin : begin + MAX_MERGED]
        batches = merge_by_time(connection, merged, options, note, is_only=len(sources) == 1)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                yield batch


def has_log(source: Source, options: LogOptions) -> bool:
    status = source.pod.status_of(source.container)
    if status is None:
        return False
    return status.has_run_before if options.previous else status.has_started or status.has_run_before


def _no_log_message(
    framework: Framework, selector: TaskSelector, pods: Sequence[Pod], options: LogOptions
) -> str:
    """Return the message that explains why there is no log."""
    subject = str(selector) or framework.name
    if options.previous:
        return _no_previous_log_message(framework, selector, pods, subject)
    if not pods:
        is_over = framework.status is not None and framework.status.state.is_over
        had_pod = selector.selects_one_task and any(
            selector.matches(task) and status.attempt_status.pod_uid is not None
            for task, status in tasks.statuses(framework)
        )
        if is_over or had_pod:
            deleted = (
                f"pod of {subject} and its log"
                if selector.selects_one_task
                else f"pods of {subject} and their logs"
            )
            return f"the {deleted} are deleted. See `windlass why {framework.name}`."
        return f"{subject} has no pod yet. See `windlass why {framework.name}`."
    pod = pods[0]
    container = options.container or pod.default_container
    reason = waiting.waiting_reason(pod, container)
    return f"{subject} has not started yet{f': {reason}' if reason else ''}"


def _no_previous_log_message(
    framework: Framework, selector: TaskSelector, pods: Sequence[Pod], subject: str
) -> str:
    retries = [
        status.retry_policy_status.total_retried_count
        for task, status in tasks.statuses(framework)
        if selector.matches(task)
    ]
    status = framework.status
    is_job_retried = status is not None and status.retry_policy_status.total_retried_count > 0
    if any(retries) or is_job_retried or (status is not None and not pods):
        return (
            f"no container of {subject} was restarted in its pod, and the pods and logs of earlier attempts are "
            f"deleted. See `windlass why {framework.name}`."
        )
    return f"{subject} has no previous run: none of its containers was restarted"


async def merge_by_time(
    connection: Connection, sources: Sequence[Source], options: LogOptions, note: Note, *, is_only: bool
) -> AsyncGenerator[list[Line], None]:
    async with contextlib.AsyncExitStack() as exit_stack:
        readers = [
            await exit_stack.enter_async_context(
                contextlib.aclosing(read_one(connection, source, options, note, is_only=is_only))
            )
            for source in sources
        ]
        # Start all requests concurrently: each waits for its first lines.
        batches = await asyncio.gather(*(anext(reader, None) for reader in readers))
        heap = [(_time_key(batch[0].time), at, batch) for at, batch in enumerate(batches) if batch]
        heapq.heapify(heap)
        while heap:
            _, at, batch = heap[0]
            count = _count_until(batch, min(heap[1:3], default=None), at)
            yield batch[:count]
            following = batch[count:] or await anext(readers[at], [])
            if following:
                heapq.heapreplace(heap, (_time_key(following[0].time), at, following))
            else:
                heapq.heappop(heap)


def _count_until(batch: list[Line], following: tuple[int, int, list[Line]] | None, at: int) -> int:
    """Return how many lines of the batch of source `at` come before `following`, the next batch of other sources."""
    if following is None:
        return len(batch)
    end = following[0], following[1]
    return next((count for count, line in enumerate(batch) if (_time_key(line.time), at) > end), len(batch))


@lru_cache(maxsize=256)
def _time_key(time: str) -> int:
    """Return the time in nanoseconds; cached, because lines that were written together have the same timestamp."""
    return log_lines.nanoseconds(time.encode()) if time else 0


async def read_one(
    connection: Connection, source: Source, options: LogOptions, note: Note, *, is_only: bool
) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of one log. Errors are passed to `note`, unless it is the only log that is read."""
    has_timestamps = options.has_timestamps or not is_only
    options = msgspec.structs.replace(options, follow=False)
    request = container_log.request(source, connection.namespace, options, has_timestamps=has_timestamps)
    try:
        async for batch in container_log.read_batches(
            connection, request, source, has_timestamps=has_timestamps, note=note
        ):
            yield batch
    except NotFoundError as error:
        _report(f"the pod of {source.label} was deleted with its log", error, note, is_only=is_only)
    except ResponseError as error:
        _report(
            f"cannot read the log of {source.label}: {error.failure.message}", error, note, is_only=is_only
        )


def _report(message: str, cause: Exception, note: Note, *, is_only: bool) -> None:
    """Raise an error for the only log. For one of several, only note the message, so that the others are still read."""
    if is_only:
        raise ObjectNotFoundError(message) from cause
    note(message)
