"""Logs, exec, attach and port-forward of pods: the server's side of them, over whatever runs the pods.

What runs the pods is a `PodRuntime`; nothing here starts a process. What a request means is in `stream_requests`, what a
message on a WebSocket means in `websockets`. SPDY/3.1 is not spoken.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Protocol

from aiohttp import WSMsgType, web

from windlass.localcluster import failures, stream_requests, websockets
from windlass.localcluster.peeks import Object
from windlass.localcluster.stream_requests import LogOptions, Streams
from windlass.localcluster.websockets import Subprotocol

# As large as what Kubernetes takes in one message.
_MOST_MESSAGE_BYTES = 32 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
# How soon a client that has gone is noticed when there is nothing to tell it.
_HEARTBEAT_SECONDS = 5.0


class Process(Protocol):
    """One that was started for a client, or that a client was attached to."""

    async def write_stdin(self, data: bytes) -> None:
        """Returns when there is room for more. Raises OSError when nobody reads it any more."""
        ...

    async def close_stdin(self) -> None: ...

    async def resize(self, width: int, height: int) -> None: ...

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Pieces of at most some 64 KiB with `websockets.STDOUT` or `STDERR`, until there will be no more."""
        ...

    async def wait(self) -> int:
        """The exit code; 128 + n for one that signal n ended."""
        ...

    async def abandon(self) -> None:
        """The client has gone: kill what was started for it; only let go of what it was attached to."""
        ...


