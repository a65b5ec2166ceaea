"""What the tasks of a job write: all of them together in the order of time, or one; and on as it comes.

What is read is one run of one container at a time. `log_following` goes on with it when a connection is cut, and finds
the pods that come later.
"""

import asyncio
import contextlib
import heapq
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec

from windlass.client import lookup, tasks
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, NotThereError
from windlass.client.logs import lines as log_lines
from windlass.client.logs.lines import Cursor, Line, Splitter
from windlass.client.pods import Pod
from windlass.client.tasks import Choice
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AnsweredError, NotFoundError
from windlass.kubeapi.requests import Request
from windlass.model.framework import Framework
from windlass.model.states import State

MOST_TOGETHER = 64
"""So many logs are read, and put in order, at the same time. Those of further tasks come after them."""
MOST_FOLLOWED = 500
"""So many tasks are followed: each is a connection."""

Note = Callable[[str], None]
"""Is told what is no line of a log, such as that one could not be read."""


class Wanted(msgspec.Struct, frozen=True):
    """Which part of the logs."""

    follow: bool = False
    previous: bool = False
    """Of the run before, where a container was restarted."""
    since_seconds: float | None = None
    tail: int | None = None
    """So many lines of each container."""
    times: bool = False
    """Each line says when it was written."""
    container: str = ""
    """Without it: all that are no init containers."""


class Source(msgspec.Struct, frozen=True):
    """One container of one pod."""

    pod: Pod
    container: str
    label: str

    def line(self, data: bytes, stamp: bytes, *, is_ended: bool) -> Line:
        return Line(
            task=str(self.pod.task),
            container=self.container,
            attempt=self.pod.attempt,
            data=data,
            time=stamp.decode(),
            is_ended=is_ended,
            label=self.label,
        )


def _ignore(message: str) -> None:
    pass


async def read(
    connection: Connection,
    framework: Framework,
    choice: Choice | None = None,
    wanted: Wanted | None = None,
    note: Note = _ignore,
) -> AsyncGenerator[Line, None]:
    """Raises NotThereError, and what `Connection.send` raises."""
    choice, wanted = choice or Choice(), wanted or Wanted()
    tasks.check(framework, choice)
    if wanted.follow and not _is_completed(framework):
        _check_number(framework, choice)
        from windlass.client.logs import follow as log_follow

        lines = log_follow.follow(connection, framework, choice, wanted, note)
    else:
        lines = _read(connection, framework, choice, wanted, note)
    async with contextlib.aclosing(lines):
        async for line in lines:
            yield line


async def read_by_name(
    connection: Connection, name: str, task: str = "", wanted: Wanted | None = None, note: Note = _ignore
) -> AsyncGenerator[Line, None]:
    """`task` is one, such as `worker-1`, or a role; without it, all. Raises as `read` does, and ValueError."""
    job, choice = tasks.parse_choice(name, task)
    lines = read(connection, await lookup.find(connection, job), choice, wanted, note)
    async with contextlib.aclosing(lines):
        async for line in lines:
            yield line


def _is_completed(framework: Framework) -> bool:
    return framework.status is not None and framework.status.state is State.COMPLETED


def _check_number(framework: Framework, choice: Choice) -> None:
    roles = [role for role in framework.spec.task_roles if choice.role in ("", role.name)]
    number = 1 if choice.is_one else sum(role.task_number for role in roles)
    if number > MOST_FOLLOWED:
        raise ClientError(
            f"{number} tasks cannot be followed at once, but {MOST_FOLLOWED}: "
            f"name a role or a task, such as {roles[0].name}-0"
        )


async def _read(
    connection: Connection, framework: Framework, choice: Choice, wanted: Wanted, note: Note
) -> AsyncGenerator[Line, None]:
    pods = await tasks.pods(connection, framework, choice)
    check_container(pods, wanted)
    sources = [source for pod in pods for source in sources_of(pod, wanted) if _has_log(source, wanted)]
    if not sources:
        message = _why_nothing(framework, choice, pods, wanted)
        if choice.is_one or wanted.previous or _is_completed(framework):
            raise NotThereError(message)
        note(message)
        return
    for begin in range(0, len(sources), MOST_TOGETHER):
        together = sources[begin : begin + MOST_TOGETHER]
        lines = _in_order(connection, together, wanted, note, is_only=len(sources) == 1)
        async with contextlib.aclosing(lines):
            async for line in lines:
                yield line


