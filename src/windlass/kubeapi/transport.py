"""The only HTTP client: sends a request, and gives the body of its answer or raises what went wrong.

It knows nothing of what is asked. Connections are used again; watches have theirs beside those of the requests, so
that many of either do not keep the other waiting.
"""

import asyncio
import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import yarl
from aiohttp import helpers
from aiohttp.client_exceptions import UnixClientConnectorError

from windlass.kubeapi import errors
from windlass.kubeapi.access import Access, Identity
from windlass.kubeapi.errors import (
    AccessError,
    NotKubernetesError,
    NotSentError,
    NotTrustedError,
    ServerError,
    TooManyRequestsError,
    UnansweredError,
    UnauthorizedError,
)
from windlass.kubeapi.rate_limit import RateLimit
from windlass.kubeapi.requests import Request
from windlass.model.failures import ApiFailure

CONNECTIONS = 100
MOST_RETRIES = 3
"""How often a request is sent again because the server asked for that."""
OPENING_SECONDS = 30.0
"""How long a watch may take until it begins."""
_SOURCE_LINE = re.compile(r"\.? \(_ssl\.c:[0-9]+\)")
_READ_BYTES = 2**21
"""A watch event may be larger than a megabyte."""

Observe = Callable[[Request, int, float], None]
OnDate = Callable[[str, float], None]
"""Is told the `Date` of an answer, and how many seconds after the question it came."""


