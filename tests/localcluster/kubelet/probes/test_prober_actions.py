"""Single probes and their results, against real servers. A slow server never answers."""

import asyncio
import contextlib
import errno
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.apiserver import credentials
from windlass.localcluster.kubelet.probes import prober
from windlass.localcluster.kubelet.probes.schedule import Outcome

Json = dict[str, Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
POD: Json = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
    "spec": {"containers": []},
    "status": {"podIP": "127.0.0.1"},
}
CONTAINER: Json = {
    "name": "main",
    "ports": [{"name": "web", "containerPort": 8080}],
    "env": [{"name": "FILE", "value": "/healthy"}, {"name": "SECRET", "valueFrom": {}}],
}
# Of those that are to succeed, however slow the machine.
PATIENCE = 60


class FakeWay:
    """Returns prepared results and records the calls."""

    def __init__(self, **answers: Callable[[], Awaitable[Any]]) -> None:
        self._answers = answers
        self.asked: list[tuple[Any, ...]] = []

    async def exec(self, argv: Sequence[str], timeout: float) -> tuple[int, bytes]:
        self.asked.append((*argv, timeout))
        code, output = await self._answers["exec"]()
        return code, output

    async def connect(self, host: str, port: int) -> Streams:
        self.asked.append((host, port))
        reader, writer = await self._answers["connect"]()
        return reader, writer


def gives(value: Any) -> Callable[[], Awaitable[Any]]:
    async def give() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return give


async def never() -> Any:
    await asyncio.Event().wait()


def performed(way: FakeWay, **spec: Any) -> tuple[Outcome, str]:
    return asyncio.run(prober.perform(spec, CONTAINER, POD, way))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (gives((0, b"fine\n")), (Outcome.SUCCESS, "fine\n")),
        (gives((1, b"cat: /healthy: No such file\n")), (Outcome.FAILURE, "cat: /healthy: No such file\n")),
        (gives((137, b"\xff")), (Outcome.FAILURE, "�")),
        (gives((1, b"x" * 20_000)), (Outcome.FAILURE, "x" * 10_240)),
        (gives(OSError('exec: "cat": not found')), (Outcome.ERROR, 'exec: "cat": not found')),
        (gives(OSError(errno.ENOENT, "x")), (Outcome.ERROR, "no such file or directory")),
        (
            gives(TimeoutError()),
            (Outcome.FAILURE, 'command timed out: "cat /healthy" timed out after 1s'),
        ),
        (never, (Outcome.FAILURE, 'command timed out: "cat /healthy" timed out after 1s')),
    ],
)
def test_exec_probe_result(
    answer: Callable[[], Awaitable[Any]], expected: tuple[Outcome, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prober, "SECONDS_TO_KILL", 0)
    way = FakeWay(exec=answer)
    assert performed(way, exec={"command": ["cat", "$(FILE)"]}) == expected
    assert way.asked == [("cat", "/healthy", 1.0)]


@pytest.mark.parametrize(
    ("word", "expanded"),
    [("$(FILE)", "/healthy"), ("$(SECRET)", ""), ("$(OTHER)", "$(OTHER)"), ("$$(FILE)", "$(FILE)")],
)
def test_exec_probe_expands_literal_variables_only(word: str, expanded: str) -> None:
    way = FakeWay(exec=gives((0, b"")))
    performed(way, exec={"command": [word]}, timeoutSeconds=7)
    assert way.asked == [(expanded, 7.0)]


@pytest.mark.parametrize(
    ("spec", "answer", "expected"),
    [
        (
            {"tcpSocket": {"port": 80}},
            gives(ConnectionRefusedError(errno.ECONNREFUSED, "x")),
            (Outcome.FAILURE, "dial tcp 127.0.0.1:80: connect: connection refused"),
        ),
        (
            {"tcpSocket": {"port": "web", "host": "fd00::1"}},
            gives(OSError(errno.EHOSTUNREACH, "x")),
            (Outcome.FAILURE, "dial tcp [fd00::1]:8080: connect: no route to host"),
        ),
        (
            {"tcpSocket": {"port": 80}},
            gives(OSError("refused by the supervisor")),
            (Outcome.FAILURE, "dial tcp 127.0.0.1:80: connect: refused by the supervisor"),
        ),
        (
            {"tcpSocket": {"port": 80}},
            never,
            (Outcome.FAILURE, "dial tcp 127.0.0.1:80: i/o timeout"),
        ),
        (
            {"httpGet": {"port": 80, "path": "/healthz?a=1"}},
            gives(ConnectionRefusedError(errno.ECONNREFUSED, "x")),
            (
                Outcome.FAILURE,
                'Get "http://127.0.0.1:80/healthz?a=1": dial tcp 127.0.0.1:80: connect: connection refused',
            ),
        ),
        (
            {"httpGet": {"port": 443, "scheme": "HTTPS"}},
            never,
            (Outcome.FAILURE, 'Get "https://127.0.0.1:443/": dial tcp 127.0.0.1:443: i/o timeout'),
        ),
    ],
)
def test_failed_connection_message(
    spec: Json, answer: Callable[[], Awaitable[Any]], expected: tuple[Outcome, str]
) -> None:
    assert performed(FakeWay(connect=answer), **spec) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"tcpSocket": {"port": "metrics"}}, 'port "metrics" not found'),
        ({"httpGet": {"port": "80"}}, 'port "80" not found'),
        ({"httpGet": {"port": 0}}, "invalid port number: 0"),
        ({"tcpSocket": {"port": 65536}}, "invalid port number: 65536"),
        (
            {"grpc": {"port": 80}},
            "gRPC probes are not supported on this cluster: use exec, httpGet or tcpSocket",
        ),
        ({}, "missing probe handler for p_ns(u):main"),
    ],
)
def test_invalid_probe_is_an_error(spec: Json, message: str) -> None:
    way = FakeWay()
    assert performed(way, **spec) == (Outcome.ERROR, message)
    assert not way.asked


