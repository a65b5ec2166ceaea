"""Where the API server is and who we are; and that we stay who we are when credentials expire or are rotated.

Which file counts is decided here. How a file is read is in `kubeconfig`, which is imported only when there is one.
"""

import asyncio
import ipaddress
import logging
import math
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from windlass.kubeapi import credentials
from windlass.kubeapi.credentials import Found, Headers, Tls
from windlass.kubeapi.errors import AccessError

logger = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SECONDS_BETWEEN_RENEWALS = 10.0
"""A server that refuses everybody, or a plugin that fails, must not lead to one look-up after the other."""


class Identity(msgspec.Struct, frozen=True):
    """What goes with one request."""

    headers: Headers
    context: ssl.SSLContext | None
    server_name: str


class Access:
    """The way to one API server. Its credentials are looked up again when they are due, beside the requests."""

    def __init__(
        self,
        found: Found,
        look_up: Callable[[], Awaitable[Found]] | None = None,
        *,
        socket_path: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = found.server
        self.source = found.source
        """Where this was found, for messages."""
        self.namespace = found.namespace
        self.proxy = found.proxy
        self.may_use_environment_proxy = found.may_use_environment_proxy and not _is_here(found.server)
        self.socket_path = socket_path
        self._look_up = look_up
        self._clock = clock
        self._tls = found.tls
        self._identity = _identity(found, None)
        self._due_at = _due_at(found, clock())
        self._renewal: asyncio.Task[None] | None = None
        self._renewed_at = -math.inf

    def identity(self) -> Identity:
        if self._due_at is not None and self._clock() >= self._due_at:
            self._begin_renewal()
        return self._identity

    async def renewed(self, refused: Identity) -> Identity:
        """After the server did not accept an identity: the one that was found since. Raises AccessError."""
        if self._look_up is not None and self._identity is refused and not self._has_just_been_renewed():
            # Shared by all that were refused, and not given up when one of them is.
            await asyncio.shield(self._begin_renewal())
        return self._identity

    async def close(self) -> None:
        if self._renewal is not None and not self._renewal.done():
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _has_just_been_renewed(self) -> bool:
        is_under_way = self._renewal is not None and not self._renewal.done()
        return not is_under_way and self._clock() < self._renewed_at + SECONDS_BETWEEN_RENEWALS

    def _begin_renewal(self) -> "asyncio.Task[None]":
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(_log_failure)
        return self._renewal

    async def _renew(self) -> None:
        assert self._look_up is not None  # noqa: S101 — only what can be looked up again is ever due
        self._due_at = self._clock() + SECONDS_BETWEEN_RENEWALS
        try:
            found = await self._look_up()
        finally:
            self._renewed_at = self._clock()
        if found.headers != self._identity.headers or found.tls != self._tls:
            kept = self._identity.context if found.tls == self._tls else None
            self._identity = _identity(found, kept)
            self._tls = found.tls
        self._due_at = _due_at(found, self._clock())


def unix(socket_path: str | Path) -> Access:
    """A server on this machine that lets in whoever may open its socket."""
    return Access(Found(server="http://localhost"), socket_path=str(socket_path))


def anonymous(server: str) -> Access:
    """A server that asks nobody who they are, such as `kubectl proxy`; by https, if the system trusts it."""
    address = _address(server)
    return Access(_checked(Found(server=address, tls=Tls() if address.startswith("https://") else None)))


async def load(
    kubeconfig: str = "",
    context: str = "",
    server: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Callable[[], float] = time.monotonic,
) -> Access:
    """The file that was named, else $KUBECONFIG, else the pod's service account, else ~/.kube/config.

    `server` takes the place of the address that is found there. Raises AccessError.
    """
    given = os.environ if environment is None else environment
    home = Path(given.get("HOME") or Path.home(), ".kube", "config")
    paths = kubeconfig or given.get("KUBECONFIG", "")
    if server and _address(server).startswith("http://") and not kubeconfig and not context:
        # Nothing that could be found would be told to it.
        return anonymous(server)
    is_pod = not paths and not context and bool(given.get("KUBERNETES_SERVICE_HOST"))
    if not paths and not is_pod:
        if not home.exists():
            return _without_credentials(server, context, home)
        paths = str(home)

    async def look_up() -> Found:
        from windlass.kubeapi import kubeconfig as files

        found = files.in_cluster(given, service_account) if is_pod else await files.from_files(paths, context)
        return _checked(_elsewhere(found, server) if server else found)

    return Access(await look_up(), look_up, clock=clock)


def _without_credentials(server: str, context: str, home: Path) -> Access:
    if server and not context:
        return anonymous(server)
    raise AccessError(
        f"no cluster is known: neither a kubeconfig was given, nor is KUBECONFIG set, nor is this a pod, "
        f"nor is there a {home}. Give a kubeconfig, or the address of an API server."
    )


def _elsewhere(found: Found, server: str) -> Found:
    """The same identity at another address. It is not told to a server without TLS."""
    address = _address(server)
    if not address.startswith("https://"):
        return Found(server=address, namespace=found.namespace)
    # The name belonged to the other address, as with kubectl.
    tls = msgspec.structs.replace(found.tls, server_name="") if found.tls else Tls()
    return msgspec.structs.replace(found, server=address, tls=tls)


def _address(server: str) -> str:
    """An address without a scheme is one of plain http, as the reference reads it."""
    return (server if "://" in server else f"http://{server}").rstrip("/")


def _checked(found: Found) -> Found:
    try:
        parts = urlsplit(found.server)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if is_usable:
        return found
    where = f"{found.source}: " if found.source else ""
    raise AccessError(
        f"{where}{found.server!r} is no address of an API server, such as https://10.0.0.1:6443"
    )


def _identity(found: Found, kept: ssl.SSLContext | None) -> Identity:
    if found.tls is None:
        return Identity(found.headers, None, "")
    return Identity(
        found.headers, kept or credentials.context_of(found.tls, found.source), found.tls.server_name
    )


def _due_at(found: Found, now: float) -> float | None:
    return None if found.good_for is None else now + found.good_for


def _is_here(server: str) -> bool:
    """Python's own rules would send even these to a proxy."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _log_failure(renewal: "asyncio.Task[None]") -> None:
    if not renewal.cancelled() and (error := renewal.exception()) is not None:
        logger.warning("the credentials cannot be renewed: %s", error)
