"""What the controller answers over HTTP: /metrics, /healthz, /readyz. Nothing in there is secret, and nothing acts.

The answers come from the event loop that the controller itself runs on: /healthz is answered as long as it turns.
"""

import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web

SHUTDOWN_SECONDS = 1.0
"""A scrape that takes longer does not hold up the end."""

Trouble = Callable[[], str]
"""Says what is wrong; an empty text when nothing is."""


class ListenError(Exception):
    """Nobody can be answered there."""


@contextlib.asynccontextmanager
async def serving(
    host: str,
    port: int | None,
    *,
    metrics: Callable[[], bytes],
    content_type: str,
    alive: Trouble,
    ready: Trouble,
) -> AsyncIterator[int | None]:
    """Gives the port that it listens on: a free one where 0 was asked for. Without a port nothing is served."""
    if port is None:
        yield None
        return
    runner = web.AppRunner(
        _application(metrics, content_type, alive, ready), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        yield await _listen(runner, host, port)
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> int:
    try:
        # Without a host it listens on all addresses.
        await web.TCPSite(runner, host or None, port).start()
    except OSError as error:
        where = f"{host or 'any address'}, port {port}"
        why = error.strerror or str(error)
        raise ListenError(f"/metrics, /healthz and /readyz cannot be served on {where}: {why}") from error
    listening: int = runner.addresses[0][1]
    return listening


def _application(
    metrics: Callable[[], bytes], content_type: str, alive: Trouble, ready: Trouble
) -> web.Application:
    async def answer_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": content_type})

    async def answer_healthz(_: web.Request) -> web.Response:
        return _answer(alive())

    async def answer_readyz(_: web.Request) -> web.Response:
        return _answer(ready())

    application = web.Application()
    application.router.add_get("/metrics", answer_metrics)
    application.router.add_get("/healthz", answer_healthz)
    application.router.add_get("/readyz", answer_readyz)
    return application


def _answer(trouble: str) -> web.Response:
    return web.Response(text=f"{trouble}\n", status=503) if trouble else web.Response(text="ok\n")
