"""Accepts TLS connections, and limits those whose client has not authenticated or does not have full access.

asyncio allocates 256 KiB for a TLS connection as soon as it is accepted. Without limits, a client without a token, e.g.
another user of the machine, or a pod with the token of its service account could exhaust the memory or the file
descriptors of the server.
"""

import asyncio
import logging
import socket
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

logger = logging.getLogger(__name__)

# For all listening sockets together.
MAX_UNAUTHENTICATED = 256
# All connections of users without full access, e.g. service accounts. They take about 300 MiB.
MAX_LIMITED = 1024
# The limits of the headers of a request also bound the memory of a connection without a token. Clients send about 10
# headers, of which the token is the longest.
_MAX_HEADERS = 48
_MAX_HEADER_BYTES = 4096
# The timeouts of kube-apiserver. The first one includes the TLS handshake.
HEAD_TIMEOUT_SECONDS = 32.0
IDLE_TIMEOUT_SECONDS = 90.0
_BACKLOG = 1024
_ACCEPT_RETRY_SECONDS = 1


class _Unauthenticated(NamedTuple):
    task: asyncio.Task[None]
    has_ended: asyncio.Event
    """Set when the client has authenticated or the connection is closed."""


class TlsServer(web.Server):
    """An HTTP server that closes a connection without an authenticated request after a timeout.

    If there are more than `MAX_UNAUTHENTICATED` such connections, it closes the oldest one. If it rejected the newest
    one, a few silent clients could lock out all others.

    If there are more than `MAX_LIMITED` connections of users without full access, it closes the oldest connection of
    the user with the most connections.
    """

    def __init__(
        self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], context: ssl.SSLContext
    ) -> None:
        super().__init__(
            handler,
            access_log=None,
            handler_cancellation=True,
            auto_decompress=False,
            max_headers=_MAX_HEADERS,
            max_field_size=_MAX_HEADER_BYTES,
            keepalive_timeout=IDLE_TIMEOUT_SECONDS,
        )
        self._context = context
        self._unauthenticated: dict[web.RequestHandler, _Unauthenticated] = {}
        self._user_of: dict[web.RequestHandler, str] = {}
        # The connections of each user, the oldest first.
        self._limited: defaultdict[str, dict[web.RequestHandler, None]] = defaultdict(dict)

    def listen(self, bound: socket.socket) -> asyncio.Task[None]:
        """Listen on a bound socket. Return a task that accepts connections and closes the socket when cancelled."""
        bound.listen(_BACKLOG)
        bound.setblocking(False)
        accepting = asyncio.create_task(self._accept(bound))
        accepting.add_done_callback(lambda _: bound.close())
        return accepting

    def admit(self, request: web.BaseRequest, limited_user: str) -> None:
        """Exempt the connection of an authenticated request from the limits that do not apply to its user.

        `limited_user` is the name of a user without full access, otherwise empty.
        """
        handler = request.protocol
        self._end_unauthenticated(handler)
        if not limited_user:
            self._forget_user(handler)
        elif handler not in self._user_of and handler.transport is not None:
            self._user_of[handler] = limited_user
            self._limited[limited_user][handler] = None
            if len(self._user_of) > MAX_LIMITED:
                self._close_oldest()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._end_unauthenticated(handler)
        self._forget_user(handler)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError as error:
                    # Usually there are too many open files.
                    logger.warning("cannot accept a connection: %s", error.strerror or error)
                    await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                    continue
                self._add(connection)
                # `sock_accept` returns at once while clients are waiting: let accepted connections make progress.
                await asyncio.sleep(0)
        finally:
            for each in self._unauthenticated.values():
                each.task.cancel()

    def _add(self, connection: socket.socket) -> None:
        handler, has_ended = self(), asyncio.Event()
        task = asyncio.create_task(self._serve(handler, connection, has_ended))
        self._unauthenticated[handler] = _Unauthenticated(task, has_ended)
        if len(self._unauthenticated) > MAX_UNAUTHENTICATED:
            oldest = next(iter(self._unauthenticated))
            self._unauthenticated.pop(oldest).task.cancel()

    async def _serve(
        self, handler: web.RequestHandler, connection: socket.socket, has_ended: asyncio.Event
    ) -> None:
        """Let `handler` serve a connection. Close it if this task is cancelled or times out before `has_ended`."""
        loop = asyncio.get_running_loop()
        transport: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_SECONDS):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: handler, connection, ssl=self._context
                )
                await has_ended.wait()
        except OSError:
            # A timeout, or the handshake failed.
            pass
        finally:
            self._unauthenticated.pop(handler, None)
            if transport is not None and not has_ended.is_set():
                transport.abort()

    def _close_oldest(self) -> None:
        """Close the oldest connection of the user with the most connections."""
        most = max(self._limited.values(), key=len)
        oldest = next(iter(most))
        self._forget_user(oldest)
        if oldest.transport is not None:
            oldest.transport.abort()

    def _forget_user(self, handler: web.RequestHandler) -> None:
        user = self._user_of.pop(handler, None)
        if user is not None:
            del self._limited[user][handler]
            if not self._limited[user]:
                del self._limited[user]

    def _end_unauthenticated(self, handler: web.RequestHandler) -> None:
        waiting = self._unauthenticated.pop(handler, None)
        if waiting is not None:
            waiting.has_ended.set()