class Transport:
    """One client of one API server.

    A rate limit and the number of connections hold for all of its requests together: what must never wait behind
    others, such as the renewal of a lease, wants a transport of its own.
    """

    def __init__(
        self,
        access: Access,
        *,
        user_agent: str = "windlass",
        rate_limit: RateLimit | None = None,
        observe: Observe | None = None,
        on_date: OnDate | None = None,
        connections: int = CONNECTIONS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.access = access
        self._user_agent = user_agent
        self._rate_limit = rate_limit
        self._observe = observe or _ignore
        self._on_date = on_date
        self._sleep = sleep
        self._slots = asyncio.Semaphore(connections)
        self._proxy, self._proxy_headers = _proxy(access)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.access.close()
        if self._session is not None:
            await self._session.close()

    async def send(self, request: Request, timeout: float = 30.0) -> bytes:
        """The body of a 2xx answer, within so many seconds altogether. Raises ApiError."""
        deadline = _Deadline(timeout)
        try:
            async with asyncio.timeout(timeout):
                return await self._send(request, deadline)
        except TimeoutError as error:
            if deadline.has_been_sent:
                raise UnansweredError(f"{request}: no answer within {timeout:g} s") from error
            raise NotSentError(f"{request}: could not be sent within {timeout:g} s") from error

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Request, longest: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a 2xx answer in pieces, as they come, for `longest` seconds at most. Raises ApiError."""
        await self._wait_for_rate_limit(request, OPENING_SECONDS)
        try:
            async with asyncio.timeout(longest), contextlib.AsyncExitStack() as open_ones:
                async with asyncio.timeout(OPENING_SECONDS):
                    response = await self._accepted(request, open_ones)
                yield _chunks(request, response)
        except TimeoutError as error:
            raise UnansweredError(f"{request}: the stream did not go on in time") from error

    @contextlib.asynccontextmanager
    async def channels(self, request: Request, protocols: Sequence[str]) -> AsyncIterator["Channels"]:
        """A WebSocket, which carries several streams both ways (see `streams`). Raises ApiError."""
        await self._wait_for_rate_limit(request, OPENING_SECONDS)
        async with contextlib.AsyncExitStack() as open_ones:
            try:
                async with asyncio.timeout(OPENING_SECONDS):
                    websocket = await self._upgraded(request, protocols, open_ones)
            except TimeoutError as error:
                raise UnansweredError(f"{request}: no answer within {OPENING_SECONDS:g} s") from error
            yield Channels(request, websocket)

    async def _upgraded(
        self, request: Request, protocols: Sequence[str], open_ones: contextlib.AsyncExitStack
    ) -> aiohttp.ClientWebSocketResponse:
        """Refused credentials are looked up again, once."""
        identity = self.access.identity()
        try:
            return await self._upgrade(request, protocols, identity, open_ones)
        except UnauthorizedError as error:
            renewed = await self._renewed(identity, error)
            return await self._upgrade(request, protocols, renewed, open_ones)

    async def _upgrade(
        self,
        request: Request,
        protocols: Sequence[str],
        identity: Identity,
        open_ones: contextlib.AsyncExitStack,
    ) -> aiohttp.ClientWebSocketResponse:
        refusals: list[errors.AnsweredError] = []
        # aiohttp drops what a server says when it does not open a WebSocket: it is read on its way.
        tracing = aiohttp.TraceConfig()
        tracing.on_request_end.append(lambda _session, _context, end: _hear_refusal(end, refusals))
        session = await open_ones.enter_async_context(
            aiohttp.ClientSession(
                connector=self._opened_session().connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[tracing],
            )
        )
        opening = session.ws_connect(
            self._url(request),
            protocols=protocols,
            headers=[("User-Agent", self._user_agent), *identity.headers],
            max_msg_size=0,
            ssl=identity.context or True,
            server_hostname=identity.server_name or None,
            proxy=self._proxy,
            proxy_headers=self._proxy_headers,
        )
        with _explaining(request):
            try:
                return await open_ones.enter_async_context(opening)
            except aiohttp.WSServerHandshakeError as error:
                if refusals:
                    raise refusals[-1] from error
                raise

    async def _send(self, request: Request, deadline: "_Deadline") -> bytes:
        last: TooManyRequestsError | ServerError | None = None
        for retries_left in reversed(range(MOST_RETRIES + 1)):
            try:
                return await self._send_once(request, deadline)
            except NotSentError as error:
                if last is None:
                    raise
                # It was sent before, and the answer to that is what counts.
                raise last from error
            except (TooManyRequestsError, ServerError) as error:
                last = error
                wait = error.retry_after
                if wait is None or wait >= deadline.seconds_left() or not retries_left:
                    raise
                await self._sleep(wait)
        raise AssertionError("the last turn returns or raises")

    async def _send_once(self, request: Request, deadline: "_Deadline") -> bytes:
        await self._wait_for_rate_limit(request, deadline.seconds_left())
        async with self._slots, contextlib.AsyncExitStack() as open_ones:
            deadline.has_been_sent = True
            response = await self._accepted(request, open_ones)
            with _explaining(request):
                return await response.read()

    async def _wait_for_rate_limit(self, request: Request, seconds: float) -> None:
        if self._rate_limit is None:
            return
        wait = self._rate_limit.take()
        if wait >= seconds:
            self._rate_limit.give_back()
            raise NotSentError(f"{request}: the client's own rate limit would hold it back for {wait:.1f} s")
        try:
            await self._sleep(wait)
        except asyncio.CancelledError:
            self._rate_limit.give_back()
            raise

    async def _accepted(
        self, request: Request, open_ones: contextlib.AsyncExitStack
    ) -> aiohttp.ClientResponse:
        """A 2xx answer whose body is yet to be read. Refused credentials are looked up again, once."""
        identity = self.access.identity()
        try:
            return await self._answered(request, identity, open_ones)
        except UnauthorizedError as error:
            renewed = await self._renewed(identity, error)
            return await self._answered(request, renewed, open_ones)

    async def _renewed(self, identity: Identity, refusal: UnauthorizedError) -> Identity:
        try:
            renewed = await self.access.renewed(identity)
        except AccessError as error:
            failure = refusal.failure
            message = f"{failure.message}; and other credentials cannot be had: {error}"
            raise UnauthorizedError(ApiFailure(failure.code, failure.reason, message)) from error
        if renewed is identity:
            raise refusal
        return renewed

    async def _answered(
        self, request: Request, identity: Identity, open_ones: contextlib.AsyncExitStack
    ) -> aiohttp.ClientResponse:
        began = time.monotonic()
        code = 0
        try:
            with _explaining(request):
                response = await open_ones.enter_async_context(self._ask(request, identity))
                code = response.status
                if not _is_kubernetes(response):
                    raise NotKubernetesError(f"{request}: {_not_kubernetes(response)}")
                if self._on_date is not None and "Date" in response.headers:
                    self._on_date(response.headers["Date"], time.monotonic() - began)
                if 200 <= code < 300:
                    return response
                raise errors.from_answer(code, response.headers, await response.read())
        finally:
            self._observe(request, code, time.monotonic() - began)

    def _ask(
        self, request: Request, identity: Identity
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = [("Accept", request.accept), ("User-Agent", self._user_agent), *identity.headers]
        if request.content_type:
            headers.append(("Content-Type", request.content_type))
        return self._opened_session().request(
            request.method,
            self._url(request),
            data=request.body or None,
            headers=headers,
            ssl=identity.context or True,
            server_hostname=identity.server_name or None,
            proxy=self._proxy,
            proxy_headers=self._proxy_headers,
            allow_redirects=False,
        )

    def _url(self, request: Request) -> yarl.URL:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return yarl.URL(f"{self.access.server}{request.path}{query}", encoded=True)

    def _opened_session(self) -> aiohttp.ClientSession:
        """Made at the first request, since it belongs to the loop that is then running."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_connector(self.access),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                read_bufsize=_READ_BYTES,
            )
        return self._session


