"""A proxy between one client and the API server that records requests and injects faults.

Each controller process has its own proxy, so that requests of several controllers are distinguished and their answers
can be changed, delayed or dropped. A fault rule is a function from the request to a `Verdict`.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from windlass.k8s.protobuf.messages import MAGIC
from windlass.wire import codec

NOT_PASSED_ON: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)


REASONS: Final = {403: "Forbidden", 429: "TooManyRequests", 503: "ServiceUnavailable"}
VERSIONS: Final = re.compile(rb'(?:"resourceVersion":"|\x32[\x01-\x14])([0-9]+)')
"""In JSON and in protobuf, where the field 6 of metadata follows its tag and its size."""
LONGEST_HOLD: Final = 5.0
"""In seconds."""
NUMBERS: Final = itertools.count(1)
"""Requests are numbered over all proxies, so that what two clients did can be put in order."""


class Upstream(msgspec.Struct, frozen=True):
    """The API server, and who the client is to it."""

    url: str
    token: str = ""
    authority: str = ""
    """PEM."""
    socket: str = ""
    """The embedded server's, which asks for neither TLS nor token."""


class ProxiedRequest(msgspec.Struct, frozen=True):
    """A request that the proxy has received."""

    number: int
    method: str
    path: str
    query: str
    sent: bytes
    """The body as the client sent it."""
    user_agent: str

    @property
    def body(self) -> bytes:
        """The body as JSON."""
        return codec.as_json(self.sent) if self.is_protobuf else self.sent

    @property
    def is_protobuf(self) -> bool:
        return self.sent.startswith(MAGIC)

    @property
    def parameters(self) -> dict[str, str]:
        return dict(parse_qsl(self.query, keep_blank_values=True))

    @property
    def is_watch(self) -> bool:
        return self.parameters.get("watch") in ("1", "true")

    @property
    def is_of_lease(self) -> bool:
        return "/leases" in self.path

    @property
    def is_of_event(self) -> bool:
        return "/events" in self.path

    @property
    def is_counted(self) -> bool:
        """Whether the write budget counts the request."""
        return not (self.is_watch or self.is_of_lease or self.is_of_event)

    @property
    def is_act(self) -> bool:
        """Whether the request changes an object of a Framework."""
        return self.is_counted and self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path}{'?' if self.query else ''}{self.query}"


class Exchange(msgspec.Struct, frozen=True):
    asked: ProxiedRequest
    code: int
    """The status code of the answer; 0 if there was none."""
    size: int = 0
    """Number of bytes of the answer; 0 for a watch."""


class Verdict(msgspec.Struct, frozen=True):
    """The action of the proxy for a request. By default, it forwards the request."""

    delay: float = 0.0
    is_lost: bool = False
    """Whether the request is dropped before the server and the connection closed."""
    is_answer_lost: bool = False
    """Whether the connection is closed after the server has processed the request."""
    code: int = 0
    """Status code of a failure that the proxy returns instead of the server."""
    retry_after: str = ""
    message: str = "the proxy of a test says so"
    text: str = ""
    """Body of a successful answer that the proxy returns instead of the server."""


PASS: Final = Verdict()
LOST: Final = Verdict(is_lost=True)
ANSWER_LOST: Final = Verdict(is_answer_lost=True)
FaultRule = Callable[[ProxiedRequest], Verdict]


def no_faults(asked: ProxiedRequest) -> Verdict:
    return PASS


