"""The logs of single containers: which containers to read, the request for a log, and the lines of the response.

`reader` merges several of these logs. `follow` follows them and reconnects after a lost connection.
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

MAX_BATCH_BYTES = 64 * 1024
"""Maximum number of bytes of a response that are split into lines at once."""

Note = Callable[[str], None]
"""Receives messages that are not log lines, e.g. that a log cannot be read."""


class LogOptions(msgspec.Struct, frozen=True):
    """Which part of the logs to read, and how."""

    follow: bool = False
    previous: bool = False
    """Whether to read the log of the previous run of a restarted container."""
    since_seconds: float | None = None
    tail: int | None = None
    """Number of last lines of each container; None for all."""
    has_timestamps: bool = False
    """Whether lines must have timestamps. Merged and followed lines always have them."""
    container: str = ""
    """Name of the container; empty for all except init containers."""


class Source(msgspec.Struct, frozen=True):
    """One container of one pod."""

    pod: Pod
    container: str
    label: str
    is_deleted: bool = False
    """Whether the pod is deleted. The embedded cluster keeps the logs of deleted pods by their UIDs."""


def ignore_note(message: str) -> None:
    pass


def check_container(pods: Sequence[Pod], options: LogOptions) -> None:
    """Raise ObjectNotFoundError if there are pods, but none of them has the requested container."""
    if options.container and pods and not any(sources_of(pod, options) for pod in pods):
        tasks.require_container(pods[0], options.container)


def sources_of(pod: Pod, options: LogOptions) -> list[Source]:
    containers = pod.main_container_names
    if options.container:
        containers = tuple(each for each in pod.container_names if each == options.container)
    return [
        Source(pod, each, str(pod.task) if len(containers) == 1 else f"{pod.task}/{each}")
        for each in containers
    ]


def request(
    source: Source, namespace: str, options: LogOptions, *, since: str = "", has_timestamps: bool
) -> Request:
    """Return the request for a log. `since` replaces sinceSeconds and tailLines when reading is resumed."""
    query = {"sinceTime": since}
    if not since:
        seconds, tail = options.since_seconds, options.tail
        query["sinceSeconds"] = "" if seconds is None else str(max(1, math.ceil(seconds)))
        query["tailLines"] = "" if tail is None else str(tail)
    flags = {"follow": options.follow, "previous": options.previous, "timestamps": has_timestamps}
    query |= {name: "true" if is_set else "" for name, is_set in flags.items()}
    query["uid"] = source.pod.uid if source.is_deleted else ""
    return requests.log(namespace, source.pod.name, container=source.container, **query)


async def read_batches(
    connection: Connection,
    log_request: Request,
    source: Source,
    *,
    has_timestamps: bool,
    cursor: Cursor | None = None,
    is_expected_pod: Callable[[], Awaitable[bool]] | None = None,
    note: Note = ignore_note,
) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of one response that are new to the cursor, in batches, because containers may write fast.

    A line cut off by a lost connection is dropped.
    A log is requested by pod name, and the pod of the next attempt has the same name. `is_expected_pod` is called after
    the response has started and returns whether the log is that of the expected pod; if not, no line is yielded.
    If the log was deleted, the kubelet sends an error message instead of lines. It is recognized by its
    missing timestamp (only if timestamps were requested) and is passed to `note`. Raises ApiError.
    """
    splitter, stamp, is_accepted = Splitter(), b"", True
    task, attempt, time = str(source.pod.task), source.pod.attempt, ""
    if cursor is not None:
        cursor.resume()

    def lines(pieces: Sequence[log_lines.Piece]) -> list[Line]:
        nonlocal stamp, is_accepted, time
        found = []
        for piece in pieces:
            data = piece.data
            if has_timestamps and not piece.is_continuation:
                stamp, data = log_lines.split_timestamp(data)
                data = log_lines.without_part_timestamps(data)
                is_kubelet_message = not stamp
                is_accepted = not is_kubelet_message and (cursor is None or cursor.advance(stamp))
                time = stamp.decode()
                if is_kubelet_message:
                    note(f"cannot read the log of {source.label}: {data.decode(errors='replace')}")
            if is_accepted:
                found.append(Line(task, source.container, attempt, data, time, piece.is_ended, source.label))
        return found

    async with connection.transport.stream(log_request) as chunks:
        if is_expected_pod is not None and not await is_expected_pod():
            return
        async for chunk in chunks:
            for start in range(0, len(chunk), MAX_BATCH_BYTES):
                if batch := lines(splitter.feed(chunk[start : start + MAX_BATCH_BYTES])):
                    yield batch
    if batch := lines(splitter.end()):
        yield batch
