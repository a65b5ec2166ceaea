"""The way to one cluster and one namespace of it; what its API server says becomes one message for a person."""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator

from windlass.client.errors import ClientError, NoClusterError, NotThereError, RefusedError, UnreachableError
from windlass.kubeapi import access as accesses
from windlass.kubeapi import errors
from windlass.kubeapi.access import Access
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.wire import durations

FIRST_ANSWER_SECONDS = 4.0
"""A server that does not answer by then is called unreachable. Nobody should look at a silent terminal for more than
5 s, of which the start of the program is a part."""
CONNECT_TIMEOUT = "WINDLASS_CONNECT_TIMEOUT"
"""In the environment: another time in place of that, for slow lines and busy machines."""
ANSWER_SECONDS = 30.0


class Connection:
    def __init__(self, transport: Transport, namespace: str, *, has_answered: bool = False) -> None:
        """`has_answered`: somebody has spoken with this server already."""
        self.transport = transport
        self.namespace = namespace
        self._has_answered = has_answered

    @property
    def where(self) -> str:
        """For messages: the address, and the context that led to it."""
        access = self.transport.access
        address = access.socket_path or access.server
        return f"{address} of {access.source}" if access.source else address

    async def send(self, request: Request) -> bytes:
        """The body of the answer. Raises errors.AnsweredError for callers that expect one, and ClientError."""
        seconds = ANSWER_SECONDS if self._has_answered else _first_answer_seconds()
        try:
            answer = await self.transport.send(request, seconds)
        except errors.AnsweredError:
            self._has_answered = True
            raise
        except (errors.UnansweredError, errors.AccessError) as error:
            raise self.explained(error) from error
        self._has_answered = True
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of the answer in pieces, as they come. Raises as `send` does."""
        try:
            async with self.transport.stream(request) as chunks:
                self._has_answered = True
                yield chunks
        except (errors.UnansweredError, errors.AccessError) as error:
            raise self.explained(error) from error

    def at(self, namespace: str) -> "Connection":
        """The same way, to another namespace."""
        if namespace in ("", self.namespace):
            return self
        return Connection(self.transport, namespace, has_answered=self._has_answered)

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """An error of the API server that nobody on the way has treated leaves as a ClientError."""
        try:
            yield
        except (errors.ApiError, errors.AccessError) as error:
            raise self.explained(error) from error

    def explained(self, error: Exception) -> ClientError:
        """What somebody is told who can do nothing else about it."""
        match error:
            case ClientError():
                return error
            case errors.AccessError():
                return NoClusterError(str(error))
            case errors.UnauthorizedError():
                return RefusedError(
                    f"{self.where} does not know who you are: {error.failure.message}. "
                    "Check --kubeconfig and --context."
                )
            case errors.ForbiddenError():
                return RefusedError(
                    f"{self.where} does not allow it: {error.failure.message}. "
                    "Ask for a role in this namespace, or choose another with --namespace."
                )
            case errors.NotFoundError():
                return NotThereError(f"{self.where}: {error.failure.message}")
            case errors.AnsweredError():
                return RefusedError(f"{self.where} does not take it: {error.failure.message}")
            case errors.NotTrustedError():
                return UnreachableError(
                    f"{self.where} is not trusted: {error}. Check that --kubeconfig and --context are those of this "
                    "cluster: its certificate-authority-data says whom to trust."
                )
            case errors.NotKubernetesError():
                return UnreachableError(
                    f"{self.where} is no Kubernetes: {error}. Check --kubeconfig and --context, and whether a proxy "
                    "stands between."
                )
        return UnreachableError(
            f"{self.where} does not answer: {error}. Check that the cluster runs, and --kubeconfig and --context."
        )


@contextlib.asynccontextmanager
async def connected(
    kubeconfig: str = "", context: str = "", namespace: str = ""
) -> AsyncIterator[Connection]:
    """To the cluster that a person means, as kubectl finds it. Raises NoClusterError."""
    try:
        access = await accesses.load(kubeconfig, context)
    except errors.AccessError as error:
        raise NoClusterError(
            f'{str(error).removesuffix(".")}. Or begin with a cluster on this machine: eval "$(windlass local up)".'
        ) from error
    async with connected_by(access, namespace) as connection:
        yield connection


@contextlib.asynccontextmanager
async def connected_by(access: Access, namespace: str = "") -> AsyncIterator[Connection]:
    """What goes wrong in the block leaves as a ClientError."""
    async with Transport(access, user_agent="windlass") as transport:
        connection = Connection(transport, namespace or access.namespace or names.DEFAULT_NAMESPACE)
        with connection.explaining():
            yield connection


def _first_answer_seconds() -> float:
    written = os.environ.get(CONNECT_TIMEOUT, "")
    try:
        return durations.seconds(written) if written else FIRST_ANSWER_SECONDS
    except ValueError as error:
        raise ClientError(f"{CONNECT_TIMEOUT}: {error}") from error