# Over real connections


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def got(
    serve: Serve,
    spec: Json,
    seconds: float = PATIENCE,
    context: ssl.SSLContext | None = None,
) -> tuple[Outcome, str]:
    """Return the result of probing a server, with its port replaced by PORT."""

    async def connect() -> Streams:
        return await asyncio.open_connection("127.0.0.1", port)

    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        served.set()

    served = asyncio.Event()
    server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    container = {"name": "main", "ports": [{"name": "web", "containerPort": port}]}
    way = FakeWay(connect=connect)
    whole = {**spec, "timeoutSeconds": seconds}
    async with server:
        outcome, text = await prober.perform(whole, container, POD, way)
        await served.wait()
    assert way.asked == [("127.0.0.1", port)]
    return outcome, text.replace(str(port), "PORT")


def answering(answer: bytes, requests: list[bytes] | None = None) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if requests is not None:
            requests.append(request)
        writer.write(answer)

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


BROKEN = (
    'Get "http://127.0.0.1:PORT/": net/http: HTTP/1.x transport connection broken: malformed HTTP response'
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", (Outcome.SUCCESS, "")),
        (b"HTTP/1.0 204 No Content\r\n\r\n", (Outcome.SUCCESS, "")),
        (b"HTTP/1.1 200\r\n\r\n" + b"x" * 100_000, (Outcome.SUCCESS, "")),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere\r\n\r\n", (Outcome.SUCCESS, "")),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", (Outcome.SUCCESS, "")),
        (
            b"HTTP/1.1 503 Service Unavailable\r\n\r\nnot yet",
            (Outcome.FAILURE, "HTTP probe failed with statuscode: 503"),
        ),
        (b"", (Outcome.FAILURE, 'Get "http://127.0.0.1:PORT/": EOF')),
        (b"220 mail\r\n", (Outcome.FAILURE, f'{BROKEN} "220 mail"')),
        (
            b"x" * 100_000,
            (
                Outcome.FAILURE,
                'Get "http://127.0.0.1:PORT/": net/http: server response headers exceeded the limit',
            ),
        ),
    ],
)
def test_http_probe_result(answer: bytes, expected: tuple[Outcome, str]) -> None:
    assert asyncio.run(got(answering(answer), {"httpGet": {"port": "web"}})) == expected


