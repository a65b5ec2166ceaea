"""Serves /metrics, /healthz and /readyz over HTTP. The responses contain no secrets.

The endpoints run on the controller's event loop, so /healthz answers as long as the loop runs.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

SHUTDOWN_SECONDS = 1.0
"""Time that running requests have to finish at shutdown."""

HealthCheck = Callable[[], str]
"""Returns an error message, or an empty string if the check succeeds."""


class ListenError(Exception):
    """The address cannot be bound."""


@contextlib.asynccontextmanager
async def serving(
    host: str,
    port: int | None,
    *,
    metrics: Callable[[], bytes],
    content_type: str,
    check_liveness: HealthCheck,
    check_readiness: HealthCheck,
) -> AsyncIterator[int | None]:
    """Serve the endpoints and yield their port. Port 0 selects a free port; None disables the endpoints."""
    if port is None:
        yield None
        return
    headers = {"Content-Type": content_type}
    application = web.Application()
    application.router.add_get("/metrics", _handler(lambda: web.Response(body=metrics(), headers=headers)))
    application.router.add_get("/healthz", _handler(lambda: _health_response(check_liveness())))
    application.router.add_get("/readyz", _handler(lambda: _health_response(check_readiness())))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        yield await _listen(runner, host, port)
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> int:
    try:
        # An empty host stands for all addresses.
        await web.TCPSite(runner, host or None, port).start()
    except OSError as error:
        address = f"{host or 'any address'}, port {port}"
        reason = error.strerror or str(error)
        raise ListenError(f"cannot serve /metrics, /healthz and /readyz on {address}: {reason}") from error
    bound_port: int = runner.addresses[0][1]
    return bound_port


def _handler(respond: Callable[[], web.Response]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        return respond()

    return handle


def _health_response(problem: str) -> web.Response:
    return web.Response(text=f"{problem}\n", status=503) if problem else web.Response(text="ok\n")
