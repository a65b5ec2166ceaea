"""The way to the cluster that a person means."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from windlass.install.refusals import InstallError
from windlass.kubeapi import access
from windlass.kubeapi.errors import AccessError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.transport import Transport


@asynccontextmanager
async def connected(kubeconfig: str, context: str) -> AsyncIterator[Callable[[Request], Awaitable[bytes]]]:
    try:
        found = await access.load(kubeconfig, context)
    except AccessError as unknown:
        raise InstallError(f"{unknown} Check --kubeconfig and --context.") from unknown
    async with Transport(found) as transport:
        yield transport.send