def test_tcp_probe_succeeds_with_a_listener() -> None:
    assert asyncio.run(got(silent, {"tcpSocket": {"port": "web"}})) == (Outcome.SUCCESS, "")


def test_http_probe_times_out() -> None:
    outcome, text = asyncio.run(got(silent, {"httpGet": {"port": "web", "path": "/x"}}, seconds=1))
    deadline = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert (outcome, text) == (Outcome.FAILURE, f'Get "http://127.0.0.1:PORT/x": {deadline}')


def test_endless_body_is_ignored() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: ")
        await reader.read()

    assert asyncio.run(got(endless, {"httpGet": {"port": "web"}}, seconds=1)) == (Outcome.SUCCESS, "")


@pytest.fixture(scope="module")
def server_context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder: Path = tmp_path_factory.mktemp("certificate")
    return credentials.load_or_create(folder).server_context()


def test_https_probe_accepts_any_certificate(server_context: ssl.SSLContext) -> None:
    spec = {"httpGet": {"port": "web", "scheme": "HTTPS"}}
    serve = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert asyncio.run(got(serve, spec, context=server_context)) == (Outcome.SUCCESS, "")


def test_https_probe_of_a_plain_server_fails() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    outcome, text = asyncio.run(got(plain, {"httpGet": {"port": "web", "scheme": "HTTPS"}}))
    assert outcome is Outcome.FAILURE
    assert text.startswith('Get "https://127.0.0.1:PORT/": tls: ')


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        (
            {},
            ["GET / HTTP/1.1", "Host: 127.0.0.1:PORT", "User-Agent: kube-probe/1.37", "Accept: */*"],
        ),
        (
            {"path": "healthz?full=1&x=a b#part"},
            [
                "GET /healthz?full=1&x=a%20b HTTP/1.1",
                "Host: 127.0.0.1:PORT",
                "User-Agent: kube-probe/1.37",
                "Accept: */*",
            ],
        ),
        (
            {"path": "/a\r\nX: b"},
            [
                "GET /a%0D%0AX:%20b HTTP/1.1",
                "Host: 127.0.0.1:PORT",
                "User-Agent: kube-probe/1.37",
                "Accept: */*",
            ],
        ),
        (
            {
                "httpHeaders": [
                    {"name": "host", "value": "example.com"},
                    {"name": "user-agent", "value": "me"},
                    {"name": "Accept", "value": ""},
                    {"name": "X-A", "value": "1"},
                    {"name": "X-A", "value": "2"},
                ]
            },
            ["GET / HTTP/1.1", "Host: example.com", "user-agent: me", "X-A: 1", "X-A: 2"],
        ),
    ],
)
def test_http_request_line_and_headers(action: Json, lines: list[str]) -> None:
    requests: list[bytes] = []
    serve = answering(b"HTTP/1.1 200 OK\r\n\r\n", requests)
    asyncio.run(got(serve, {"httpGet": {"port": "web", **action}}))
    (request,) = requests
    found = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", request.decode())
    assert found.split("\r\n") == [*lines, "Connection: close", "", ""]


def test_invalid_header_is_a_failure() -> None:
    headers = [{"name": "X-A", "value": "1\r\nX-B: 2"}]
    outcome, text = asyncio.run(got(silent, {"httpGet": {"port": "web", "httpHeaders": headers}}))
    assert (outcome, text) == (
        Outcome.FAILURE,
        'Get "http://127.0.0.1:PORT/": net/http: invalid header field value for "X-A"',
    )
