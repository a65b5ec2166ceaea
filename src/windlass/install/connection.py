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
        found = await access.load(kubeconfig, context)
    except AccessError as error:
        raise InstallError(f"{str(error).removesuffix('.')}. Check --kubeconfig and --context.") from error
    async with Transport(found) as transport:

        async def send(request: Request) -> bytes:
            """Send a request, and name the server if it does not answer."""
            try:
                return await transport.send(request)
            except NoValidResponseError as error:
                where = f"{found.server} of {found.source}" if found.source else found.server
                raise type(error)(f"{where}: {error}") from error

        yield send
