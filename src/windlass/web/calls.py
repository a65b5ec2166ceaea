"""Requests to the API: who sends them, what they ask for, and how they are answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from aiohttp import web

from windlass.client.connection import Connection
from windlass.k8s.formats import is_object_name
from windlass.web import problems
from windlass.web.schema import ErrorBody
from windlass.web.sessions import Session
from windlass.web.viewers import Viewer

PING_SECONDS = 15.0
MIN_COMPRESSED_BYTES = 4096

T = TypeVar("T")


class Call:
    """An authenticated request. `session` is None if a proxy authenticates each request."""

    def __init__(
        self, request: web.Request, viewer: Viewer, session: Session | None, csrf_token: str
    ) -> None:
        self.request = request
        self.viewer = viewer
        self.session = session
        self.csrf_token = csrf_token
        self.is_alive: Callable[[], bool] = lambda: True
        """Whether the session still exists; a call of a stream counts as use."""
        self._could_read_logs = False
        self.is_own_machine = False
        """Whether the server runs on the machine of the viewer, as the viewer."""

    @property
    def namespace(self) -> str:
        return self._name("namespace")

    @property
    def name(self) -> str:
        return self._name("name")

    @property
    def connection(self) -> Connection:
        """The connection to the namespace in the path."""
        return self.viewer.at(self.namespace)

    def scope(self) -> str:
        """Return the namespace of the query, or `*` for all. Raises ProblemError."""
        scope = self.query("namespace") or self.viewer.connection.namespace
        if scope != "*" and not is_object_name(scope):
            raise problems.invalid(f"namespace: found {scope!r}, expected a name or *")
        return scope

    def query(self, name: str, default: str = "") -> str:
        return str(self.request.query.get(name, default))

    def flag(self, name: str) -> bool:
        return self.query(name) in ("1", "true")

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a number of the query. Raises ProblemError."""
        text = self.query(name, str(default))
        if not text.isdecimal() or not least <= int(text[:12]) <= most:
            raise problems.invalid(f"{name}: found {text[:50]!r}, expected a number from {least} to {most}")
        return int(text)

    async def body(self, kind: type[T]) -> T:
        """Decode the JSON of the request. Raises ProblemError."""
        return await decode_body(self.request, kind)

    async def may_read_logs(self) -> bool:
        """Return whether the viewer may read logs in the namespace of the path. Raises ProblemError if the permission
        was withdrawn since the last call."""
        is_allowed = await self.viewer.may_read_logs(self.namespace)
        if self._could_read_logs and not is_allowed:
            raise problems.forbidden(f"you may no longer read logs in the namespace {self.namespace}")
        self._could_read_logs = is_allowed
        return is_allowed

    def require_session(self) -> None:
        """Check that a response that takes long may continue. Raises ProblemError if the session has ended."""
        if not self.is_alive():
            raise problems.session_expired("the session has expired. Log in again.")

    def _name(self, part: str) -> str:
        name = self.request.match_info[part]
        if not is_object_name(name):
            raise problems.invalid(f"{part}: {name[:100]!r} is not a name of Kubernetes")
        return name


async def decode_body(request: web.Request, kind: type[T], limit: int | None = None) -> T:
    """Decode the JSON of a request of at most `limit` bytes. Raises ProblemError and HTTPRequestEntityTooLarge."""
    limited = request if limit is None else request.clone(client_max_size=limit)
    try:
        return msgspec.json.decode(await limited.read(), type=kind)
    except msgspec.DecodeError as error:
        raise problems.invalid(f"the request is invalid: {error}") from error


Handler = Callable[[Call], Awaitable[Any]]
"""Returns a struct, which is encoded, or a response."""


class Parameter(msgspec.Struct, frozen=True):
    name: str
    description: str
    default: str = ""


class Route(msgspec.Struct, frozen=True):
    """One operation of the API."""

    method: str
    path: str
    handle: Handler
    summary: str
    answer: Any = None
    """Type of the JSON of the answer. None: see `content_type`."""
    body: Any = None
    """Type of the JSON of the request."""
    query: tuple[Parameter, ...] = ()
    content_type: str = "application/json"
    status: int = 200


def json_response(answer: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(answer)
    response = web.Response(body=body, status=status, content_type="application/json")
    if len(body) >= MIN_COMPRESSED_BYTES:
        response.enable_compression()
    return response


class EventStream:
    """Server-sent events, while the session exists and `check`, which each ping calls, raises no error."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.check: Callable[[], Awaitable[None]] | None = None
        self._exits = contextlib.ExitStack()
        self._response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )

    async def __aenter__(self) -> Self:
        self._exits.enter_context(self._call.viewer.stream())
        try:
            await self._response.prepare(self._call.request)
        except BaseException:
            self._exits.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Send the error that ends the stream."""
        self._exits.close()
        problem = None
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            problem = problems.from_error(error, self._call.viewer.connection)
        if problem is not None:
            with contextlib.suppress(ConnectionError):
                await self.send("error", ErrorBody(code=problem.code, message=problem.message))
        return problem is not None or isinstance(error, ConnectionError)

    @property
    def response(self) -> web.StreamResponse:
        return self._response

    async def send(self, event: str, data: Any) -> None:
        # JSON has no line breaks outside of strings, and escapes those in strings.
        await self._response.write(b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data)))

    async def pinging(self, awaited: Awaitable[T]) -> T:
        """Wait, and send pings meanwhile. Raises ProblemError if the session ends, and the errors of the check."""
        work = asyncio.ensure_future(awaited)
        try:
            while not (await asyncio.wait({work}, timeout=PING_SECONDS))[0]:
                await self._require_permission()
                await self.send("ping", {})
            await self._require_permission()
            return work.result()
        finally:
            work.cancel()

    async def _require_permission(self) -> None:
        self._call.require_session()
        if self.check is not None:
            await self.check()


@contextlib.asynccontextmanager
async def pieces(
    call: Call,
    content_type: str,
    error_line: Callable[[str], bytes],
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[web.StreamResponse]:
    """Open a response of any length. An error in the block ends it with a line."""
    response = web.StreamResponse(
        headers={"Content-Type": content_type, "X-Accel-Buffering": "no", **(headers or {})}
    )
    with call.viewer.stream(), contextlib.suppress(ConnectionError):
        await response.prepare(call.request)
        try:
            yield response
        except Exception as error:
            problem = problems.from_error(error, call.viewer.connection)
            if problem is None:
                raise
            await response.write(error_line(problem.message))
        await response.write_eof()