def check_container(pods: Sequence[Pod], wanted: Wanted) -> None:
    """Raises NotThereError when none of the pods has the container that is asked for."""
    if wanted.container and pods and not any(sources_of(pod, wanted) for pod in pods):
        tasks.container_of(pods[0], wanted.container)


def sources_of(pod: Pod, wanted: Wanted) -> list[Source]:
    main = pod.main_containers
    if wanted.container:
        main = tuple(each for each in pod.container_names if each == wanted.container)
    return [Source(pod, each, str(pod.task) if len(main) == 1 else f"{pod.task}/{each}") for each in main]


def _has_log(source: Source, wanted: Wanted) -> bool:
    status = source.pod.status_of(source.container)
    if status is None:
        return False
    return status.has_run_before if wanted.previous else status.has_begun or status.has_run_before


def _why_nothing(framework: Framework, choice: Choice, pods: Sequence[Pod], wanted: Wanted) -> str:
    """Why there is nothing to read, in one message."""
    who = f"{choice.role}-{choice.index}" if choice.is_one else f"{choice.role or framework.name}"
    if wanted.previous:
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
    container = wanted.container or pod.default_container
    reason = tasks.why_not_begun(pod, container)
    return f"{who} has not begun to write{f': {reason}' if reason else ''}"


def _why_no_previous(framework: Framework, choice: Choice, pods: Sequence[Pod], who: str) -> str:
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


# One log


def request(source: Source, namespace: str, wanted: Wanted, *, since: str = "", times: bool) -> Request:
    """`since` takes the place of what is asked for the first time."""
    asked = {"sinceTime": since}
    if not since:
        seconds, tail = wanted.since_seconds, wanted.tail
        asked["sinceSeconds"] = "" if seconds is None else str(max(1, math.ceil(seconds)))
        asked["tailLines"] = "" if tail is None else str(tail)
    for name, is_wanted in (("follow", wanted.follow), ("previous", wanted.previous), ("timestamps", times)):
        asked[name] = "true" if is_wanted else ""
    return requests.log(namespace, source.pod.name, container=source.container, **asked)


async def lines_of(
    connection: Connection,
    asked: Request,
    source: Source,
    *,
    times: bool,
    cursor: Cursor | None = None,
    is_meant: Callable[[], Awaitable[bool]] | None = None,
    note: Note = _ignore,
) -> AsyncGenerator[Line, None]:
    """The lines of one answer that the cursor takes. A line that is cut with the connection is left out.

    A log is asked for by the name of a pod, which the next attempt's has too: `is_meant` says, once the answer has
    begun, whether it is the right one's. `note` is told what a node says in place of a log that is gone: it is sent
    as if it were a line, and where times are asked for, it is the only one without. Raises ApiError.
    """
    splitter, stamp, is_taken = Splitter(), b"", True
    if cursor is not None:
        cursor.resume()

    def lines(pieces: Sequence[log_lines.Piece]) -> list[Line]:
        nonlocal stamp, is_taken
        found = []
        for piece in pieces:
            data = piece.data
            if times and not piece.is_begun:
                stamp, data = log_lines.stamped(data)
                data = log_lines.joined(data)
                is_of_node = not stamp
                is_taken = not is_of_node and (cursor is None or cursor.takes(stamp))
                if is_of_node:
                    note(f"the log of {source.label} cannot be read: {data.decode(errors='replace')}")
            if is_taken:
                found.append(source.line(data, stamp, is_ended=piece.is_ended))
        return found

    async with connection.transport.stream(asked) as chunks:
        if is_meant is not None and not await is_meant():
            return
        async for chunk in chunks:
            for line in lines(splitter.feed(chunk)):
                yield line
    for line in lines(splitter.end()):
        yield line


async def _in_order(
    connection: Connection, sources: Sequence[Source], wanted: Wanted, note: Note, *, is_only: bool
) -> AsyncGenerator[Line, None]:
    times = wanted.times or not is_only
    async with contextlib.AsyncExitStack() as opened:
        readers = [
            await opened.enter_async_context(
                contextlib.aclosing(_once(connection, source, wanted, note, times=times, is_only=is_only))
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
    connection: Connection, source: Source, wanted: Wanted, note: Note, *, times: bool, is_only: bool
) -> AsyncGenerator[Line, None]:
    plain = msgspec.structs.replace(wanted, follow=False)
    asked = request(source, connection.namespace, plain, times=times)
    try:
        async for line in lines_of(connection, asked, source, times=times, note=note):
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
