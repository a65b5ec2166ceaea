"""Logs, exec, attach and port-forward with a real server, real processes, the official client and aiohttp."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import signal
import socket
import struct
import termios
import threading
import time
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import kubernetes
import kubernetes.stream
import msgspec
import pytest
from aiohttp import web

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.streams import handlers, websockets
from windlass.localcluster.apiserver.streams.requests import LogOptions

_PATIENCE_SECONDS = 60.0
_RUNNING = {"running": {"startedAt": "2024-01-01T00:00:00Z"}}
_ALL_BYTES = bytes(range(256))


class _Process:
    """A process with pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.sizes: list[tuple[int, int]] = []
        self.was_abandoned = False
        self.is_being_written_to = False

    @classmethod
    async def start(cls, command: list[str]) -> "_Process":
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        )

    async def write_stdin(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.is_being_written_to = True
        await self.process.stdin.drain()
        self.is_being_written_to = False

    async def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        pieces: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(maxsize=4)

        async def read(channel: int, reader: asyncio.StreamReader | None) -> None:
            assert reader is not None
            while data := await reader.read(64 * 1024):
                await pieces.put((channel, data))
            await pieces.put((channel, b""))

        async with asyncio.TaskGroup() as group:
            group.create_task(read(websockets.STDOUT, self.process.stdout))
            group.create_task(read(websockets.STDERR, self.process.stderr))
            still_open = 2
            while still_open:
                channel, data = await pieces.get()
                still_open -= not data
                if data:
                    yield channel, data

    async def wait(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def abandon(self) -> None:
        self.was_abandoned = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()


class _Terminal(_Process):
    """A process with a terminal."""

    @classmethod
    async def start(cls, command: list[str]) -> "_Terminal":
        ours, theirs = os.openpty()
        process = cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
            )
        )
        os.close(theirs)
        process.terminal = ours
        return process

    terminal: int

    async def write_stdin(self, data: bytes) -> None:
        os.write(self.terminal, data)

    async def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        await super().resize(width, height)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        with contextlib.suppress(OSError):
            while data := await asyncio.to_thread(os.read, self.terminal, 4096):
                yield websockets.STDOUT, data
        os.close(self.terminal)


class _Runtime:
    """Runs commands on this machine for any pod. The log is in `lines`."""

    def __init__(self) -> None:
        self.processes: list[_Process] = []
        self.attachable: list[str] = ["cat"]
        self.log_requests: list[tuple[str, str, str, LogOptions]] = []
        self.log: list[bytes] = [b"one\n", b"", b"two\n"]
        self.log_failure: Exception | None = None
        self.log_was_closed = threading.Event()

    async def exec(
        self, namespace: str, pod: str, container: str, command: list[str], *, tty: bool, stdin: bool
    ) -> _Process:
        process = await (_Terminal if tty else _Process).start(command)
        self.processes.append(process)
        if not stdin:
            await process.close_stdin()
        return process

    async def attach(self, namespace: str, pod: str, container: str, *, tty: bool, stdin: bool) -> _Process:
        return await self.exec(namespace, pod, container, self.attachable, tty=tty, stdin=stdin)

    async def open_port(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        self.log_requests.append((namespace, pod, container, options))
        return self._lines(options.follow)

    async def _lines(self, follow: bool) -> AsyncGenerator[bytes, None]:
        try:
            for chunk in self.log:
                yield chunk
            if self.log_failure is not None:
                raise self.log_failure
            if follow:
                await asyncio.Event().wait()
        finally:
            self.log_was_closed.set()


def _pod(name: str, *containers: str, node: str = "n1", state: Any = None, **status: Any) -> dict[str, Any]:
    statuses = [{"name": each, "state": _RUNNING if state is None else state} for each in containers]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": each} for each in containers]}
        | ({"nodeName": node} if node else {}),
        "status": {"containerStatuses": statuses, **status},
    }


