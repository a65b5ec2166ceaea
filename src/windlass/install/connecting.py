"""The way to the cluster that a person means."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from windlass.install.refusals import InstallError
from windlass.kubeapi import access
from windlass.kubeapi.errors import AccessError, UnansweredError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport


@asynccontextmanager
async def connected(kubeconfig: str, context: str) -> AsyncIterator[Callable[[Request], Awaitable[bytes]]]:
    try:
        found = await access.load(kubeconfig, context)
    except AccessError as unknown:
        raise InstallError(
            f"{str(unknown).removesuffix('.')}. Check --kubeconfig and --context."
        ) from unknown
    async with Transport(found) as transport:

        async def send(request: Request) -> bytes:
            """As the transport does; whoever does not answer is named."""
            try:
                return await transport.send(request)
            except UnansweredError as error:
                where = f"{found.server} of {found.source}" if found.source else found.server
                raise type(error)(f"{where}: {error}") from error

        yield send
