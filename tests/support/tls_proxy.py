"""A proxy that ends TLS in front of an HTTP server, as an ingress does."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.kubeapi.certificates import Authority, server_context

_MAX_HEAD_BYTES = 1 << 16
_CHUNK = 1 << 16


class TlsProxy:
    """Forwards each connection to `target`, and adds X-Forwarded-Proto to its first request."""

    url: str

    def __init__(self) -> None:
        self.target = ""
        """URL of the server. It may be set after the proxy has started."""

    async def serve(self, folder: Path, started: threading.Event, ended: asyncio.Event) -> None:
        context = server_context(folder, Authority().sign("proxy", "127.0.0.1"))
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0, ssl=context, limit=_MAX_HEAD_BYTES)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await ended.wait()
        server.close()

    async def _forward(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            line = await client.readuntil(b"\r\n")
            address = urlsplit(self.target)
            server, to_server = await asyncio.open_connection(address.hostname, address.port)
            # One request for each connection, so that every request gets the field.
            to_server.write(line + b"X-Forwarded-Proto: https\r\n")
            await asyncio.gather(_copy(client, to_server), _copy(server, to_client))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
    target.close()


@contextlib.contextmanager
def tls_proxy(folder: Path) -> Iterator[TlsProxy]:
    """Run a proxy in a thread until the end of the block."""
    proxy, started = TlsProxy(), threading.Event()
    with asyncio.Runner() as runner:
        loop, ended = runner.get_loop(), asyncio.Event()
        thread = threading.Thread(target=runner.run, args=(proxy.serve(folder, started, ended),))
        thread.start()
        started.wait()
        try:
            yield proxy
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()
