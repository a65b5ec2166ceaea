"""A connection to one cluster and namespace. Translates errors of the API server into messages for users."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec

from windlass.client.errors import (
    AccessDeniedError,
    ClientError,
    CredentialsRejectedError,
    NoClusterError,
    ObjectNotFoundError,
    RejectedError,
    UnreachableError,
)
from windlass.kubeapi import access as accesses
from windlass.kubeapi import errors, local_cluster
from windlass.kubeapi.access import Access
from windlass.kubeapi.requests import Request, Verb
from windlass.kubeapi.resources import Resource
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.wire import durations

FIRST_ANSWER_SECONDS = 4.0
"""Timeout of requests before the first response. With the start of the program, a user waits at most 5 s for an
error."""
CONNECT_TIMEOUT = "WINDLASS_CONNECT_TIMEOUT"
"""Environment variable that overrides FIRST_ANSWER_SECONDS, for slow networks and busy machines."""
RESPONSE_TIMEOUT = 30.0
"""Timeout of later requests in seconds."""


EMBEDDED = "+windlass"
"""Part of the version of embedded clusters, whose pods are processes on one machine."""
_READING_VERBS = (Verb.GET, Verb.LIST, Verb.WATCH)


class _Version(msgspec.Struct, frozen=True):
    git_version: str = msgspec.field(default="", name="gitVersion")


class Connection:
    def __init__(
        self,
        transport: Transport,
        namespace: str,
        *,
        has_answered: bool = False,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`has_answered`: the server has responded to an earlier connection. `announce` is called with the name of the
        cluster before each change."""
        self.transport = transport
        self.namespace = namespace
        self._has_answered = has_answered
        self._announce = announce

    @property
    def access(self) -> Access:
        return self.transport.access

    @property
    def where(self) -> str:
        """The address and its kubeconfig context, for messages."""
        access = self.transport.access
        address = access.socket_path or access.server
        return f"{address} of {access.source}" if access.source else address

    async def send(self, request: Request) -> bytes:
        """Return the body of the response. Raises errors.ResponseError for error responses, and ClientError."""
        seconds = RESPONSE_TIMEOUT if self._has_answered else _first_answer_seconds()
        if request.verb not in _READING_VERBS:
            self._announce(self.where)
        try:
            answer = await self.transport.send(request, seconds)
        except errors.ResponseError:
            self._has_answered = True
            raise
        except (errors.NoValidResponseError, errors.AccessError) as error:
            raise self.to_client_error(error) from error
        self._has_answered = True
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the body of the response in chunks. Raises as `send` does."""
        try:
            async with self.transport.stream(request) as chunks:
                self._has_answered = True
                yield chunks
        except (errors.NoValidResponseError, errors.AccessError) as error:
            raise self.to_client_error(error) from error

    def at(self, namespace: str) -> "Connection":
        """Return a connection to another namespace of the same cluster."""
        if namespace in ("", self.namespace):
            return self
        return Connection(self.transport, namespace, has_answered=self._has_answered, announce=self._announce)

    async def version(self) -> str:
        """Return the version of the API server; empty if the user may not read it."""
        try:
            answer = await self.send(Request(Verb.GET, "GET", Resource("", "", ""), "/version"))
        except errors.ResponseError:
            return ""
        return msgspec.json.decode(answer, type=_Version).git_version

    async def is_embedded(self) -> bool:
        """Return whether the cluster is an embedded one, whose pods are processes on one machine."""
        return EMBEDDED in await self.version()

    @contextlib.contextmanager
    def converting_errors(self) -> Iterator[None]:
        """Convert unhandled API and access errors to ClientError."""
        try:
            yield
        except (errors.ApiError, errors.AccessError) as error:
            raise self.to_client_error(error) from error

    def expected_error(self, error: Exception) -> ClientError | None:
        """Return the error for the user; None for an error that is not one of the API or the credentials."""
        if isinstance(error, ClientError | errors.ApiError | errors.AccessError):
            return self.to_client_error(error)
        return None

    def to_client_error(self, error: Exception) -> ClientError:
        """Return the error for the user."""
        match error:
            case ClientError():
                return error
            case errors.AccessError():
                return NoClusterError(str(error))
            case errors.UnauthorizedError():
                return CredentialsRejectedError(
                    f"{self.where} rejected your credentials: {error.failure.message}. "
                    "Check --kubeconfig and --context."
                )
            case errors.ForbiddenError():
                return AccessDeniedError(
                    f"{self.where} denied access: {error.failure.message}. "
                    "Ask for a role in this namespace, or choose another one with --namespace."
                )
            case errors.NotFoundError():
                return ObjectNotFoundError(f"{self.where}: {error.failure.message}")
            case errors.ResponseError():
                return RejectedError(f"{self.where} rejected the request: {error.failure.message}")
            case errors.NotTrustedError():
                return UnreachableError(
                    f"{self.where} is not trusted: {error}. Check that --kubeconfig and --context belong to this "
                    "cluster and contain its certificate-authority-data."
                )
            case errors.NotKubernetesError():
                return UnreachableError(
                    f"{self.where} is not a Kubernetes API server: {error}. Check --kubeconfig and --context, and "
                    "whether there is a proxy in between."
                )
        if local_cluster.contains(self.transport.access.source):
            return UnreachableError(
                f"{self.where} does not respond: {error}. Check it with `windlass local status`, and start it with "
                "`windlass local up`."
            )
        return UnreachableError(
            f"{self.where} does not respond: {error}. "
            "Check that the cluster is running, and check --kubeconfig and --context."
        )


@contextlib.asynccontextmanager
async def connected(
    kubeconfig: str = "",
    context: str = "",
    namespace: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Connection]:
    """Connect to the cluster that kubectl would use, or to that of `windlass local`: see `local_cluster`.

    `announce` is called with the name of the cluster before each change. Raises NoClusterError.
    """
    async with connected_with(await load_access(kubeconfig, context), namespace, announce) as connection:
        yield connection


async def load_access(kubeconfig: str = "", context: str = "") -> Access:
    """Return the address and credentials of the cluster that `connected` uses. Raises NoClusterError."""
    try:
        return await accesses.load(local_cluster.selected(kubeconfig, context), context)
    except errors.AccessError as error:
        advice = (
            "Or omit the context to use the cluster of `windlass local up`"
            if context
            else 'Or start a cluster on this machine: eval "$(windlass local up)"'
        )
        raise NoClusterError(f"{str(error).removesuffix('.')}. {advice}.") from error


@contextlib.asynccontextmanager
async def connected_with(
    access: Access, namespace: str = "", announce: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Connection]:
    """Connect with known credentials. API errors in the block become ClientError."""
    async with Transport(access, user_agent="windlass") as transport:
        connection = Connection(
            transport, namespace or access.namespace or names.DEFAULT_NAMESPACE, announce=announce
        )
        with connection.converting_errors():
            yield connection


def _first_answer_seconds() -> float:
    timeout = os.environ.get(CONNECT_TIMEOUT, "")
    try:
        return durations.parse(timeout) if timeout else FIRST_ANSWER_SECONDS
    except ValueError as error:
        raise ClientError(f"{CONNECT_TIMEOUT}: {error}") from error