_PODS = {
    pod["metadata"]["name"]: pod
    for pod in (
        _pod("web", "main"),
        _pod("two", "a", "b"),
        _pod("homeless", "main", node=""),
        _pod("waiting", "main", state={"waiting": {"reason": "ContainerCreating"}}),
        _pod("ended", "main", state={"terminated": {"exitCode": 0}}),
        _pod(
            "crashing",
            "main",
            containerStatuses=[
                {
                    "name": "main",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 1}},
                }
            ],
        ),
    )
}
_SERVED = {
    "log": handlers.serve_log,
    "exec": handlers.serve_exec,
    "attach": handlers.serve_attach,
    "portforward": handlers.serve_port_forward,
}


class _Cluster:
    """A server in its own thread, so that blocking clients can call it."""

    def __init__(self) -> None:
        self.runtime = _Runtime()
        self.has_runtime = True
        self.under_way = 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.site = self.call(self._start())

    async def _start(self) -> web.TCPSite:
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.runner = runner
        return site

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_PATIENCE_SECONDS)

    @property
    def url(self) -> str:
        host, port = self.runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        *_, name, subresource = request.path.split("/")
        self.under_way += 1
        try:
            runtime = self.runtime if self.has_runtime else None
            return await _SERVED[subresource](request, _PODS[name], runtime)
        except api_errors.ApiError as error:
            return web.json_response(error.status(), status=error.code)
        finally:
            self.under_way -= 1

    def is_quiet(self) -> bool:
        """Check that every request was answered, no task is left, and every process has ended."""
        tasks = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks(self.loop)]
        is_idle = self.under_way == 0 and all(name.startswith("RequestHandler.") for name in tasks)
        return is_idle and all(each.process.returncode is not None for each in self.runtime.processes)

    def close(self) -> None:
        try:
            eventually(self.is_quiet)
        finally:
            self.call(self.runner.cleanup())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(_PATIENCE_SECONDS)
            self.loop.close()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Cluster]:
    monkeypatch.setattr(websockets, "HEARTBEAT_SECONDS", 0.05)
    cluster = _Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def core(cluster: _Cluster) -> Iterator[Any]:
    configuration = kubernetes.client.Configuration()
    configuration.host = cluster.url
    with kubernetes.client.ApiClient(configuration) as client:
        yield kubernetes.client.CoreV1Api(client)


def _with_client(cluster: _Cluster, work: Callable[[Callable[..., Any]], Awaitable[Any]]) -> Any:
    """Run `work` with a function that opens a WebSocket to a path below the pods."""

    async def run() -> Any:
        async with aiohttp.ClientSession() as session:

            def connect(path: str, *protocols: str) -> Any:
                url = f"{cluster.url}/api/v1/namespaces/default/pods/{path}"
                return session.ws_connect(url, protocols=protocols, max_msg_size=0)

            return await asyncio.wait_for(work(connect), _PATIENCE_SECONDS)

    return asyncio.run(run())


