"""The connection to the cluster. Importing this module imports the HTTP client."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from windlass.install.errors import InstallError
from windlass.kubeapi import access, local_cluster
from windlass.kubeapi.errors import AccessError, NoValidResponseError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport


@asynccontextmanager
async def connect(
    kubeconfig: str, context: str, announce: Callable[[str], None]
) -> AsyncIterator[Callable[[Request], Awaitable[bytes]]]:
    """Connect to the cluster, and call `announce` with its name after each response."""
    try:
        cluster = await access.load(local_cluster.selected(kubeconfig, context), context)
    except AccessError as error:
        raise InstallError(f"{str(error).removesuffix('.')}. Check --kubeconfig and --context.") from error
    name = f"{cluster.server} of {cluster.source}" if cluster.source else cluster.server
    async with Transport(cluster) as transport:

        async def send(request: Request) -> bytes:
            """Send a request. If there is no valid response, the error names the server."""
            try:
                answer = await transport.send(request)
            except NoValidResponseError as error:
                raise type(error)(f"{name}: {error}") from error
            announce(name)
            return answer

        yield send
