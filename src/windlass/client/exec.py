"""Run a command in the container of a task, with local streams, and return its exit code."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from windlass.client import jobs, tasks, waiting
from windlass.client.connection import Connection
from windlass.client.errors import ObjectNotFoundError, RejectedError
from windlass.client.pods import Pod, Task
from windlass.client.tasks import TaskSelector
from windlass.kubeapi import streams
from windlass.kubeapi.errors import ApiError, NoValidResponseError
from windlass.kubeapi.streams import Size
from windlass.kubeapi.transport import Channels

Write = Callable[[bytes], None]

__all__ = ["Size", "Streams", "Write", "execute", "in_pod"]


class Streams(msgspec.Struct, frozen=True):
    """The local ends of the command's streams."""

    stdout: Write
    stderr: Write
    stdin: AsyncIterator[bytes] | None = None
    """None: the command has no standard input."""
    sizes: AsyncIterator[Size] | None = None
    """The current size of the terminal, and the size after each change."""
    tty: bool = False
    note: Callable[[str], None] = lambda _: None
    """Receives messages for the user."""


async def execute(
    connection: Connection,
    job: str,
    task: Task,
    command: Sequence[str],
    local: Streams,
    container: str = "",
) -> int:
    """Run a command in the container of a task and return its exit code. Raises ClientError and ApiError."""
    pod, container = await _target(connection, job, task, container)
    return await in_pod(connection, pod.name, container, command, local, display_name=str(task))


async def in_pod(
    connection: Connection,
    pod: str,
    container: str,
    command: Sequence[str],
    local: Streams,
    *,
    display_name: str = "",
) -> int:
    """Run a command in a pod and return its exit code. Error messages call the pod `display_name`.

    Raises RejectedError and ApiError.
    """
    request = streams.exec_request(
        connection.namespace,
        pod,
        container,
        tuple(command),
        stdin=local.stdin is not None,
        tty=local.tty,
    )
    async with connection.transport.channels(request, streams.EXEC_PROTOCOLS) as channels:
        result = await _exchange_streams(channels, local)
    if result.code is None:
        raise RejectedError(f"cannot run {command[0]} in {display_name or pod}: {result.message}")
    return result.code


async def _target(connection: Connection, job: str, task: Task, container: str) -> tuple[Pod, str]:
    """Return the pod and its running container."""
    framework = await jobs.find(connection, job)
    selector = TaskSelector(task.role, task.index)
    tasks.require_tasks(framework, selector)
    found = await tasks.list_pods(connection, framework, selector)
    if not found:
        raise ObjectNotFoundError(f"{task} has no pod. Find out why with `windlass why {job}`.")
    pod = found[0]
    name = tasks.require_container(pod, container)
    status = pod.status_of(name)
    if status is not None and status.is_running:
        return pod, name
    raise ObjectNotFoundError(f"{task} is not running{_not_running_reason(pod, name, job)}")


def _not_running_reason(pod: Pod, container: str, job: str) -> str:
    """Return why the container is not running, and what to do."""
    status = pod.status_of(container)
    ended = None if status is None else status.state.terminated
    if ended is not None:
        log = f"Show its log with `windlass logs {job} {pod.task}`."
        return f": its container {container} exited with code {ended.exit_code}. {log}"
    reason = waiting.waiting_reason(pod, container)
    return f" yet{f' ({reason})' if reason else ''}. Find out why with `windlass why {job}`."


async def _exchange_streams(channels: Channels, local: Streams) -> streams.ExecResult:
    sending = [asyncio.create_task(_send_input(channels, local))]
    if local.sizes is not None:
        sending.append(asyncio.create_task(_send_sizes(channels, local.sizes)))
    try:
        return await _receive(channels, local)
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


async def _receive(channels: Channels, local: Streams) -> streams.ExecResult:
    """Pass output on until the server reports the exit code."""
    async for received in channels.messages():
        channel, data = streams.parse_message(received)
        match channel:
            case streams.STDOUT:
                local.stdout(data)
            case streams.STDERR:
                local.stderr(data)
            case streams.ERROR if data:
                return streams.parse_result(data)
    raise NoValidResponseError("the connection was closed before the command ended")


async def _send_input(channels: Channels, local: Streams) -> None:
    """Send standard input. A send error is ignored: the command or connection has ended, as `_receive` reports."""
    if local.stdin is None:
        return
    with contextlib.suppress(ApiError):
        async for data in local.stdin:
            await channels.send(streams.message(streams.STDIN, data))
        end = streams.end_of_input(channels.protocol)
        if end is not None:
            await channels.send(end)
        else:
            local.note(
                "this cluster cannot close the standard input of the command (Kubernetes 1.30 and newer can): "
                "if the command does not end, press Ctrl-C"
            )


async def _send_sizes(channels: Channels, sizes: AsyncIterator[Size]) -> None:
    with contextlib.suppress(ApiError):
        async for size in sizes:
            await channels.send(streams.resize_message(size))
