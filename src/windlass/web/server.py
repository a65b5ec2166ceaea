"""The HTTP server of the dashboard: routes, identities, and the checks that every request has to pass."""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from windlass import __version__
from windlass.client.connection import Connection
from windlass.client.errors import CredentialsRejectedError
from windlass.web import openapi, page, problems
from windlass.web.calls import Call, Handler, Route, decode_body, json_response
from windlass.web.problems import ProblemError
from windlass.web.routes import API, ROUTES
from windlass.web.schema import ClusterInfo, Error, ErrorBody, Login, Mode, SessionInfo, stamp
from windlass.web.sessions import Sessions
from windlass.web.viewers import Viewer, Viewers

logger = logging.getLogger(__name__)

CSRF_HEADER = "X-Windlass-CSRF"
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_LOGIN_BYTES = 64 * 1024
SECURE_PREFIX = "__Host-"
"""Browsers accept a cookie of this name only over TLS from this host itself, not from another one of its domain."""
CLEANUP_SECONDS = 15.0
SHUTDOWN_SECONDS = 1.0
_READING = ("GET", "HEAD")
_REJECTED = "the cluster rejected your credentials: they may have expired. Log in again."
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    mode: Mode = Mode.LINK
    token_header: str = "Authorization"  # noqa: S105 — the name of a header
    """Name of the header in which a proxy forwards the token of the viewer."""
    hosts: tuple[str, ...] = ()
    """Host names, with port unless it is that of the scheme, at which browsers reach the server. Empty: in the mode
    LINK only loopback addresses, in other modes any."""
    cookie: str = "windlass-session"
    is_embedded: bool = False