class PodRuntime(Protocol):
    """Runs the containers of pods. What it cannot do it refuses with an ApiError or an OSError."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        """Closed (`aclose`) when the client has gone."""
        ...

    async def exec(  # noqa: PLR0913
        self, namespace: str, pod: str, container: str, command: list[str], *, tty: bool, stdin: bool
    ) -> Process: ...

    async def attach(self, namespace: str, pod: str, container: str, *, tty: bool, stdin: bool) -> Process: ...

    async def open_port(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...


async def serve_log(request: web.BaseRequest, pod: Object, runtime: PodRuntime | None) -> web.StreamResponse:
    name = pod["metadata"]["name"]
    options = stream_requests.log_options(request.query, name)
    container = stream_requests.container(pod, request.query.get("container", ""))
    if not stream_requests.is_scheduled(pod):
        return web.Response(status=204)
    stream_requests.require_log(pod, container, previous=options.previous)
    try:
        chunks = await _present(runtime).logs(pod["metadata"]["namespace"], name, container, options)
    except OSError as error:
        raise failures.internal(str(error)) from error
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
    left = limit
    with contextlib.suppress(ConnectionError):
        async with contextlib.aclosing(_while_connected(request, chunks)) as pieces:
            async for chunk in pieces:
                await response.write(chunk[:left])
                left = None if left is None else left - len(chunk)
                if left is not None and left <= 0:
                    break
        await response.write_eof()


async def _while_connected(
    request: web.BaseRequest, chunks: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """The same chunks, but not beyond the connection: a quiet log would be followed for ever."""
    while True:
        coming = asyncio.ensure_future(_next(chunks))
        try:
            while not coming.done():
                await asyncio.wait({coming}, timeout=_HEARTBEAT_SECONDS)
                if request.transport is None or request.transport.is_closing():
                    return
        finally:
            await _stop([coming])
        chunk = coming.result()
        if chunk is None:
            return
        yield chunk


async def _next(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(chunks, None)


async def serve_exec(request: web.BaseRequest, pod: Object, runtime: PodRuntime | None) -> web.StreamResponse:
    namespace, name, container = _running_container(request, pod)
    wanted = stream_requests.streams(request.query)
    command = request.query.getall("command", [])
    if not command:
        raise failures.bad_request('query parameter "command" is required')
    live, protocol = _present(runtime), _negotiated(request, websockets.REMOTE_COMMAND)

    async def start() -> Process:
        return await live.exec(namespace, name, container, command, tty=wanted.tty, stdin=wanted.stdin)

    return await _serve_process(request, protocol, wanted, start, "error executing command in container")


async def serve_attach(
    request: web.BaseRequest, pod: Object, runtime: PodRuntime | None
) -> web.StreamResponse:
    namespace, name, container = _running_container(request, pod)
    wanted = stream_requests.streams(request.query)
    live, protocol = _present(runtime), _negotiated(request, websockets.REMOTE_COMMAND)

    async def start() -> Process:
        return await live.attach(namespace, name, container, tty=wanted.tty, stdin=wanted.stdin)

    return await _serve_process(
        request, protocol, wanted, start, "error attaching to container", tells_exit_code=False
    )


def _running_container(request: web.BaseRequest, pod: Object) -> tuple[str, str, str]:
    container = stream_requests.container(pod, request.query.get("container", ""))
    stream_requests.require_scheduled(pod)
    _require_upgrade(request)
    stream_requests.require_running(pod, container)
    return pod["metadata"]["namespace"], pod["metadata"]["name"], container


def _present(runtime: PodRuntime | None) -> PodRuntime:
    if runtime is None:
        message = "this server runs no pods: there is nothing to stream from"
        raise failures.ApiError(503, "ServiceUnavailable", message)
    return runtime


def _require_upgrade(request: web.BaseRequest) -> None:
    if "upgrade" not in request.headers.get("Connection", "").lower():
        raise failures.bad_request("Upgrade request required")


def _negotiated(request: web.BaseRequest, offered: tuple[Subprotocol, ...]) -> Subprotocol:
    """Comes after all other refusals: a client that falls back to SPDY shall hear those, not this one."""
    upgrade = request.headers.get("Upgrade", "")
    if upgrade.lower() != "websocket":
        known = ", ".join(each.name for each in offered if each.name)
        raise failures.bad_request(
            f"this server streams over WebSocket only ({known}), not over {upgrade}: use a client that can"
        )
    asked = request.headers.getall("Sec-WebSocket-Protocol", [])
    return websockets.negotiated([name for line in asked for name in line.split(",")], offered)


async def _accept(request: web.BaseRequest, protocol: Subprotocol) -> web.WebSocketResponse:
    websocket = web.WebSocketResponse(
        protocols=(protocol.name,) if protocol.name else (), max_msg_size=_MOST_MESSAGE_BYTES, compress=False
    )
    await websocket.prepare(request)
    return websocket


async def _serve_process(
    request: web.BaseRequest,
    protocol: Subprotocol,
    wanted: Streams,
    start: Callable[[], Awaitable[Process]],
    failure: str,
    *,
    tells_exit_code: bool = True,
) -> web.WebSocketResponse:
    websocket = await _accept(request, protocol)
    with contextlib.suppress(ConnectionError):
        try:
            process = await start()
        except (OSError, failures.ApiError) as error:
            message = websockets.failure_status(protocol, f"{failure}: {error}")
            await _send(websocket, protocol, websockets.ERROR, message)
        else:
            code = await _converse(websocket, protocol, wanted, process)
            if code is not None:
                status = websockets.exit_status(protocol, code if tells_exit_code else 0)
                await _send(websocket, protocol, websockets.ERROR, status)
        await websocket.close()
    return websocket


async def _converse(
    websocket: web.WebSocketResponse, protocol: Subprotocol, wanted: Streams, process: Process
) -> int | None:
    """Both ways at once, until the process ends (its exit code) or the client goes (None)."""
    speaking = asyncio.ensure_future(_speak(websocket, protocol, wanted, process))
    others = [
        asyncio.ensure_future(_listen(websocket, protocol, wanted, process)),
        asyncio.ensure_future(_notice_absence(websocket)),
    ]
    try:
        await asyncio.wait([speaking, *others], return_when=asyncio.FIRST_COMPLETED)
    finally:
        has_ended = speaking.done() and not speaking.cancelled() and speaking.exception() is None
        await _stop([speaking, *others])
        if not has_ended:
            await process.abandon()
    return speaking.result() if has_ended else _raise_unless_gone([speaking, *others])


def _raise_unless_gone(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """An end of the connection is no error; anything else that stopped a task is."""
    for task in tasks:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ConnectionError):
            raise error


async def _speak(
    websocket: web.WebSocketResponse, protocol: Subprotocol, wanted: Streams, process: Process
) -> int:
    open_channels = {
        channel
        for channel, is_wanted in ((websockets.STDOUT, wanted.stdout), (websockets.STDERR, wanted.stderr))
        if is_wanted
    }
    # An empty message tells the client that it is connected.
    await _send(websocket, protocol, min(open_channels, default=websockets.ERROR), b"")
    async for channel, data in process.output():
        if channel in open_channels:
            await _send(websocket, protocol, channel, data)
    return await process.wait()


async def _listen(
    websocket: web.WebSocketResponse, protocol: Subprotocol, wanted: Streams, process: Process
) -> None:
    async for message in _messages(websocket, protocol):
        # A process that no longer reads its stdin goes on; what is sent to it is lost.
        with contextlib.suppress(OSError):
            match message:
                case websockets.Data(channel=websockets.STDIN, data=data) if wanted.stdin:
                    await process.write_stdin(data)
                case websockets.Closed(channel=websockets.STDIN) if wanted.stdin:
                    await process.close_stdin()
                case websockets.Data(channel=websockets.RESIZE, data=data):
                    size = websockets.size(data)
                    if size is not None:
                        await process.resize(size.width, size.height)


async def _messages(
    websocket: web.WebSocketResponse, protocol: Subprotocol
) -> AsyncIterator[websockets.Data | websockets.Closed]:
    """Until the client closes the connection or loses it."""
    async for message in websocket:
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            continue
        decoded = websockets.decode(protocol, message.data)
        if decoded is not None:
            yield decoded


async def _notice_absence(websocket: web.WebSocketResponse) -> None:
    """Ends with a ConnectionError when the client has gone, even while nobody reads or writes."""
    while True:
        await asyncio.sleep(_HEARTBEAT_SECONDS)
        await websocket.ping()


async def _send(
    websocket: web.WebSocketResponse, protocol: Subprotocol, channel: int, data: bytes | None
) -> None:
    if data is None:
        return
    message = websockets.encode(protocol, channel, data)
    if isinstance(message, str):
        await websocket.send_str(message)
    else:
        await websocket.send_bytes(message)


async def _stop(tasks: Iterable[asyncio.Future[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def serve_port_forward(
    request: web.BaseRequest, pod: Object, runtime: PodRuntime | None
) -> web.StreamResponse:
    stream_requests.require_scheduled(pod)
    _require_upgrade(request)
    live, protocol = _present(runtime), _negotiated(request, websockets.PORT_FORWARD)
    forwarding = _Forwarding(pod, live, protocol, stream_requests.ports(request.query.getall("ports", [])))
    return await forwarding.serve(request)
