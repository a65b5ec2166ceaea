"""Logs, exec, attach and port-forward (the streaming proxy of kube-apiserver and kubelet).

A `PodRuntime` provides the streams. `requests` parses requests, and `websockets` has the protocol. SPDY/3.1 is not
supported.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from aiohttp import web

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.printing.accessors import Object
from windlass.localcluster.apiserver.streams import requests, websockets
from windlass.localcluster.apiserver.streams.requests import LogOptions, Streams
from windlass.localcluster.apiserver.streams.websockets import Connection

_CHUNK_BYTES = 64 * 1024


class Process(Protocol):
    """A process that was started for a client or to which a client is attached."""

    async def write_stdin(self, data: bytes) -> None:
        """Write to stdin. Wait while its buffer is full. Raises OSError if the process no longer reads."""
        ...

    async def close_stdin(self) -> None: ...

    async def resize(self, width: int, height: int) -> None: ...

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (`websockets.STDOUT` or `STDERR`, chunk of about 64 KiB at most) until both streams are closed."""
        ...

    async def wait(self) -> int:
        """Return the exit code: 128 + n after signal n; 0 for an attached process."""
        ...

    async def abandon(self) -> None:
        """Handle a disconnected client: kill a process that was started for it, detach from any other."""
        ...


class PodRuntime(Protocol):
    """Runs the containers of pods. The methods raise ApiError or OSError on failure."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        """Return the chunks of a log. The caller closes the generator (`aclose`), also when the client disconnects."""
        ...

    async def exec(
        self, namespace: str, pod: str, container: str, command: list[str], *, tty: bool, stdin: bool
    ) -> Process: ...

    async def attach(
        self, namespace: str, pod: str, container: str, *, tty: bool, stdin: bool
    ) -> Process: ...

    async def open_port(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...


async def serve_log(request: web.BaseRequest, pod: Object, runtime: PodRuntime | None) -> web.StreamResponse:
    name = pod["metadata"]["name"]
    options = requests.log_options(request.query, name)
    container = requests.container_name(pod, request.query.get("container", ""))
    if not requests.is_scheduled(pod):
        return web.Response(status=204)
    requests.require_log(pod, container, previous=options.previous)
    return await _respond_with_log(request, runtime, (pod["metadata"]["namespace"], name, container), options)


async def serve_log_of_deleted(
    request: web.BaseRequest, namespace: str, name: str, runtime: PodRuntime | None
) -> web.StreamResponse:
    """Respond with the log of a pod that is deleted, which the parameter `uid` selects."""
    target = namespace, name, request.query.get("container", "")
    return await _respond_with_log(request, runtime, target, requests.log_options(request.query, name))


async def _respond_with_log(
    request: web.BaseRequest,
    runtime: PodRuntime | None,
    target: tuple[str, str, str],
    options: LogOptions,
) -> web.StreamResponse:
    try:
        chunks = await _require_runtime(runtime).logs(*target, options)
    except OSError as error:
        raise api_errors.internal(str(error)) from error
    async with contextlib.aclosing(chunks):
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await _send_log(request, response, chunks, options.limit_bytes)
    return response


async def _send_log(
    request: web.BaseRequest,
    response: web.StreamResponse,
    chunks: AsyncGenerator[bytes, None],
    limit: int | None,
) -> None:
    remaining = limit
    try:
        async with contextlib.aclosing(_while_connected(request, chunks)) as pieces:
            async for chunk in pieces:
                await response.write(chunk[:remaining])
                remaining = None if remaining is None else max(remaining - len(chunk), 0)
                if remaining == 0:
                    break
        await response.write_eof()
    except (OSError, api_errors.ApiError):
        # Close the connection without a final chunk, so that the client notices that the log is incomplete.
        if request.transport is not None:
            request.transport.close()


async def _while_connected(
    request: web.BaseRequest, chunks: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks until the log ends or the client disconnects.

    A disconnect is detected even if the log has no new lines.
    """
    while True:
        next_chunk = asyncio.ensure_future(_next(chunks))
        try:
            while not next_chunk.done():
                await asyncio.wait({next_chunk}, timeout=websockets.HEARTBEAT_SECONDS)
                if request.transport is None or request.transport.is_closing():
                    return
        finally:
            await websockets.cancel_and_wait([next_chunk])
        chunk = next_chunk.result()
        if chunk is None:
            return
        if chunk:
            yield chunk


