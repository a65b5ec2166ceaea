"""The log of one container: which containers to read, the request for a log, and the lines of the response.

`reader` merges several of these logs, `follow` reconnects them.
"""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec

from windlass.client import tasks
from windlass.client.connection import Connection
from windlass.client.logs import lines as log_lines
from windlass.client.logs.lines import Cursor, Line, Splitter
from windlass.client.pods import Pod
from windlass.kubeapi import requests
from windlass.kubeapi.requests import Request

Note = Callable[[str], None]
"""Is told what is no line of a log, such as that one could not be read."""


class LogOptions(msgspec.Struct, frozen=True):
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


def ignore_note(message: str) -> None:
    pass


def check_container(pods: Sequence[Pod], options: LogOptions) -> None:
    """Raises NotThereError when none of the pods has the container that is asked for."""
    if options.container and pods and not any(sources_of(pod, options) for pod in pods):
        tasks.require_container(pods[0], options.container)


def sources_of(pod: Pod, options: LogOptions) -> list[Source]:
    main = pod.main_containers
    if options.container:
        main = tuple(each for each in pod.container_names if each == options.container)
    return [Source(pod, each, str(pod.task) if len(main) == 1 else f"{pod.task}/{each}") for each in main]


def request(source: Source, namespace: str, options: LogOptions, *, since: str = "", times: bool) -> Request:
    """`since` takes the place of what is asked for the first time."""
    asked = {"sinceTime": since}
    if not since:
        seconds, tail = options.since_seconds, options.tail
        asked["sinceSeconds"] = "" if seconds is None else str(max(1, math.ceil(seconds)))
        asked["tailLines"] = "" if tail is None else str(tail)
    for name, is_wanted in (
        ("follow", options.follow),
        ("previous", options.previous),
        ("timestamps", times),
    ):
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
    note: Note = ignore_note,
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