class Server:
    """The application. `base` has the address of the cluster, and in the mode LINK the viewer's credentials."""

    def __init__(
        self,
        base: Connection,
        options: ServerOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sessions = Sessions(now)
        self.viewers = Viewers(base, monotonic)
        self._base = base
        self._options = options
        self._csrf_key = secrets.token_bytes(32)
        self.port = 0

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guard], client_max_size=MAX_BODY_BYTES)
        application.on_response_prepare.append(_add_headers)
        application.cleanup_ctx.append(self._cleaning_up)
        own = (
            Route("GET", f"{API}/session", self._read_session, "Describe the session.", SessionInfo),
            Route("DELETE", f"{API}/session", self._end_session, "Log out.", status=204),
        )
        router = application.router
        for route in (*own, *ROUTES):
            router.add_route(route.method, route.path, self._authenticated(route.handle))
        login = Route("POST", f"{API}/session", self._no_call, "Log in with a token.", SessionInfo, Login)
        router.add_post(login.path, self._log_in_with_token)
        document = openapi.document((*own, login, *ROUTES))

        async def read_openapi(_: web.Request) -> web.Response:
            return json_response(document)

        router.add_get(f"{API}/openapi.json", read_openapi)
        router.add_get("/healthz", _healthy)
        router.add_get("/login", self._log_in_with_code)
        router.add_get("/{path:.*}", page.serve)
        return application

    @contextlib.asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve, and yield the port. Raises OSError."""
        runner = web.AppRunner(
            self.application(),
            access_log=None,  # it would contain the codes of links
            handler_cancellation=True,  # a stream whose viewer has left ends
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host or None, port).start()
            self.port = runner.addresses[0][1]
            yield self.port
        finally:
            await runner.cleanup()

    def login_path(self) -> str:
        """Return the path of a new one-time link."""
        return f"/login?code={self.sessions.new_code()}"

    async def _cleaning_up(self, _: web.Application) -> AsyncIterator[None]:
        async def clean_up() -> None:
            while True:
                await asyncio.sleep(CLEANUP_SECONDS)
                self.sessions.remove_expired()
                await self.viewers.end_idle(self.sessions.identities())

        work = asyncio.create_task(clean_up())
        yield
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await self.viewers.close()

    # Checks

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: "Callable[[web.Request], Any]"
    ) -> web.StreamResponse:
        """Check where a request comes from, and answer errors in the format of the path."""
        is_api = request.path.startswith(f"{API}/")
        try:
            if request.path != "/healthz":
                self._require_known_host(request)
                self._require_own_origin(request, is_api=is_api)
            response: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            problem = ProblemError(
                error.status, "-".join(error.reason.lower().split()), f"{request.path}: {error.reason}"
            )
        except Exception as error:
            found = problems.from_error(error, self._base)
            if found is None:
                logger.exception("internal error of %s %s", request.method, request.path)
                found = ProblemError(500, "internal-error", "internal error. See the log of `windlass ui`.")
            problem = found
        else:
            return response
        if request.writer.output_size:
            raise ConnectionResetError("the response has already started")
        if not is_api:
            return page.text_page(problem.message, status=problem.status)
        mode = self._options.mode if problem.status == 401 else None
        body = ErrorBody(code=problem.code, message=problem.message, mode=mode, line=problem.line)
        return json_response(Error(error=body), problem.status)

    def _require_known_host(self, request: web.Request) -> None:
        """Reject a host name that somebody else has bound to this address (DNS rebinding)."""
        hosts = self._options.hosts
        if not hosts and self._options.mode is Mode.LINK:
            hosts = tuple(f"{host}:{self.port}" for host in ("127.0.0.1", "localhost", "[::1]"))
        if hosts and request.host.lower() not in hosts:
            raise ProblemError(421, "wrong-host", f"this server is not {request.host[:200]!r}")

    def _require_own_origin(self, request: web.Request, *, is_api: bool) -> None:
        """Reject requests that a page of another origin has sent. A page on another port has the same cookies."""
        allowed = {request.host.lower(), *self._options.hosts}
        origin = request.headers.get("Origin", "")
        found = urlsplit(origin)
        is_foreign = bool(origin) and (
            found.netloc.lower() not in allowed or (_is_secure(request) and found.scheme != "https")
        )
        site = request.headers.get("Sec-Fetch-Site", "none")
        if is_foreign or (is_api and site not in ("none", "same-origin")):
            raise ProblemError(403, "foreign-origin", "requests of other sites are not accepted")
        is_change = request.method not in _READING
        if is_change and request.method != "DELETE" and request.content_type != "application/json":
            raise ProblemError(415, "not-json", "the content type must be application/json")

    def _authenticated(self, handle: Handler) -> "Callable[[web.Request], Any]":
        async def answer(request: web.Request) -> web.StreamResponse:
            call = await self._call(request)
            is_change = request.method not in _READING
            token = request.headers.get(CSRF_HEADER, "")
            if is_change and not hmac.compare_digest(token.encode(), call.csrf_token.encode()):
                raise ProblemError(
                    403, "csrf", f"the header {CSRF_HEADER} is missing or wrong. Reload the page."
                )
            try:
                found = await handle(call)
            except Exception as error:
                converted = call.viewer.connection.expected_error(error)
                if isinstance(converted, CredentialsRejectedError):
                    self.sessions.reject(self._session_key(request))
                    await self.viewers.drop(call.viewer)
                    raise problems.session_expired(_REJECTED) from error
                raise
            return found if isinstance(found, web.StreamResponse) else json_response(found)

        return answer

    async def _call(self, request: web.Request) -> Call:
        """Return the call of an authenticated viewer. Raises ProblemError."""
        if self._options.mode is Mode.HEADER:
            identity = await self._identity(self._forwarded_token(request))
            viewer = self._viewer(identity)
            # The token may be renewed at any time, and the page keeps its CSRF token.
            owner = viewer.user or identity
            digest = hmac.new(self._csrf_key, owner.encode(), hashlib.sha256).hexdigest()
            return Call(request, viewer, None, digest)
        key = self._session_key(request)
        session = self.sessions.find(key)
        if session is None and not key:
            raise ProblemError(401, "no-session", self._login_advice)
        if session is None:
            raise problems.session_expired(self._login_advice)
        if session.is_rejected:
            raise problems.session_expired(_REJECTED)
        viewer = self._viewer(session.identity)
        call = Call(request, viewer, session, session.csrf_token)
        call.is_alive = lambda: self.sessions.touch(session)
        call.is_own_machine = self._options.mode is Mode.LINK
        return call

    def _viewer(self, identity: str) -> Viewer:
        viewer = self.viewers.find(identity)
        if viewer is None:
            raise problems.session_expired(self._login_advice)
        return viewer

    @property
    def _cookie(self) -> str:
        # Cookies do not depend on the port, and a user may have several of these servers.
        return (
            f"{self._options.cookie}-{self.port}" if self._options.mode is Mode.LINK else self._options.cookie
        )

    @property
    def _login_advice(self) -> str:
        match self._options.mode:
            case Mode.LINK:
                return (
                    "you are not logged in, or the session has expired. Open a new link with `windlass ui`."
                )
            case Mode.TOKEN:
                return "you are not logged in, or the session has expired. Log in with a token."
        return "the proxy forwarded no token. Check its configuration."

    # Sessions

    async def _identity(self, token: str) -> str:
        """Return the identity of a token. Raises ProblemError."""
        try:
            return await self.viewers.of_token(token)
        except Exception as error:
            if isinstance(self._base.expected_error(error), CredentialsRejectedError):
                raise ProblemError(
                    401, "invalid-token", "the cluster rejected the token: it is invalid or has expired"
                ) from error
            raise

    def _forwarded_token(self, request: web.Request) -> str:
        value = request.headers.get(self._options.token_header, "").strip()
        scheme, _, token = value.rpartition(" ")
        if not token or scheme.lower() not in ("", "bearer"):
            raise problems.session_expired(self._login_advice)
        return _valid_token(token)

    async def _log_in_with_code(self, request: web.Request) -> web.StreamResponse:
        if self._options.mode is not Mode.LINK:
            raise web.HTTPNotFound
        self.sessions.redeem(request.query.get("code", ""))
        response = web.Response(status=303, headers={"Location": "/", "Cache-Control": "no-store"})
        self._set_cookie(request, response, self.sessions.create(await self.viewers.of_process()))
        return response

    async def _log_in_with_token(self, request: web.Request) -> web.StreamResponse:
        if self._options.mode is not Mode.TOKEN:
            raise ProblemError(404, "not-found", "this server does not accept logins with tokens")
        token = _valid_token((await decode_body(request, Login, MAX_LOGIN_BYTES)).token.strip())
        key = self.sessions.create(await self._identity(token))
        session = self.sessions.find(key)
        assert session is not None  # noqa: S101 — it was just created
        call = Call(request, self._viewer(session.identity), session, session.csrf_token)
        response = json_response(await self._read_session(call))
        self._set_cookie(request, response, key)
        return response

    def _set_cookie(self, request: web.Request, response: web.Response, key: str) -> None:
        self.sessions.end(self._session_key(request))
        is_secure = _is_secure(request)
        name = SECURE_PREFIX + self._cookie if is_secure else self._cookie
        response.set_cookie(name, key, httponly=True, samesite="Strict", secure=is_secure, path="/")

    def _session_key(self, request: web.Request) -> str:
        """Return the value of the cookie; empty if there is none."""
        name = SECURE_PREFIX + self._cookie if _is_secure(request) else self._cookie
        return request.cookies.get(name, "")

    async def _read_session(self, call: Call) -> SessionInfo:
        access = self._base.access
        expires_at = None if call.session is None else datetime.fromtimestamp(call.session.expires_at, UTC)
        return SessionInfo(
            user=call.viewer.user,
            cluster=ClusterInfo(
                name=access.source or urlsplit(access.server).netloc,
                kind="embedded" if self._options.is_embedded else "kubernetes",
                server=access.server,
            ),
            namespace=call.viewer.connection.namespace,
            csrf_token=call.csrf_token,
            expires_at=stamp(expires_at),
            version=__version__,
            mode=self._options.mode,
        )

    async def _end_session(self, call: Call) -> web.StreamResponse:
        self.sessions.end(self._session_key(call.request))
        return web.Response(status=204)

    async def _no_call(self, call: Call) -> None:
        raise NotImplementedError


def _is_secure(request: web.Request) -> bool:
    """Return whether the browser uses TLS, also to a proxy in front of this server."""
    # Each proxy may add its own to the list.
    forwarded = request.headers.get("X-Forwarded-Proto", "").partition(",")[0]
    return request.secure or forwarded.strip().lower() == "https"


def _valid_token(token: str) -> str:
    """Return the token. Raises ProblemError for a text that cannot be sent in a header."""
    if not token or len(token) > 16 * 1024 or not token.isascii() or not token.isprintable() or " " in token:
        raise ProblemError(401, "invalid-token", "this is not a token")
    return token


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers[name] = value
    if request.path.startswith(f"{API}/"):
        response.headers["Cache-Control"] = "no-store"
    response.headers.pop("Server", None)
