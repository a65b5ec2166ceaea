"""What the tasks of a job write: all of them together in the order of time, or one; and on as it comes.

What is read is one run of one container at a time. `log_following` goes on with it when a connection is cut, and finds
the pods that come later.
"""

import asyncio
import contextlib
import heapq
from collections.abc import AsyncGenerator, Sequence

import msgspec

from windlass.client import lookup, tasks
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, NotThereError
from windlass.client.logs import container_log
from windlass.client.logs import follow as log_follow
from windlass.client.logs import lines as log_lines
from windlass.client.logs.container_log import LogOptions, Note, Source, ignore_note
from windlass.client.logs.lines import Line
from windlass.client.pods import Pod
from windlass.client.tasks import TaskSelector
from windlass.kubeapi.errors import AnsweredError, NotFoundError
from windlass.model.framework import Framework
from windlass.model.states import State

MOST_TOGETHER = 64
"""So many logs are read, and put in order, at the same time. Those of further tasks come after them."""
MOST_FOLLOWED = 500
"""So many tasks are followed: each is a connection."""


async def read(
    connection: Connection,
    framework: Framework,
    choice: TaskSelector | None = None,
    options: LogOptions | None = None,
    note: Note = ignore_note,
) -> AsyncGenerator[Line, None]:
    """Raises NotThereError, and what `Connection.send` raises."""
    choice, options = choice or TaskSelector(), options or LogOptions()
    tasks.require_tasks(framework, choice)
    if options.follow and not _is_completed(framework):
        _check_number(framework, choice)
        lines = log_follow.follow(connection, framework, choice, options, note)
    else:
        lines = _read(connection, framework, choice, options, note)
    async with contextlib.aclosing(lines):
        async for line in lines:
            yield line


async def read_by_name(
    connection: Connection,
    name: str,
    task: str = "",
    options: LogOptions | None = None,
    note: Note = ignore_note,
) -> AsyncGenerator[Line, None]:
    """`task` is one, such as `worker-1`, or a role; without it, all. Raises as `read` does, and ValueError."""
    job, choice = tasks.parse_choice(name, task)
    lines = read(connection, await lookup.find(connection, job), choice, options, note)
    async with contextlib.aclosing(lines):
        async for line in lines:
            yield line


def _is_completed(framework: Framework) -> bool:
    return framework.status is not None and framework.status.state is State.COMPLETED


def _check_number(framework: Framework, choice: TaskSelector) -> None:
    roles = [role for role in framework.spec.task_roles if choice.role in ("", role.name)]
    number = 1 if choice.is_one else sum(role.task_number for role in roles)
    if number > MOST_FOLLOWED:
        raise ClientError(
            f"{number} tasks cannot be followed at once, but {MOST_FOLLOWED}: "
            f"name a role or a task, such as {roles[0].name}-0"
        )


async def _read(
    connection: Connection, framework: Framework, choice: TaskSelector, options: LogOptions, note: Note
) -> AsyncGenerator[Line, None]:
    pods = await tasks.list_pods(connection, framework, choice)
    container_log.check_container(pods, options)
    sources = [
        source
        for pod in pods
        for source in container_log.sources_of(pod, options)
        if _has_log(source, options)
    ]
    if not sources:
        message = _why_nothing(framework, choice, pods, options)
        if choice.is_one or options.previous or _is_completed(framework):
            raise NotThereError(message)
        note(message)
        return
    for begin in range(0, len(sources), MOST_TOGETHER):
        together = sources[begin : begin + MOST_TOGETHER]
        lines = _in_order(connection, together, options, note, is_only=len(sources) == 1)
        async with contextlib.aclosing(lines):
            async for line in lines:
                yield line


def _has_log(source: Source, options: LogOptions) -> bool:
    status = source.pod.status_of(source.container)
    if status is None:
        return False
    return status.has_run_before if options.previous else status.has_begun or status.has_run_before


def _why_nothing(framework: Framework, choice: TaskSelector, pods: Sequence[Pod], options: LogOptions) -> str:
    """Why there is nothing to read, in one message."""
    who = f"{choice.role}-{choice.index}" if choice.is_one else f"{choice.role or framework.name}"
    if options.previous:
        return _why_no_previous(framework, choice, pods, who)
    if not pods:
        is_over = framework.status is not None and framework.status.state.is_over
        has_pod = choice.is_one and any(
            choice.holds(task) and status.attempt_status.pod_uid is not None
            for task, status in tasks.statuses(framework)
        )
        if is_over or has_pod:
            whose = f"the pod of {who}" if choice.is_one else f"the pods of {who}"
            gone = "is gone, and its log with it" if choice.is_one else "are gone, and their logs with them"
            return f"{whose} {gone}: `windlass why {framework.name}` says what is still known"
        return f"{who} has no pod yet: `windlass why {framework.name}` says what it waits for"
    pod = pods[0]
    container = options.container or pod.default_container
    reason = tasks.waiting_reason(pod, container)
    return f"{who} has not begun to write{f': {reason}' if reason else ''}"


def _why_no_previous(framework: Framework, choice: TaskSelector, pods: Sequence[Pod], who: str) -> str:
    retries = [
        status.retry_policy_status.total_retried_count
        for task, status in tasks.statuses(framework)
        if choice.holds(task)
    ]
    status = framework.status
    was_job_retried = status is not None and status.retry_policy_status.total_retried_count > 0
    if any(retries) or was_job_retried or (status is not None and not pods):
        return (
            f"no container of {who} was restarted in its pod, and the pods of earlier attempts are gone, with their "
            f"logs: `windlass why {framework.name}` says what is still known of them"
        )
    return f"{who} has no earlier run: no container of it was restarted"


async def _in_order(
    connection: Connection, sources: Sequence[Source], options: LogOptions, note: Note, *, is_only: bool
) -> AsyncGenerator[Line, None]:
    times = options.times or not is_only
    async with contextlib.AsyncExitStack() as opened:
        readers = [
            await opened.enter_async_context(
                contextlib.aclosing(_once(connection, source, options, note, times=times, is_only=is_only))
            )
            for source in sources
        ]
        # All at once: each waits for its first line.
        first = await asyncio.gather(*(anext(reader, None) for reader in readers))
        heap = [(_key(line), at, line) for at, line in enumerate(first) if line is not None]
        heapq.heapify(heap)
        while heap:
            _, at, line = heap[0]
            yield line
            following = await anext(readers[at], None)
            if following is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (_key(following), at, following))


def _key(line: Line) -> int:
    return log_lines.nanoseconds(line.time.encode()) if line.time else 0


async def _once(
    connection: Connection, source: Source, options: LogOptions, note: Note, *, times: bool, is_only: bool
) -> AsyncGenerator[Line, None]:
    plain = msgspec.structs.replace(options, follow=False)
    asked = container_log.request(source, connection.namespace, plain, times=times)
    try:
        async for line in container_log.lines_of(connection, asked, source, times=times, note=note):
            yield line
    except NotFoundError as error:
        _tell(f"the pod of {source.label} has just gone, and its log with it", error, note, is_only=is_only)
    except AnsweredError as error:
        _tell(
            f"the log of {source.label} cannot be read: {error.failure.message}", error, note, is_only=is_only
        )


def _tell(message: str, cause: Exception, note: Note, *, is_only: bool) -> None:
    """Of several logs, one that cannot be read does not keep the others from being read."""
    if is_only:
        raise NotThereError(message) from cause
    note(message)
