"""One more process in the container of a task, with its streams here and its exit code ours."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from windlass.client import lookup, tasks
from windlass.client.connection import Connection
from windlass.client.errors import NotThereError, RefusedError
from windlass.client.pods import Pod, Task
from windlass.client.tasks import TaskSelector
from windlass.kubeapi import streams
from windlass.kubeapi.errors import ApiError, UnansweredError
from windlass.kubeapi.streams import Size
from windlass.kubeapi.transport import Channels

Write = Callable[[bytes], None]

__all__ = ["Size", "Streams", "Write", "execute", "in_pod"]


class Streams(msgspec.Struct, frozen=True):
    """What is here of the process."""

    stdout: Write
    stderr: Write
    stdin: AsyncIterator[bytes] | None = None
    """None: it has no input."""
    sizes: AsyncIterator[Size] | None = None
    """Of the terminal, whenever it changes."""
    tty: bool = False
    note: Callable[[str], None] = lambda _: None
    """Is told what the process cannot be told."""


async def execute(
    connection: Connection,
    job: str,
    task: Task,
    command: Sequence[str],
    here: Streams,
    container: str = "",
) -> int:
    """The exit code of the command. Raises NotThereError, RefusedError and what `Connection.send` raises."""
    pod, container = await _target(connection, job, task, container)
    return await in_pod(connection, pod.name, container, command, here, called=str(task))


async def in_pod(
    connection: Connection,
    pod: str,
    container: str,
    command: Sequence[str],
    here: Streams,
    *,
    called: str = "",
) -> int:
    """The same in a pod that is known by its name. Messages call it as they are told. Raises RefusedError, ApiError."""
    request = streams.exec_request(
        connection.namespace,
        pod,
        container,
        tuple(command),
        stdin=here.stdin is not None,
        tty=here.tty,
    )
    async with connection.transport.channels(request, streams.PROTOCOLS) as channels:
        ended = await _converse(channels, here)
    if ended.code is None:
        raise RefusedError(f"{command[0]} could not be run in {called or pod}: {ended.message}")
    return ended.code


async def _target(connection: Connection, job: str, task: Task, container: str) -> tuple[Pod, str]:
    """The pod and the container, which runs."""
    framework = await lookup.find(connection, job)
    choice = TaskSelector(task.role, task.index)
    tasks.require_tasks(framework, choice)
    found = await tasks.list_pods(connection, framework, choice)
    if not found:
        raise NotThereError(f"{task} has no pod: `windlass why {job}` says what became of it")
    pod = found[0]
    name = tasks.require_container(pod, container)
    status = pod.status_of(name)
    if status is not None and status.is_running:
        return pod, name
    raise NotThereError(
        f"{task} does not run{_why_not_running(pod, name)}: there is nothing to run a command in. "
        f"`windlass logs {job} {task}` shows what it wrote."
    )


def _why_not_running(pod: Pod, container: str) -> str:
    status = pod.status_of(container)
    ended = None if status is None else status.state.terminated
    if ended is not None:
        return f", its container {container} ended with {ended.exit_code}"
    reason = tasks.waiting_reason(pod, container)
    return f" yet ({reason})" if reason else " yet"


async def _converse(channels: Channels, here: Streams) -> streams.Ended:
    speaking = [asyncio.create_task(_speak(channels, here))]
    if here.sizes is not None:
        speaking.append(asyncio.create_task(_tell_sizes(channels, here.sizes)))
    try:
        return await _listen(channels, here)
    finally:
        for task in speaking:
            task.cancel()
        await asyncio.gather(*speaking, return_exceptions=True)


async def _listen(channels: Channels, here: Streams) -> streams.Ended:
    """Until the server says how it ended."""
    async for received in channels.messages():
        channel, data = streams.parsed(received)
        match channel:
            case streams.STDOUT:
                here.stdout(data)
            case streams.STDERR:
                here.stderr(data)
            case streams.ERROR if data:
                return streams.ended(data)
    raise UnansweredError("the connection was closed before the server said how the command ended")


async def _speak(channels: Channels, here: Streams) -> None:
    """What cannot be sent any more is lost: the process has ended, which the other direction is about to say."""
    if here.stdin is None:
        return
    with contextlib.suppress(ApiError):
        async for data in here.stdin:
            await channels.send(streams.message(streams.STDIN, data))
        end = streams.end_of_input(channels.protocol)
        if end is not None:
            await channels.send(end)
        else:
            here.note(
                "this cluster cannot tell the command that its input has ended (Kubernetes 1.30 and newer can): "
                "if it waits for that, end it with Ctrl-C"
            )


async def _tell_sizes(channels: Channels, sizes: AsyncIterator[Size]) -> None:
    with contextlib.suppress(ApiError):
        async for size in sizes:
            await channels.send(streams.resized(size))
