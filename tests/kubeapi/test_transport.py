"""The transport handles all kinds of servers and responses."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kubeapi import kubeconfigs
from tests.kubeapi.scripted import (
    Answer,
    Script,
    event,
    hold,
    refusal,
    run,
    serving,
    stream,
    text,
)

from windlass.kubeapi import access, errors, requests, sockets, streams
from windlass.kubeapi.access import Access
from windlass.kubeapi.credentials import ClusterConfig, Tls
from windlass.kubeapi.rate_limit import RateLimit
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import CONFIG_MAPS, PODS
from windlass.kubeapi.transport import Transport
from windlass.localcluster.apiserver import credentials
from windlass.localcluster.server import ApiServer

GET = requests.get(PODS, "t", "a")
WATCH = requests.watch(PODS)


class Sleeper:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def outcome(
    transport: Transport, request: Request = GET, timeout: float = 30
) -> bytes | errors.ApiError:
    try:
        return await transport.send(request, timeout)
    except errors.ApiError as error:
        return error


def test_request_is_sent() -> None:
    async def send() -> None:
        script = Script(text("{}"))
        async with (
            serving(script),
            Transport(access.anonymous(script.url + "/prefix/"), user_agent="me/1") as transport,
        ):
            patch = requests.json_patch(PODS, "t", "a b", b"[]", "status", "who am i")
            assert await transport.send(patch.with_accept(requests.METADATA_ONLY)) == b"{}"
        (received,) = script.received
        assert received.method == "PATCH"
        assert received.path == "/prefix/api/v1/namespaces/t/pods/a b/status"
        assert received.query == {"fieldManager": "who am i"}
        assert received.body == b"[]"
        assert received.headers["Content-Type"] == "application/json-patch+json"
        assert received.headers["Accept"].startswith("application/json;as=PartialObjectMetadata;")
        assert received.headers["User-Agent"] == "me/1"
        assert "Authorization" not in received.headers

    run(send())


@pytest.mark.parametrize(
    ("answers", "slept", "expected"),
    [
        ([refusal(429, "TooManyRequests", Retry_After="2")], [2.0], b"{}"),
        ([refusal(503, "ServiceUnavailable", Retry_After="1")], [1.0], b"{}"),
        ([refusal(500, "ServerTimeout", Retry_After="1")] * 3, [1.0] * 3, b"{}"),
        ([refusal(500, "ServerTimeout", Retry_After="1")] * 4, [1.0] * 3, errors.ServerError),
        ([refusal(429, "TooManyRequests", Retry_After="60")], [], errors.TooManyRequestsError),
        ([refusal(429, "TooManyRequests")], [], errors.TooManyRequestsError),
        ([refusal(500, "InternalError")], [], errors.ServerError),
        ([refusal(409, "AlreadyExists", Retry_After="1")], [], errors.AlreadyExistsError),
        ([text("<h1>502</h1>", 502, "text/html")], [], errors.ServerError),
    ],
)
def test_request_is_retried_after_retry_after(
    answers: list[Answer], slept: list[float], expected: Any
) -> None:
    async def send() -> None:
        sleeper = Sleeper()
        script = Script(*answers, text("{}"))
        async with serving(script), Transport(access.anonymous(script.url), sleep=sleeper) as transport:
            came = await outcome(transport)
        assert (came if isinstance(came, bytes) else type(came)) == expected
        assert sleeper.slept == slept
        assert len(script.received) == len(slept) + 1

    run(send())


def test_long_retry_after_is_returned() -> None:
    async def send() -> None:
        script = Script(refusal(429, "TooManyRequests", Retry_After="60"))
        async with serving(script), Transport(access.anonymous(script.url)) as transport:
            error = await outcome(transport)
        assert isinstance(error, errors.TooManyRequestsError)
        assert error.retry_after == 60

    run(send())


async def half(request: web.BaseRequest) -> web.StreamResponse:
    """An answer that is cut before it is complete."""
    response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b"{")
    assert request.transport is not None
    request.transport.close()
    return response


async def closed(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    ("answer", "timeout", "code", "words"),
    [
        (hold, 0.1, 0, "no answer within 0.1 s"),
        (half, 30, 200, "GET /api/v1/namespaces/t/pods/a"),
        (text("", 302, Location="https://login.example"), 30, 302, "redirect to https://login.example"),
        (text("<form>", 200, "text/html"), 30, 200, "is not from a Kubernetes API server"),
    ],
)
def test_invalid_responses_raise_no_valid_response_error(
    answer: Answer, timeout: float, code: int, words: str
) -> None:
    async def send() -> None:
        observed: list[int] = []
        script = Script(answer)
        async with (
            serving(script),
            Transport(
                access.anonymous(script.url), observe=lambda _, code, __: observed.append(code)
            ) as transport,
        ):
            error = await outcome(transport, timeout=timeout)
        assert type(error) in (errors.NoValidResponseError, errors.NotKubernetesError)
        assert words in str(error)
        assert observed == [code]

    run(send())


def test_write_on_a_lost_connection_is_not_repeated() -> None:
    async def send() -> None:
        script = Script(text("{}"), closed, text("{}"))
        async with serving(script), Transport(access.anonymous(script.url)) as transport:
            await transport.send(GET)
            error = await outcome(transport, requests.create(PODS, "t", b"{}"))
        assert type(error) is errors.NoValidResponseError
        assert len(script.received) == 2

    run(send())


def test_unreachable_server_raises_not_sent() -> None:
    async def send() -> None:
        with socket.socket() as taken:
            # Bound, but not listening.
            taken.bind(("127.0.0.1", 0))
            async with Transport(access.anonymous(f"127.0.0.1:{taken.getsockname()[1]}")) as transport:
                error = await outcome(transport)
        assert type(error) is errors.NotSentError
        assert "cannot connect" in str(error)

    run(send())


def test_earlier_response_counts_if_a_retry_cannot_be_sent() -> None:
    """A create may have been carried out although the answer was a 500. It must not be called unsent."""

    async def send() -> None:
        async with serving(Script(refusal(500, "ServerTimeout", Retry_After="1"))) as script:
            # The second time it is held back for longer than it may take.
            limit = RateLimit(qps=0.001, burst=1, clock=lambda: 0.0)
            async with Transport(
                access.anonymous(script.url), rate_limit=limit, sleep=Sleeper()
            ) as transport:
                assert type(await outcome(transport)) is errors.ServerError

    run(send())


def test_every_response_is_observed() -> None:
    async def send() -> None:
        observed: list[tuple[str, int]] = []
        script = Script(
            refusal(429, "TooManyRequests", Retry_After="0"), text("{}"), refusal(404, "NotFound")
        )
        async with (
            serving(script),
            Transport(
                access.anonymous(script.url),
                observe=lambda request, code, _: observed.append((request.verb, code)),
            ) as transport,
        ):
            await outcome(transport)
            with pytest.raises(errors.NotFoundError):
                async with transport.stream(WATCH):
                    pass
        assert observed == [("get", 429), ("get", 200), ("watch", 404)]

    run(send())


def test_rate_limit_delays_requests() -> None:
    async def send() -> None:
        sleeper = Sleeper()
        limit = RateLimit(qps=0.1, burst=2, clock=lambda: 0.0)
        script = Script(*[text("{}")] * 5)
        async with (
            serving(script),
            Transport(access.anonymous(script.url), rate_limit=limit, sleep=sleeper) as transport,
        ):
            for _ in range(4):
                await transport.send(GET, timeout=25)
            error = await outcome(transport, timeout=25)
            assert type(error) is errors.NotSentError
            assert "rate limit" in str(error)
            # The token of the request that was not sent serves this one.
            assert await transport.send(GET, timeout=35) == b"{}"
        assert sleeper.slept == pytest.approx([0, 0, 10, 20, 30])

    run(send())


def test_requests_share_connections() -> None:
    async def send() -> None:
        peers: set[Any] = set()
        at_once = [0, 0]

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            assert request.transport is not None
            peers.add(request.transport.get_extra_info("peername"))
            at_once[0] += 1
            at_once[1] = max(at_once)
            await asyncio.sleep(0.001)
            at_once[0] -= 1
            return web.Response(text="{}")

        script = Script(*[answer] * 60)
        async with serving(script), Transport(access.anonymous(script.url), connections=3) as transport:
            for _ in range(3):
                await asyncio.gather(*(transport.send(GET) for _ in range(20)))
        assert len(peers) == at_once[1] == 3

    run(send())


def test_watches_do_not_count_as_connections() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(text="{}")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("ADDED", "a", 1))
        return await hold(request)

    async def send() -> None:
        script = Script(*[answer] * 10)
        async with (
            serving(script),
            Transport(access.anonymous(script.url), connections=1) as transport,
            transport.stream(WATCH) as one,
            transport.stream(WATCH) as other,
        ):
            assert await anext(one) == await anext(other) == event("ADDED", "a", 1)
            assert await transport.send(GET) == b"{}"

    run(send())


def test_stream_yields_chunks_and_then_raises() -> None:
    async def send() -> None:
        script = Script(stream(b"one", is_cut=True))
        async with (
            serving(script),
            Transport(access.anonymous(script.url)) as transport,
            transport.stream(WATCH) as chunks,
        ):
            assert await anext(chunks) == b"one"
            with pytest.raises(errors.NoValidResponseError):
                await anext(chunks)

    run(send())


GOODBYE = b"\x88\x02\x03\xe8"
"""The frame that closes a WebSocket, with the code 1000."""


@pytest.mark.parametrize("last_words", [GOODBYE, b""], ids=["after-a-goodbye", "without"])
def test_websocket_closed_by_the_server(last_words: bytes) -> None:
    """Kubelets close the connection right after the close frame, and nothing is lost."""

    async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
        websocket = web.WebSocketResponse(protocols=streams.PORT_FORWARD_PROTOCOLS)
        await websocket.prepare(request)
        await websocket.send_bytes(b"\0hello")
        assert request.transport is not None
        request.transport.write(last_words)
        request.transport.close()
        return websocket

    async def listen() -> None:
        script = Script(hang_up)
        request = streams.port_forward_request("t", "a", 80)
        async with (
            serving(script),
            Transport(access.anonymous(script.url)) as transport,
            transport.channels(request, streams.PORT_FORWARD_PROTOCOLS) as channels,
        ):
            messages = channels.messages()
            assert await anext(messages) == b"\0hello"
            while not channels._websocket._writer.transport.is_closing():
                await asyncio.sleep(0)
            with pytest.raises(StopAsyncIteration if last_words else errors.NoValidResponseError):
                await anext(messages)

    run(listen())


def test_proxy_is_used() -> None:
    async def send() -> None:
        proxy = Script(text("no", 403, "text/plain"))
        async with serving(proxy):
            found = ClusterConfig(
                server="https://cluster.example", tls=Tls(), proxy=proxy.url.replace("//", "//me:secret@")
            )
            async with Transport(Access(found)) as transport:
                error = await outcome(transport)
        assert type(error) is errors.NoValidResponseError
        (received,) = proxy.received
        assert (received.method, received.headers["Host"]) == ("CONNECT", "cluster.example")
        assert received.headers["Proxy-Authorization"] == "Basic bWU6c2VjcmV0"

    run(send())


@pytest.mark.parametrize(
    ("server", "may_use", "is_used"),
    [
        ("http://cluster.example", True, True),
        ("http://cluster.example", False, False),
        ("http://127.0.0.1:1", True, False),
        ("http://localhost:1", True, False),
    ],
)
def test_environment_proxy_is_not_used_for_local_servers(
    monkeypatch: pytest.MonkeyPatch, server: str, may_use: bool, is_used: bool
) -> None:
    async def send() -> None:
        proxy = Script(text("{}"))
        async with serving(proxy):
            for name in ("no_proxy", "NO_PROXY"):
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("http_proxy", proxy.url)
            found = ClusterConfig(server=server, may_use_environment_proxy=may_use)
            async with Transport(Access(found)) as transport:
                await outcome(transport)
        assert bool(proxy.received) == is_used

    run(send())


def test_keepalive_detects_a_lost_peer_within_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[socket.socket] = []
    really = sockets.with_keepalive

    def remembered(address: Any) -> socket.socket:
        made.append(really(address))
        return made[-1]

    monkeypatch.setattr(sockets, "with_keepalive", remembered)

    async def send() -> None:
        script = Script(text("{}"))
        async with serving(script), Transport(access.anonymous(script.url)) as transport:
            await transport.send(GET)
            (used,) = made
            assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            if sys.platform == "linux":
                idle, every, times, unsent = (
                    used.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (
                        socket.TCP_KEEPIDLE,
                        socket.TCP_KEEPINTVL,
                        socket.TCP_KEEPCNT,
                        socket.TCP_USER_TIMEOUT,
                    )
                )
                assert idle + every * times == unsent / 1000 == 60

    run(send())


def test_kubeconfig_is_read_without_slow_modules(tmp_path: Path) -> None:
    path = kubeconfigs.write(tmp_path / "config", user={"token": "t"})
    program = (
        "import asyncio, sys, windlass.kubeapi.reflector, windlass.kubeapi.access as access\n"
        f"asyncio.run(access.load({path!r}))\n"
        "print(sorted({'cryptography', 'jinja2', 'kubernetes_asyncio', 'urllib3'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603
    assert done.stdout.splitlines() == ["[]"]


@pytest.mark.parametrize("by_socket", [True, False])
def test_requests_to_the_embedded_server(tmp_path: Path, by_socket: bool) -> None:
    async def way(server: ApiServer) -> Access:
        if by_socket:
            return access.unix(tmp_path / "socket")
        credentials.write_kubeconfig(tmp_path / "kubeconfig", server.url, server.credentials)
        return await access.load(str(tmp_path / "kubeconfig"))

    async def send() -> None:
        server = ApiServer(tmp_path)
        await server.start(socket_path=tmp_path / "socket")
        try:
            async with Transport(await way(server)) as transport:
                body = json.dumps(
                    {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"b": "c"}}
                ).encode()
                create = requests.create(CONFIG_MAPS, "default", body, "me")
                made = json.loads(await transport.send(create))
                assert made["data"] == {"b": "c"}
                assert type(await outcome(transport, create)) is errors.AlreadyExistsError

                only = requests.list_page(CONFIG_MAPS, "default", "x=y").with_accept(requests.METADATA_ONLY)
                listed = json.loads(await transport.send(only))
                assert listed["kind"] == "PartialObjectMetadataList"
                assert [item["metadata"]["uid"] for item in listed["items"]] == [made["metadata"]["uid"]]

                stale = json.dumps(
                    [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]
                ).encode()
                patch = requests.json_patch(CONFIG_MAPS, "default", "a", stale)
                assert type(await outcome(transport, patch)) is errors.ConflictError
                delete = requests.delete(CONFIG_MAPS, "default", "a", uid="another")
                assert type(await outcome(transport, delete)) is errors.ConflictError
                bad = requests.create(CONFIG_MAPS, "default", b'{"metadata":{"name":"A"}}')
                assert type(await outcome(transport, bad)) is errors.InvalidError
                await transport.send(requests.delete_collection(CONFIG_MAPS, "default", "x=y"))
                gone = await outcome(transport, requests.get(CONFIG_MAPS, "default", "a"))
                assert type(gone) is errors.NotFoundError
        finally:
            await server.stop()

    run(send())