async def _next(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(chunks, None)


async def serve_exec(request: web.BaseRequest, pod: Object, runtime: PodRuntime | None) -> web.StreamResponse:
    return await _serve_process(request, pod, runtime, is_exec=True)


async def serve_attach(
    request: web.BaseRequest, pod: Object, runtime: PodRuntime | None
) -> web.StreamResponse:
    return await _serve_process(request, pod, runtime, is_exec=False)


def _require_runtime(runtime: PodRuntime | None) -> PodRuntime:
    if runtime is None:
        message = "the kubelet of this server has not started: there is nothing to stream from"
        raise api_errors.ApiError(503, "ServiceUnavailable", message)
    return runtime


async def _serve_process(
    request: web.BaseRequest, pod: Object, runtime: PodRuntime | None, *, is_exec: bool
) -> web.StreamResponse:
    """Start or attach to a process, then copy the streams until the process ends or the client disconnects."""
    container = requests.container_name(pod, request.query.get("container", ""))
    requests.require_scheduled(pod)
    websockets.require_upgrade(request)
    requests.require_running(pod, container)
    streams = requests.streams(request.query)
    command = request.query.getall("command", [])
    if is_exec and not command:
        raise api_errors.bad_request('query parameter "command" is required')
    runtime = _require_runtime(runtime)
    protocol = websockets.negotiate(request, websockets.REMOTE_COMMAND)
    connection = await websockets.accept(request, protocol)
    target = pod["metadata"]["namespace"], pod["metadata"]["name"], container
    with contextlib.suppress(ConnectionError):
        try:
            if is_exec:
                process = await runtime.exec(*target, command, tty=streams.tty, stdin=streams.stdin)
            else:
                process = await runtime.attach(*target, tty=streams.tty, stdin=streams.stdin)
        except (OSError, api_errors.ApiError) as error:
            failure = "error executing command in container" if is_exec else "error attaching to container"
            message = websockets.failure_status(protocol, f"{failure}: {error}")
            await connection.send(websockets.ERROR, message)
        else:
            code = await _copy_streams(connection, streams, process)
            # An attached client does not receive the exit code.
            status = websockets.exit_status(protocol, code if is_exec else 0)
            if status is not None:
                await connection.send(websockets.ERROR, status)
        await connection.websocket.close()
    return connection.websocket


async def _copy_streams(connection: Connection, streams: Streams, process: Process) -> int:
    """Copy input and output until the process ends, and return its exit code.

    Raises ConnectionError if the client disconnects before the process ends.
    """
    sending = asyncio.ensure_future(_send_output(connection, streams, process))
    receiving = asyncio.ensure_future(_receive_input(connection, streams, process))
    pinging = asyncio.ensure_future(connection.ping_until_disconnected())
    code = None
    try:
        await websockets.wait_first_and_cancel(sending, receiving, pinging)
        code = None if sending.cancelled() or sending.exception() else sending.result()
    finally:
        if code is None:
            await process.abandon()
    if code is None:
        raise ConnectionResetError
    return code


async def _send_output(connection: Connection, streams: Streams, process: Process) -> int:
    channels = ((websockets.STDOUT, streams.stdout), (websockets.STDERR, streams.stderr))
    open_channels = {channel for channel, is_requested in channels if is_requested}
    # An empty message signals that the connection is established.
    await connection.send(min(open_channels, default=websockets.ERROR), b"")
    async for channel, data in process.output():
        if channel in open_channels:
            await connection.send(channel, data)
    return await process.wait()


async def _receive_input(connection: Connection, streams: Streams, process: Process) -> None:
    async for message in connection.messages():
        # Input for a process that no longer reads is discarded.
        with contextlib.suppress(OSError):
            match message:
                case websockets.Data(channel=websockets.STDIN, data=data) if streams.stdin:
                    await process.write_stdin(data)
                case websockets.Closed(channel=websockets.STDIN) if streams.stdin:
                    await process.close_stdin()
                case websockets.Data(channel=websockets.RESIZE, data=data):
                    size = websockets.parse_size(data)
                    if size is not None:
                        await process.resize(size.width, size.height)


async def serve_port_forward(
    request: web.BaseRequest, pod: Object, runtime: PodRuntime | None
) -> web.StreamResponse:
    requests.require_scheduled(pod)
    websockets.require_upgrade(request)
    runtime = _require_runtime(runtime)
    protocol = websockets.negotiate(request, websockets.PORT_FORWARD)
    ports = requests.ports(request.query.getall("ports", []))
    connection = await websockets.accept(request, protocol)
    open_ports: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
    try:
        with contextlib.suppress(ConnectionError):
            for index, port in enumerate(ports):
                await _open_port(connection, pod, runtime, 2 * index, port, open_ports)
            await _forward(connection, open_ports)
            await connection.websocket.close()
    finally:
        for _, writer in open_ports.values():
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return connection.websocket


async def _open_port(
    connection: Connection,
    pod: Object,
    runtime: PodRuntime,
    channel: int,
    port: int,
    open_ports: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]],
) -> None:
    """Open a port, which has two channels: one for data and one for errors."""
    metadata = pod["metadata"]
    for each in (channel, channel + 1):
        await connection.send(each, websockets.port_announcement(port))
    try:
        open_ports[channel] = await runtime.open_port(metadata["namespace"], metadata["name"], port)
    except (OSError, api_errors.ApiError) as error:
        subject = f"port {port} to pod {metadata['name']}, uid {metadata.get('uid', '')}"
        await connection.send(channel + 1, f"error forwarding {subject}: {error}".encode())


async def _forward(
    connection: Connection, open_ports: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]]
) -> None:
    """Copy data until the pod has closed every port or the client disconnects."""
    sending = asyncio.gather(
        *(_send_port_data(connection, channel, reader) for channel, (reader, _) in open_ports.items())
    )
    writers = {channel: writer for channel, (_, writer) in open_ports.items()}
    receiving = asyncio.ensure_future(_receive_port_data(connection, writers))
    pinging = asyncio.ensure_future(connection.ping_until_disconnected())
    await websockets.wait_first_and_cancel(sending, receiving, pinging)


async def _send_port_data(connection: Connection, channel: int, reader: asyncio.StreamReader) -> None:
    while True:
        try:
            data = await reader.read(_CHUNK_BYTES)
        except OSError as error:
            await connection.send(channel + 1, str(error).encode())
            return
        if not data:
            return
        await connection.send(channel, data)


async def _receive_port_data(connection: Connection, writers: dict[int, asyncio.StreamWriter]) -> None:
    async for message in connection.messages():
        if not isinstance(message, websockets.Data) or message.channel not in writers:
            continue
        with contextlib.suppress(OSError):
            writers[message.channel].write(message.data)
            await writers[message.channel].drain()