async def _received(websocket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Return the data on each channel until the server closes."""
    protocol = next(each for each in websockets.REMOTE_COMMAND if each.name == (websocket.protocol or ""))
    channels: dict[int, bytes] = {}
    async for message in websocket:
        decoded = websockets.decode(protocol, message.data)
        assert isinstance(decoded, websockets.Data)
        channels[decoded.channel] = channels.get(decoded.channel, b"") + decoded.data
    assert websocket.close_code == aiohttp.WSCloseCode.OK
    return channels


def _exec(pod: str, *command: str, streams: str = "stdout=1&stderr=1") -> str:
    arguments = "".join(f"&command={urllib.parse.quote(each, safe='')}" for each in command)
    return f"{pod}/exec?{streams}{arguments}"


_SUCCESS = {"metadata": {}, "status": "Success"}


def _failure(code: int) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


@pytest.mark.parametrize("name", [each.name for each in websockets.REMOTE_COMMAND])
def test_each_subprotocol_sends_output_and_exit_code(cluster: _Cluster, name: str) -> None:
    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        path = _exec("web", "sh", "-c", "echo out; echo err >&2; exit 3")
        async with connect(path, *([name] if name else [])) as websocket:
            assert websocket.protocol == (name or None)
            return await _received(websocket)

    said = _with_client(cluster, work)
    assert (said[websockets.STDOUT], said[websockets.STDERR]) == (b"out\n", b"err\n")
    if name.startswith(("v4.", "v5.")):
        assert msgspec.json.decode(said[websockets.ERROR]) == _failure(3)
    else:
        assert said[websockets.ERROR] == b"command terminated with non-zero exit code: exit status 3"


@pytest.mark.parametrize(
    ("streams", "command", "expected"),
    [
        ("stdout=true", "echo out; echo err >&2", {1: b"out\n", 3: _SUCCESS}),
        ("stderr=1", "echo out; echo err >&2", {2: b"err\n", 3: _SUCCESS}),
        ("stdin=1", "exit 7", {3: _failure(7)}),
        ("stdout=1&stderr=0", "kill -9 $$", {1: b"", 3: _failure(137)}),
    ],
)
def test_only_requested_streams_are_sent(
    cluster: _Cluster, streams: str, command: str, expected: dict[int, Any]
) -> None:
    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        async with connect(
            _exec("web", "sh", "-c", command, streams=streams), "v4.channel.k8s.io"
        ) as websocket:
            return await _received(websocket)

    said: dict[int, Any] = _with_client(cluster, work)
    said[3] = msgspec.json.decode(said[3])
    assert said == expected


@pytest.mark.parametrize("name", ["v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"])
def test_input_is_passed_byte_for_byte(cluster: _Cluster, name: str) -> None:
    content = _ALL_BYTES * 16 * 1024
    protocol = next(each for each in websockets.REMOTE_COMMAND if each.name == name)
    path = _exec("web", "head", "-c", str(len(content)), streams="stdin=1&stdout=1")

    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        async with connect(path, name) as websocket:
            receiving = asyncio.ensure_future(_received(websocket))
            for start in range(0, len(content), 100_000):
                message = websockets.encode(protocol, 0, content[start : start + 100_000])
                send = websocket.send_str if isinstance(message, str) else websocket.send_bytes
                await send(message)
            return await receiving

    said = _with_client(cluster, work)
    assert hashlib.sha256(said[1]).digest() == hashlib.sha256(content).digest()
    assert msgspec.json.decode(said[3]) == _SUCCESS


def test_version_5_can_close_stdin(cluster: _Cluster) -> None:
    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        async with connect(_exec("web", "cat", streams="stdin=1&stdout=1"), "v5.channel.k8s.io") as websocket:
            await websocket.send_bytes(b"\x00hello")
            await websocket.send_bytes(b"\xff\x00")
            return await _received(websocket)

    said = _with_client(cluster, work)
    assert said[1] == b"hello"
    assert msgspec.json.decode(said[3]) == _SUCCESS


def test_invalid_messages_are_ignored(cluster: _Cluster) -> None:
    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        path = _exec("web", "cat", streams="stdin=1&stdout=1")
        async with connect(path, "v5.channel.k8s.io") as websocket:
            for message in (b"", b"\x09lost", b"\x04no size", b"\xff", b"\xff\x02", b"\x00kept", b"\xff\x00"):
                await websocket.send_bytes(message)
            return await _received(websocket)

    assert _with_client(cluster, work)[1] == b"kept"


def test_terminal_gets_size_from_client(cluster: _Cluster) -> None:
    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        path = _exec("web", "sh", "-c", "read line; stty size", streams="stdin=1&stdout=1&stderr=1&tty=1")
        async with connect(path, "v4.channel.k8s.io") as websocket:
            await websocket.send_bytes(b'\x04{"Width":123,"Height":45}\n')
            await websocket.send_bytes(b"\x00go\n")
            return await _received(websocket)

    said = _with_client(cluster, work)
    assert said.keys() == {1, 3}
    assert said[1].endswith(b"45 123\r\n")
    assert cluster.runtime.processes[0].sizes == [(123, 45)]


async def _send_until_blocked(websocket: aiohttp.ClientWebSocketResponse, process: _Process) -> None:
    """Send to a process that does not read, until the server blocks."""
    while not process.is_being_written_to:
        await websocket.send_bytes(b"\x00" + b"x" * 65536)


@pytest.mark.parametrize("how", ["closes", "vanishes", "vanishes while its input is stuck"])
@pytest.mark.parametrize("command", ["sleep 1000", "sleep 1000 & sleep 1000", "while :; do echo y; done"])
def test_process_is_killed_when_client_disconnects(cluster: _Cluster, how: str, command: str) -> None:
    async def work(connect: Callable[..., Any]) -> None:
        path = _exec("web", "sh", "-c", command, streams="stdin=1&stdout=1")
        websocket = await connect(path, "v4.channel.k8s.io")
        assert await websocket.receive_bytes() == b"\x01"
        if how == "closes":
            await websocket.close()
            return
        if "stuck" in how:
            await _send_until_blocked(websocket, cluster.runtime.processes[0])
        websocket._response.connection.transport.abort()

    _with_client(cluster, work)
    eventually(lambda: cluster.runtime.processes[0].process.returncode is not None)
    assert cluster.runtime.processes[0].was_abandoned


def test_process_that_stops_reading_continues(cluster: _Cluster, tmp_path: Path) -> None:
    command = f"exec <&-; echo deaf; until [ -e {tmp_path}/sent ]; do sleep 0.01; done; echo done"

    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        path = _exec("web", "sh", "-c", command, streams="stdin=1&stdout=1")
        async with connect(path, "v4.channel.k8s.io") as websocket:
            assert await websocket.receive_bytes() == b"\x01"
            assert await websocket.receive_bytes() == b"\x01deaf\n"
            for _ in range(8):
                await websocket.send_bytes(b"\x00" + b"x" * 65536)
            (tmp_path / "sent").touch()
            return await _received(websocket)

    assert _with_client(cluster, work)[1] == b"done\n"


def test_start_failure_is_sent_on_error_channel(cluster: _Cluster) -> None:
    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        async with connect(_exec("web", "no-such-command"), "v4.channel.k8s.io") as websocket:
            return await _received(websocket)

    status = msgspec.json.decode(_with_client(cluster, work)[3])
    assert status["message"].startswith("Internal error occurred: error executing command in container: ")
    assert "no-such-command" in status["message"]
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "InternalError", 500)


def test_attach_sends_no_exit_code(cluster: _Cluster) -> None:
    cluster.runtime.attachable = ["sh", "-c", "read line; echo got $line; exit 5"]

    async def work(connect: Callable[..., Any]) -> dict[int, bytes]:
        async with connect("two/attach?container=b&stdin=1&stdout=1", "v4.channel.k8s.io") as websocket:
            await websocket.send_bytes(b"\x00it\n")
            return await _received(websocket)

    said = _with_client(cluster, work)
    assert said[1] == b"got it\n"
    assert msgspec.json.decode(said[3]) == _SUCCESS


def test_official_client_reads_text(core: Any) -> None:
    command = ["sh", "-c", "printf 'zwölf\\n'; echo oops >&2"]
    out = kubernetes.stream.stream(
        core.connect_get_namespaced_pod_exec, "web", "default", command=command, stdout=True, stderr=True
    )
    assert sorted(out.splitlines()) == ["oops", "zwölf"]


@pytest.mark.parametrize("code", [0, 1, 42])
def test_official_client_gets_exit_code(core: Any, code: int) -> None:
    process = kubernetes.stream.stream(
        core.connect_get_namespaced_pod_exec,
        "web",
        "default",
        command=["sh", "-c", f"cat; exit {code}"],
        stdin=True,
        stdout=True,
        binary=True,
        _preload_content=False,
    )
    process.write_stdin(_ALL_BYTES)
    process.close_channel(websockets.STDIN)
    process.run_forever(timeout=_PATIENCE_SECONDS)
    # In this order: reading everything discards the exit code.
    assert process.returncode == code
    assert process.read_all() == _ALL_BYTES


class _Echo:
    """A TCP server that echoes its input, and says goodbye on `end`."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.has_lost_client = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self.listener.accept()
            with client:
                while (data := client.recv(65536)) and data != b"end":
                    client.sendall(data)
                client.sendall(b"bye" if data else b"")
            self.has_lost_client.set()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(_PATIENCE_SECONDS)


@pytest.fixture
def echoes() -> Iterator[tuple[_Echo, _Echo]]:
    pair = _Echo(), _Echo()
    yield pair
    for each in pair:
        each.close()


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_ports_are_forwarded_in_parallel(cluster: _Cluster, echoes: tuple[_Echo, _Echo]) -> None:
    first, second = (echo.port for echo in echoes)
    content = _ALL_BYTES * 4096

    async def work(connect: Callable[..., Any]) -> list[bytes]:
        path = f"web/portforward?ports={first}&ports={second}"
        async with connect(path, "SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io") as websocket:
            announced = [await websocket.receive_bytes() for _ in range(4)]
            await websocket.send_bytes(b"\x00" + content)
            await websocket.send_bytes(b"\x02hello")
            got = {0: b"", 2: b""}
            while len(got[0]) < len(content) or len(got[2]) < 5:
                message = await websocket.receive_bytes()
                got[message[0]] += message[1:]
            assert (got[0], got[2]) == (content, b"hello")
            await websocket.send_bytes(b"\x00end")
            await websocket.send_bytes(b"\x02end")
            rest = sorted([message.data async for message in websocket])
            return [*announced, *rest]

    low, high = struct.pack("<H", first), struct.pack("<H", second)
    assert _with_client(cluster, work) == [
        *(b"\x00" + low, b"\x01" + low, b"\x02" + high, b"\x03" + high),
        *(b"\x00bye", b"\x02bye"),
    ]


def test_forwarded_connection_closes_with_client(cluster: _Cluster, echoes: tuple[_Echo, _Echo]) -> None:
    async def work(connect: Callable[..., Any]) -> None:
        websocket = await connect(f"web/portforward?ports={echoes[0].port}")
        await websocket.receive_bytes()
        websocket._response.connection.transport.abort()

    _with_client(cluster, work)
    assert echoes[0].has_lost_client.wait(_PATIENCE_SECONDS)


def test_official_client_forwards_ports(core: Any, echoes: tuple[_Echo, _Echo]) -> None:
    good, bad = echoes[0].port, _closed_port()
    forward = kubernetes.stream.portforward(
        core.connect_get_namespaced_pod_portforward, "web", "default", ports=f"{good},{bad}"
    )
    with contextlib.closing(forward.socket(good)) as connection:
        connection.setblocking(True)
        connection.sendall(b"hello")
        assert connection.recv(5) == b"hello"
        eventually(lambda: forward.error(bad) is not None)
    assert forward.error(bad).startswith(f"error forwarding port {bad} to pod web, uid uid-web: ")
    assert forward.error(good) is None


def _get(cluster: _Cluster, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    async def fetch() -> tuple[int, bytes]:
        url = f"{cluster.url}/api/v1/namespaces/default/pods/{path}"
        timeout = aiohttp.ClientTimeout(total=_PATIENCE_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers) as answer,
        ):
            return answer.status, await answer.read()

    return asyncio.run(fetch())


_WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
_NO_SPDY = "SPDY/3.1 is not supported: this server streams over WebSocket only, e.g. with "
_NO_TUNNEL = "requested protocol(s) are not supported: [SPDY/3.1+portforward.k8s.io]; supports "
_SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


@pytest.mark.parametrize(
    ("path", "headers", "code", "message"),
    [
        ("two/log", {}, 400, "a container name must be specified for pod two, choose one of: [a b]"),
        ("waiting/log", {}, 400, 'container "main" in pod "waiting" is waiting to start: ContainerCreating'),
        ("web/log?tailLines=x", {}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("homeless/exec?stdout=1&command=x", {}, 400, "pod homeless does not have a host assigned"),
        ("homeless/attach?stdout=1", {}, 400, "pod homeless does not have a host assigned"),
        ("homeless/portforward?ports=80", {}, 400, "pod homeless does not have a host assigned"),
        ("web/exec?stdout=1&command=x", {}, 400, "Upgrade request required"),
        ("web/attach?stdout=1", {}, 400, "Upgrade request required"),
        ("web/portforward?ports=80", {}, 400, "Upgrade request required"),
        ("waiting/exec?stdout=1&command=x", _SPDY, 500, 'container not found ("main")'),
        ("ended/attach?stdout=1", _WEBSOCKET, 500, 'container not found ("main")'),
        ("web/exec?command=x", _WEBSOCKET, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("web/exec?stdout=1", _WEBSOCKET, 400, 'query parameter "command" is required'),
        ("web/portforward", _WEBSOCKET, 400, 'query parameter "ports" is required'),
        ("web/exec?stdout=1&command=x", _SPDY, 400, _NO_SPDY + "v5.channel.k8s.io"),
        # As kubectl does: first through a tunnel, then without, and never with ports.
        ("web/portforward", _SPDY, 400, _NO_SPDY + "v4.channel.k8s.io"),
        (
            "web/portforward",
            _WEBSOCKET | {"Sec-WebSocket-Protocol": "SPDY/3.1+portforward.k8s.io"},
            400,
            _NO_TUNNEL + "[v4.channel.k8s.io v4.base64.channel.k8s.io]",
        ),
    ],
)
def test_invalid_requests_are_rejected(
    cluster: _Cluster, path: str, headers: dict[str, str], code: int, message: str
) -> None:
    status, body = _get(cluster, path, headers)
    said = msgspec.json.decode(body)
    assert (status, said["code"], said["message"]) == (code, code, message)
    assert not cluster.runtime.processes


@pytest.mark.parametrize(
    "path", ["web/log", "web/exec?stdout=1&command=x", "web/attach?stdout=1", "web/portforward?ports=80"]
)
def test_server_without_pods_is_unavailable(cluster: _Cluster, path: str) -> None:
    cluster.has_runtime = False
    status, body = _get(cluster, path, {} if path == "web/log" else _WEBSOCKET)
    assert (status, msgspec.json.decode(body)["reason"]) == (503, "ServiceUnavailable")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("web/log", (200, b"one\ntwo\n")),
        ("web/log?limitBytes=5", (200, b"one\nt")),
        ("web/log?limitBytes=4&follow=1", (200, b"one\n")),
        ("web/log?limitBytes=100", (200, b"one\ntwo\n")),
        ("two/log?container=b", (200, b"one\ntwo\n")),
        ("ended/log", (200, b"one\ntwo\n")),
        ("crashing/log", (200, b"one\ntwo\n")),
        ("crashing/log?previous=true", (200, b"one\ntwo\n")),
        ("homeless/log", (204, b"")),
    ],
)
def test_logs(cluster: _Cluster, path: str, expected: tuple[int, bytes]) -> None:
    assert _get(cluster, path) == expected


def test_official_client_reads_logs(cluster: _Cluster, core: Any) -> None:
    said = core.read_namespaced_pod_log(
        "two", "default", container="a", tail_lines=7, since_seconds=60, timestamps=True, limit_bytes=100
    )
    assert said == "one\ntwo\n"
    options = LogOptions(tail_lines=7, since_seconds=60, timestamps=True, limit_bytes=100)
    assert cluster.runtime.log_requests == [("default", "two", "a", options)]


def test_interrupted_log_is_reported_as_incomplete(cluster: _Cluster) -> None:
    cluster.runtime.log_failure = OSError("the disk is gone")
    with pytest.raises(aiohttp.ClientPayloadError):
        _get(cluster, "web/log")


def test_silent_log_ends_when_client_disconnects(cluster: _Cluster, core: Any) -> None:
    response = core.read_namespaced_pod_log("web", "default", follow=True, _preload_content=False)
    assert response.read(8) == b"one\ntwo\n"
    assert not cluster.runtime.log_was_closed.is_set()
    response.close()
    assert cluster.runtime.log_was_closed.wait(_PATIENCE_SECONDS)
