"""The connection to the cluster. Importing this module imports the HTTP client."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from windlass.install.errors import InstallError
from windlass.kubeapi import access
from windlass.kubeapi.errors import AccessError, NoValidResponseError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport


@asynccontextmanager
async def connect(kubeconfig: str, context: str) -> AsyncIterator[Callable[[Request], Awaitable[bytes]]]:
    try:
        cluster = await access.load(kubeconfig, context)
    except AccessError as error:
        raise InstallError(f"{str(error).removesuffix('.')}. Check --kubeconfig and --context.") from error
    async with Transport(cluster) as transport:

        async def send(request: Request) -> bytes:
            """Send a request. If there is no valid response, the error names the server."""
            try:
                return await transport.send(request)
            except NoValidResponseError as error:
                server = f"{cluster.server} of {cluster.source}" if cluster.source else cluster.server
                raise type(error)(f"{server}: {error}") from error

        yield send
