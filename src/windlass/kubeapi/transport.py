"""The only HTTP client of the Kubernetes API: sends requests and returns bodies, streams and WebSockets, or raises.

Connections are reused. Streams (of watches and logs) and WebSockets do not count towards the limit of connections.
"""

import asyncio
import contextlib
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import yarl
from aiohttp import helpers
from aiohttp.client_exceptions import UnixClientConnectorError

from windlass.kubeapi import errors, sockets
from windlass.kubeapi.access import Access, Identity
from windlass.kubeapi.errors import (
    AccessError,
    NotKubernetesError,
    NotSentError,
    NotTrustedError,
    NoValidResponseError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from windlass.kubeapi.negotiation import Negotiation
from windlass.kubeapi.rate_limit import RateLimit
from windlass.kubeapi.requests import Request
from windlass.model.failures import ApiFailure

MAX_CONNECTIONS = 100
IDLE_SECONDS = 30.0
"""Time after which an idle connection is closed. Proxies close it after 50 s or more, API servers after 90 s."""
MAX_RETRIES = 3
"""Maximum number of retries of a request after responses 429 and 5xx that say when to retry."""
STREAM_OPEN_SECONDS = 30.0
"""Time within which a stream or a WebSocket must be opened."""
_SOURCE_LINE = re.compile(r"\.? \(_ssl\.c:[0-9]+\)")
_READ_BYTES = 2**21
"""Size of the read buffer: a watch event may be larger than a megabyte."""

T = TypeVar("T")
Observe = Callable[[Request, int, float], None]
"""Called after each attempt with the request, the status code (0 without a response) and the latency in seconds.

WebSockets are not observed.
"""
OnDate = Callable[[str, float], None]
"""Called with the `Date` header of a response and its latency in seconds."""


class Transport:
    """Client of one API server.

    The rate limit and the limit of connections are shared by all requests. Requests that must not wait for others,
    e.g. the renewal of a lease, need a transport of their own.
    """

    def __init__(
        self,
        access: Access,
        *,
        user_agent: str = "windlass",
        rate_limit: RateLimit | None = None,
        observe: Observe | None = None,
        on_date: OnDate | None = None,
        connections: int = MAX_CONNECTIONS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.access = access
        self._user_agent = user_agent
        self._rate_limit = rate_limit
        self._observe = observe or _ignore
        self._on_date = on_date
        self._sleep = sleep
        self._negotiation = Negotiation()
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
        """Return the body of a 2xx response. Raise ApiError on failure or timeout; `timeout` includes all retries."""
        deadline = _Deadline(timeout)
        try:
            async with asyncio.timeout(timeout):
                return await self._send(request, deadline)
        except TimeoutError as error:
            if deadline.has_request_started:
                raise NoValidResponseError(f"{request}: no answer within {timeout:g} s") from error
            raise NotSentError(f"{request}: not sent within {timeout:g} s") from error

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Request, max_seconds: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the chunks of a 2xx response, for at most `max_seconds`. Raise ApiError on failure."""
        await self._wait_for_rate_limit(request, STREAM_OPEN_SECONDS)
        try:
            async with asyncio.timeout(max_seconds), contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(STREAM_OPEN_SECONDS):
                    response = await self._with_renewal(
                        lambda identity: self._accepted(request, identity, stack)
                    )
                yield _chunks(request, response)
        except TimeoutError as error:
            raise NoValidResponseError(f"{request}: the stream timed out") from error

    @contextlib.asynccontextmanager
    async def channels(self, request: Request, protocols: Sequence[str]) -> AsyncIterator["Channels"]:
        """Open a WebSocket that carries several streams (see `streams`). Raise ApiError on failure."""
        await self._wait_for_rate_limit(request, STREAM_OPEN_SECONDS)
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(STREAM_OPEN_SECONDS):
                    websocket = await self._with_renewal(
                        lambda identity: self._upgrade(request, protocols, identity, stack)
                    )
            except TimeoutError as error:
                raise NoValidResponseError(
                    f"{request}: no answer within {STREAM_OPEN_SECONDS:g} s"
                ) from error
            yield Channels(request, websocket)

    async def _with_renewal(self, attempt: Callable[[Identity], Awaitable[T]]) -> T:
        """Run an attempt, and once more with renewed credentials if the server rejects the first ones."""
        identity = self.access.identity()
        try:
            return await attempt(identity)
        except UnauthorizedError as rejection:
            return await attempt(await self._renewed(identity, rejection))

    async def _upgrade(
        self,
        request: Request,
        protocols: Sequence[str],
        identity: Identity,
        stack: contextlib.AsyncExitStack,
    ) -> aiohttp.ClientWebSocketResponse:
        rejections: list[errors.ResponseError] = []
        # aiohttp drops the body of the response that rejects a WebSocket, so a trace reads it.
        tracing = aiohttp.TraceConfig()
        tracing.on_request_end.append(lambda _session, _context, end: _record_rejection(end, rejections))
        # aiohttp would follow a redirect with the client certificate.
        tracing.on_request_redirect.append(lambda _session, _context, found: _reject_redirect(request, found))
        session = await stack.enter_async_context(
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
            **self._connection_options(identity),
        )
        with _converting_errors(request):
            try:
                return await stack.enter_async_context(opening)
            except aiohttp.WSServerHandshakeError as error:
                if rejections:
                    raise rejections[-1] from error
                raise

    async def _send(self, request: Request, deadline: "_Deadline") -> bytes:
        last: TooManyRequestsError | ServerError | None = None
        for retries_left in reversed(range(MAX_RETRIES + 1)):
            try:
                return await self._send_once(request, deadline)
            except NotSentError as error:
                if last is None:
                    raise
                # An earlier attempt was sent, so its response is the result.
                raise last from error
            except (TooManyRequestsError, ServerError) as error:
                last = error
                wait = error.retry_after
                if wait is None or wait >= deadline.seconds_left() or not retries_left:
                    raise
                await self._sleep(wait)
        raise AssertionError("unreachable: the last iteration returns or raises")

    async def _send_once(self, request: Request, deadline: "_Deadline") -> bytes:
        await self._wait_for_rate_limit(request, deadline.seconds_left())
        async with self._slots, contextlib.AsyncExitStack() as stack:
            deadline.has_request_started = True
            response = await self._with_renewal(lambda identity: self._accepted(request, identity, stack))
            with _converting_errors(request):
                return await response.read()

    async def _wait_for_rate_limit(self, request: Request, seconds: float) -> None:
        if self._rate_limit is None:
            return
        wait = self._rate_limit.take()
        if wait >= seconds:
            self._rate_limit.give_back()
            raise NotSentError(
                f"{request}: not sent: the client's rate limit would delay it for {wait:.1f} s"
            )
        try:
            await self._sleep(wait)
        except asyncio.CancelledError:
            self._rate_limit.give_back()
            raise

    async def _renewed(self, identity: Identity, rejection: UnauthorizedError) -> Identity:
        try:
            renewed = await self.access.renewed(identity)
        except AccessError as error:
            failure = rejection.failure
            message = f"{failure.message}; cannot renew the credentials: {error}"
            raise UnauthorizedError(ApiFailure(failure.code, failure.reason, message)) from error
        if renewed is identity:
            raise rejection
        return renewed

    async def _accepted(
        self, request: Request, identity: Identity, stack: contextlib.AsyncExitStack
    ) -> aiohttp.ClientResponse:
        """Return a 2xx response whose body is not read yet."""
        started_at = time.monotonic()
        code = 0
        accept = self._negotiation.accept(request)
        content_type, body = self._negotiation.body(request)
        headers = [("Accept", accept), ("User-Agent", self._user_agent), *identity.headers]
        if content_type:
            headers.append(("Content-Type", content_type))
        try:
            with _converting_errors(request):
                sending = self._request(request, identity, headers, body)
                response = await stack.enter_async_context(sending)
                code = response.status
                if not _is_kubernetes(response):
                    raise NotKubernetesError(f"{request}: {_not_kubernetes_message(response)}")
                if self._on_date is not None and "Date" in response.headers:
                    self._on_date(response.headers["Date"], time.monotonic() - started_at)
                if 200 <= code < 300:
                    self._negotiation.record(response.content_type)
                    return response
                error = errors.from_response(code, response.headers, await response.read())
        finally:
            self._observe(request, code, time.monotonic() - started_at)
        if self._negotiation.falls_back(code, accept, content_type):
            return await self._accepted(request, identity, stack)
        raise error

    def _request(
        self, request: Request, identity: Identity, headers: list[tuple[str, str]], body: bytes
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._opened_session().request(
            request.method,
            self._url(request),
            data=body or None,
            headers=headers,
            **self._connection_options(identity),
            allow_redirects=False,
        )

    def _connection_options(self, identity: Identity) -> dict[str, Any]:
        return {
            "ssl": identity.ssl_context or True,
            "server_hostname": identity.server_name or None,
            "proxy": self._proxy,
            "proxy_headers": self._proxy_headers,
        }

    def _url(self, request: Request) -> yarl.URL:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return yarl.URL(f"{self.access.server}{request.path}{query}", encoded=True)

    def _opened_session(self) -> aiohttp.ClientSession:
        """Return the session, which is created at the first request because it belongs to the running loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_connector(self.access),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                read_bufsize=_READ_BYTES,
            )
        return self._session


class Channels:
    """An open WebSocket. Its messages are described in `streams`."""

    def __init__(self, request: Request, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._request = request
        self._websocket = websocket

    @property
    def protocol(self) -> str:
        """The subprotocol that the server has chosen; empty for none."""
        return self._websocket.protocol or ""

    async def send(self, message: bytes) -> None:
        """Send a message, and wait for buffer space. Raise NoValidResponseError for a lost connection."""
        with _converting_errors(self._request):
            await self._websocket.send_bytes(message)

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages until the server closes the WebSocket. Raise NoValidResponseError for a lost connection."""
        while True:
            with _converting_errors(self._request):
                message = await self._websocket.receive()
            match message.type:
                case aiohttp.WSMsgType.BINARY:
                    yield message.data
                case aiohttp.WSMsgType.TEXT:
                    yield message.data.encode()
                case aiohttp.WSMsgType.CLOSE:
                    return  # kubelets may close the connection before they receive the answer to this message
                case aiohttp.WSMsgType.ERROR:
                    raise NoValidResponseError(f"{self._request}: {message.data}")
                case _:
                    break
        if self._websocket.close_code in (None, aiohttp.WSCloseCode.ABNORMAL_CLOSURE):
            raise NoValidResponseError(f"{self._request}: the connection was lost")


async def _record_rejection(
    end: aiohttp.TraceRequestEndParams, rejections: list[errors.ResponseError]
) -> None:
    response = end.response
    if response.status >= 300:
        rejections.append(errors.from_response(response.status, response.headers, await response.read()))


async def _reject_redirect(request: Request, found: aiohttp.TraceRequestRedirectParams) -> None:
    raise NotKubernetesError(f"{request}: {_not_kubernetes_message(found.response)}")


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self.has_request_started = False

    def seconds_left(self) -> float:
        return self._at - time.monotonic()


def _connector(access: Access) -> aiohttp.BaseConnector:
    # The number of connections is not limited here, because streams hold connections for minutes. The semaphore of
    # Transport limits other requests.
    if access.socket_path:
        return aiohttp.UnixConnector(access.socket_path, limit=0)
    return aiohttp.TCPConnector(
        limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=sockets.with_keepalive
    )


def _proxy(access: Access) -> tuple[yarl.URL | None, dict[str, str]]:
    """Return the proxy and its headers. The option `trust_env` of aiohttp is not used: it would read ~/.netrc before
    each request, and fail if that file contains the server."""
    proxy, auth = None, None
    if access.proxy:
        proxy, auth = helpers.strip_auth_from_url(yarl.URL(access.proxy))
    elif access.may_use_environment_proxy:
        with contextlib.suppress(LookupError):
            proxy, auth = helpers.get_env_proxy_for_url(yarl.URL(access.server))
    return proxy, {"Proxy-Authorization": auth.encode()} if auth else {}


async def _chunks(request: Request, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    with _converting_errors(request):
        async for chunk in response.content.iter_any():
            yield chunk


@contextlib.contextmanager
def _converting_errors(request: Request) -> Iterator[None]:
    """Convert errors of aiohttp and the network into an ApiError that names the request."""
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
        raise NoValidResponseError(f"{request}: {error or type(error).__name__}") from error


def _target(error: aiohttp.ClientConnectorError) -> str:
    """Return the address of the failed connection, which may be that of a proxy."""
    if isinstance(error, UnixClientConnectorError):
        return error.path
    return f"[{error.host}]:{error.port}" if ":" in error.host else f"{error.host}:{error.port}"


def _reason(error: Exception) -> str:
    """Return the message of the operating system or of OpenSSL, without source locations."""
    message = getattr(error, "strerror", None) or str(error)
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        message = os.strerror(error.errno or 0)
    return _SOURCE_LINE.sub("", message)


def _is_kubernetes(response: aiohttp.ClientResponse) -> bool:
    """Return whether the response may be from an API server. Redirects are not, nor are HTML pages with status 2xx or
    404, e.g. the login form of a proxy. HTML pages with other errors are accepted."""
    is_redirect = 300 <= response.status < 400
    is_rejection = response.status >= 400 and response.status != 404
    is_page = response.content_type == "text/html" and not is_rejection
    return not is_redirect and not is_page


def _not_kubernetes_message(response: aiohttp.ClientResponse) -> str:
    target = response.headers.get("Location", "")
    redirect = f" redirect to {target}" if target else ""
    return f"the response ({response.status} {response.content_type}{redirect}) is not from a Kubernetes API server"


def _ignore(request: Request, code: int, seconds: float) -> None:
    pass