class Proxy:
    """Runs on the loop of LoopThread; `exchanges`, `fault_rule` and `is_refusing` may be used from anywhere."""

    def __init__(self, upstream: Upstream, folder: Path, name: str) -> None:
        self.name = name
        self.kubeconfig = folder / f"{name}.kubeconfig"
        self.exchanges: list[Exchange] = []
        self.connections: set[object] = set()
        """Addresses of the client's connections."""
        self.fault_rule: FaultRule = no_faults
        self.is_refusing = False
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None
        self._server: web.Server | None = None
        self._runner: web.ServerRunner | None = None
        self._holds = 0
        self._released: asyncio.Event | None = None
        self._handling: set[asyncio.Task[object]] = set()
        self._pod_versions: dict[int, int] = {}
        """By the number of a watch of pods, while it lasts: the newest that has come."""

    async def start(self) -> None:
        self._released = asyncio.Event()
        self._released.set()
        self._session = aiohttp.ClientSession(
            connector=_connector(self._upstream),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._server = web.Server(self._answer, access_log=None)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.kubeconfig.write_text(_kubeconfig(f"http://127.0.0.1:{port}"), encoding="utf-8")

    async def stop(self) -> None:
        self.cut()
        handling = tuple(self._handling)
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    # What tests ask for

    def cut(self) -> None:
        """Close all connections, including watches. Must run on the loop."""
        for connection in () if self._server is None else tuple(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Hold watch events until the end of the block, so that they arrive at once. Must run on the loop."""
        assert self._released is not None
        self._holds += 1
        self._released.clear()
        try:
            yield
        finally:
            self._holds -= 1
            if self._holds == 0:
                self._released.set()

    async def holds_pods_of(self, version: int) -> None:
        """Return when every watch of pods has sent that version. A watch that selects other pods never sends it, so
        there is a timeout. Runs on the loop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_HOLD):
                while any(newest < version for newest in self._pod_versions.values()):
                    await asyncio.sleep(0.01)

    def asked(self, matches: Callable[[ProxiedRequest], bool]) -> list[ProxiedRequest]:
        return [exchange.asked for exchange in tuple(self.exchanges) if matches(exchange.asked)]

    # Passing on

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Continue after the client has disconnected, because the request may still be processed."""
        task = asyncio.current_task()
        assert task is not None
        if request.transport is not None:
            self.connections.add(request.transport.get_extra_info("peername"))
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)
        asked = ProxiedRequest(
            number=next(NUMBERS),
            method=request.method,
            path=request.path,
            query=request.query_string,
            sent=await request.read(),
            user_agent=request.headers.get("User-Agent", ""),
        )
        verdict = LOST if self.is_refusing else self.fault_rule(asked)
        if verdict.delay:
            await asyncio.sleep(verdict.delay)
        if verdict.is_lost:
            self.exchanges.append(Exchange(asked, 0))
            return _broken(request)
        if verdict.text:
            self.exchanges.append(Exchange(asked, 200))
            return web.Response(text=verdict.text)
        if verdict.code:
            self.exchanges.append(Exchange(asked, verdict.code))
            return _failure(verdict)
        try:
            return await self._pass_on(request, asked, verdict)
        except (aiohttp.ClientError, ConnectionError):
            self.exchanges.append(Exchange(asked, 0))
            return _broken(request)

    async def _pass_on(
        self, request: web.BaseRequest, asked: ProxiedRequest, verdict: Verdict
    ) -> web.StreamResponse:
        assert self._session is not None
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON
        }
        if self._upstream.token:
            headers["Authorization"] = f"Bearer {self._upstream.token}"
        url = f"{self._upstream.url}{request.raw_path}"
        async with self._session.request(
            asked.method, _verbatim(url), data=asked.sent or None, headers=headers
        ) as answer:
            if asked.is_watch and answer.status == 200:
                self.exchanges.append(Exchange(asked, answer.status))
                return await self._stream(request, asked, answer)
            body = await answer.read()
            self.exchanges.append(Exchange(asked, answer.status, len(body)))
            if verdict.is_answer_lost:
                return _broken(request)
            return web.Response(body=body, status=answer.status, headers=_passed_back(answer))

    async def _stream(
        self, request: web.BaseRequest, asked: ProxiedRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Read the stream while it is held, because `holds_pods_of` needs the received versions."""
        response = web.StreamResponse(status=answer.status, headers=_passed_back(answer))
        await response.prepare(request)
        chunks: asyncio.Queue[bytes] = asyncio.Queue()
        writing = asyncio.create_task(self._write(response, chunks))
        end = b""
        try:
            async for chunk in answer.content.iter_any():
                # With the end of the one before: a version may be cut apart.
                self._note_pods(asked, end + chunk)
                end = chunk[-100:]
                chunks.put_nowait(chunk)
                if writing.done():
                    break
            chunks.put_nowait(b"")
            await writing
        except aiohttp.ClientError:
            return _broken(request)
        finally:
            self._pod_versions.pop(asked.number, None)
            writing.cancel()
        await response.write_eof()
        return response

    async def _write(self, response: web.StreamResponse, chunks: "asyncio.Queue[bytes]") -> None:
        assert self._released is not None
        while chunk := await chunks.get():
            await self._released.wait()
            await response.write(chunk)

    def _note_pods(self, asked: ProxiedRequest, read: bytes) -> None:
        if asked.path.endswith("/pods"):
            found = [int(version) for version in VERSIONS.findall(read)]
            self._pod_versions[asked.number] = max(self._pod_versions.get(asked.number, 0), *found, 0)


def _connector(upstream: Upstream) -> aiohttp.BaseConnector:
    if upstream.socket:
        return aiohttp.UnixConnector(upstream.socket, limit=0)
    context = ssl.create_default_context(cadata=upstream.authority or None)
    return aiohttp.TCPConnector(ssl=context, limit=0)


def _verbatim(url: str) -> URL:
    """Return the URL as the client wrote it, without quoting it again."""
    return URL(url, encoded=True)


def _passed_back(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}


def _broken(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


def _failure(verdict: Verdict) -> web.Response:
    reason = REASONS.get(verdict.code, "InternalError")
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": verdict.message,
        "reason": reason,
        "code": verdict.code,
    }
    headers = {"Retry-After": verdict.retry_after} if verdict.retry_after else {}
    return web.json_response(status, status=verdict.code, headers=headers)


def _kubeconfig(url: str) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": url}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        "current-context": "proxy",
    }
    return json.dumps(config, indent=2)


def upstream_of_kubeconfig(path: Path) -> Upstream:
    """Return the server of a kubeconfig that `tools/kubernetes_api.py` writes."""
    config = json.loads(path.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    return Upstream(
        url=cluster["server"],
        token=config["users"][0]["user"]["token"],
        authority=base64.b64decode(cluster["certificate-authority-data"]).decode(),
    )