class Channels:
    """An open WebSocket. What its messages mean is said in `streams`."""

    def __init__(self, request: Request, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._request = request
        self._websocket = websocket

    @property
    def protocol(self) -> str:
        """The one of those that were offered that the server has chosen; empty for none."""
        return self._websocket.protocol or ""

    async def send(self, message: bytes) -> None:
        """Returns when there is room for more. Raises UnansweredError."""
        with _explaining(self._request):
            await self._websocket.send_bytes(message)

    async def messages(self) -> AsyncIterator[bytes]:
        """Until the server closes it. Raises UnansweredError when the connection is cut."""
        while True:
            with _explaining(self._request):
                message = await self._websocket.receive()
            match message.type:
                case aiohttp.WSMsgType.BINARY:
                    yield message.data
                case aiohttp.WSMsgType.TEXT:
                    yield message.data.encode()
                case aiohttp.WSMsgType.CLOSE:
                    return  # also where the server is gone before it has our goodbye, as those of kubelets are
                case aiohttp.WSMsgType.ERROR:
                    raise UnansweredError(f"{self._request}: {message.data}")
                case _:
                    break
        was_closed = self._websocket.close_code not in (None, aiohttp.WSCloseCode.ABNORMAL_CLOSURE)
        if not was_closed:
            raise UnansweredError(f"{self._request}: the connection was cut")


async def _hear_refusal(end: aiohttp.TraceRequestEndParams, refusals: list[errors.AnsweredError]) -> None:
    response = end.response
    if response.status >= 300:
        refusals.append(errors.from_answer(response.status, response.headers, await response.read()))


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self.has_been_sent = False

    def seconds_left(self) -> float:
        return self._at - time.monotonic()


def _connector(access: Access) -> aiohttp.BaseConnector:
    # Without limits of its own: a watch holds its connection for minutes, and the requests are counted elsewhere.
    if access.socket_path:
        return aiohttp.UnixConnector(access.socket_path, limit=0)
    return aiohttp.TCPConnector(limit=0, socket_factory=_socket)


def _proxy(access: Access) -> tuple[yarl.URL | None, dict[str, str]]:
    """Not left to aiohttp: it would read ~/.netrc before each request, and fail when that knows the server."""
    proxy, auth = None, None
    if access.proxy:
        proxy, auth = helpers.strip_auth_from_url(yarl.URL(access.proxy))
    elif access.may_use_environment_proxy:
        with contextlib.suppress(LookupError):
            proxy, auth = helpers.get_env_proxy_for_url(yarl.URL(access.server))
    return proxy, {"Proxy-Authorization": auth.encode()} if auth else {}


def _socket(address: Any) -> socket.socket:
    """One on which the kernel notices within a minute that nobody is at the other end."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # By other names on macOS, and not to be had everywhere.
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPALIVE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 60_000),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


async def _chunks(request: Request, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    with _explaining(request):
        async for chunk in response.content.iter_any():
            yield chunk


@contextlib.contextmanager
def _explaining(request: Request) -> Iterator[None]:
    """What goes wrong on the way becomes one kind of error that names the request."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise NotTrustedError(
            f"{request}: the server's certificate is not trusted: {_reason(error.certificate_error)}"
        ) from error
    except aiohttp.ClientConnectorError as error:
        raise NotSentError(
            f"{request}: cannot connect to {_target(error)}: {_reason(error.os_error)}"
        ) from error
    except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
        raise UnansweredError(f"{request}: {error or type(error).__name__}") from error


def _target(error: aiohttp.ClientConnectorError) -> str:
    """It may be a proxy."""
    if isinstance(error, UnixClientConnectorError):
        return error.path
    return f"[{error.host}]:{error.port}" if ":" in error.host else f"{error.host}:{error.port}"


def _reason(error: Exception) -> str:
    """In the system's words, without what only its programmers want to know."""
    said = getattr(error, "strerror", None) or str(error)
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        said = os.strerror(error.errno or 0)
    return _SOURCE_LINE.sub("", said)


def _is_kubernetes(response: aiohttp.ClientResponse) -> bool:
    """A web page is somebody else's, such as the form of a proxy that wants a login; one that says that something is
    not there does not mean our objects. Other refusals are believed, whoever says them."""
    is_redirect = 300 <= response.status < 400
    is_believed = response.status >= 400 and response.status != 404
    is_page = response.content_type == "text/html" and not is_believed
    return not is_redirect and not is_page


def _not_kubernetes(response: aiohttp.ClientResponse) -> str:
    target = response.headers.get("Location", "")
    towards = f" towards {target}" if target else ""
    return f"the answer ({response.status} {response.content_type}{towards}) is not that of a Kubernetes API server"


def _ignore(request: Request, code: int, seconds: float) -> None:
    pass
