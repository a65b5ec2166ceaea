"""The address and credentials of the API server. Credentials are renewed when they expire or are rotated.

This module chooses between files and the pod's service account. `kubeconfig` reads them; it is imported only if needed.
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
from windlass.kubeapi.credentials import ClusterConfig, Headers, Tls
from windlass.kubeapi.errors import AccessError

logger = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MIN_RENEWAL_INTERVAL_SEC = 10.0
"""Minimum interval between renewals, in case the server rejects all credentials or a plugin fails."""


class Identity(msgspec.Struct, frozen=True):
    """The credentials of one request."""

    headers: Headers
    ssl_context: ssl.SSLContext | None
    server_name: str


class Access:
    """Access to one API server. Credentials are renewed in the background."""

    def __init__(
        self,
        config: ClusterConfig,
        load_config: Callable[[], Awaitable[ClusterConfig]] | None = None,
        *,
        socket_path: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = config.server
        self.source = config.source
        """The origin of the configuration, for messages."""
        self.namespace = config.namespace
        self.proxy = config.proxy
        self.may_use_environment_proxy = config.may_use_environment_proxy and not _is_local(config.server)
        self.socket_path = socket_path
        self._config = config
        self._load_config = load_config
        self._clock = clock
        self._tls = config.tls
        self._identity = _identity(config, None)
        self._renewal_due_at = _renewal_due_at(config, clock())
        self._renewal: asyncio.Task[None] | None = None
        self._renewed_at = -math.inf

    def with_token(self, token: str) -> "Access":
        """Return access to the same server with this bearer token in place of all own credentials.

        Raises AccessError for a server without TLS on another machine.
        """
        tls = self._tls and msgspec.structs.replace(self._tls, certificate=b"", key=b"")
        is_protected = tls is not None or self.socket_path or _is_local(self.server)
        if not is_protected:
            raise AccessError(f"{self.server} has no TLS: a token is not sent to it")
        config = msgspec.structs.replace(
            self._config, headers=(("Authorization", f"Bearer {token}"),), tls=tls, renew_after=None
        )
        return Access(config, socket_path=self.socket_path)

    def identity(self) -> Identity:
        if self._renewal_due_at is not None and self._clock() >= self._renewal_due_at:
            self._start_renewal()
        return self._identity

    async def renewed(self, rejected: Identity) -> Identity:
        """Return the credentials to use after the server rejected `rejected`. They are renewed, unless that is
        impossible or was just done. Raise AccessError if the renewal fails."""
        if self._load_config is not None and self._identity is rejected and not self._was_just_renewed():
            # All rejected requests share the renewal, so it continues if one of them is cancelled.
            await asyncio.shield(self._start_renewal())
        return self._identity

    async def close(self) -> None:
        if self._renewal is not None and not self._renewal.done():
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _was_just_renewed(self) -> bool:
        is_running = self._renewal is not None and not self._renewal.done()
        return not is_running and self._clock() < self._renewed_at + MIN_RENEWAL_INTERVAL_SEC

    def _start_renewal(self) -> "asyncio.Task[None]":
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(_log_failure)
        return self._renewal

    async def _renew(self) -> None:
        assert self._load_config is not None  # noqa: S101 — a renewal is due only if the configuration can be loaded
        self._renewal_due_at = self._clock() + MIN_RENEWAL_INTERVAL_SEC
        try:
            config = await self._load_config()
        finally:
            self._renewed_at = self._clock()
        if config.headers != self._identity.headers or config.tls != self._tls:
            ssl_context = self._identity.ssl_context if config.tls == self._tls else None
            self._identity = _identity(config, ssl_context)
            self._tls = config.tls
        self._renewal_due_at = _renewal_due_at(config, self._clock())


def unix(socket_path: str | Path) -> Access:
    """Return access to a server on this machine by its socket, without credentials."""
    return Access(ClusterConfig(server="http://localhost"), socket_path=str(socket_path))


def anonymous(server: str) -> Access:
    """Return access without credentials, e.g. to `kubectl proxy`."""
    address = _address(server)
    tls = Tls() if address.startswith("https://") else None
    return Access(_require_valid_address(ClusterConfig(server=address, tls=tls)))


async def load(
    kubeconfig: str = "",
    context: str = "",
    server: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Callable[[], float] = time.monotonic,
) -> Access:
    """Load the given file, else $KUBECONFIG, else, unless a context is given, the pod's service account, else
    ~/.kube/config.

    `server` replaces the address in the configuration. With `server` and without `context`,
    ~/.kube/config may be missing; if `server` is an http address and `kubeconfig` is empty too, no configuration is
    loaded. Credentials are not sent over http. Raises AccessError.
    """
    variables = os.environ if environment is None else environment
    home = Path(variables.get("HOME") or Path.home(), ".kube", "config")
    paths = kubeconfig or variables.get("KUBECONFIG", "")
    if server and _address(server).startswith("http://") and not kubeconfig and not context:
        # Credentials are not sent without TLS, so none are loaded.
        return anonymous(server)
    is_pod = not paths and not context and bool(variables.get("KUBERNETES_SERVICE_HOST"))
    if not paths and not is_pod:
        if not home.exists():
            if server and not context:
                return anonymous(server)
            raise AccessError(
                "no cluster configured: no kubeconfig was specified, KUBECONFIG is not set, this is not a pod, and "
                f"{home} does not exist. Specify a kubeconfig or the address of an API server."
            )
        paths = str(home)

    async def load_config() -> ClusterConfig:
        from windlass.kubeapi import kubeconfig as files

        if is_pod:
            config = files.in_cluster(variables, service_account)
        else:
            config = await files.from_files(paths, context)
        return _require_valid_address(_with_server(config, server) if server else config)

    return Access(await load_config(), load_config, clock=clock)


def _with_server(config: ClusterConfig, server: str) -> ClusterConfig:
    """Return the configuration with another address, and without credentials if the address has no TLS."""
    address = _address(server)
    if not address.startswith("https://"):
        return ClusterConfig(server=address, namespace=config.namespace)
    # The server name belongs to the old address, so it is dropped, as in kubectl.
    tls = msgspec.structs.replace(config.tls, server_name="") if config.tls else Tls()
    return msgspec.structs.replace(config, server=address, tls=tls)


def _address(server: str) -> str:
    """Return the URL; an address without a scheme means http, as in FrameworkController."""
    return (server if "://" in server else f"http://{server}").rstrip("/")


def _require_valid_address(config: ClusterConfig) -> ClusterConfig:
    """Return the configuration. Raise AccessError unless its address is valid."""
    try:
        parts = urlsplit(config.server)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if is_valid:
        return config
    where = f"{config.source}: " if config.source else ""
    raise AccessError(
        f"{where}invalid address of an API server: {config.server!r}. Expected e.g. https://10.0.0.1:6443"
    )


def _identity(config: ClusterConfig, ssl_context: ssl.SSLContext | None) -> Identity:
    if config.tls is None:
        return Identity(config.headers, None, "")
    ssl_context = ssl_context or credentials.new_context(config.tls, config.source)
    return Identity(config.headers, ssl_context, config.tls.server_name)


def _renewal_due_at(config: ClusterConfig, now: float) -> float | None:
    return None if config.renew_after is None else now + config.renew_after


def _is_local(server: str) -> bool:
    """Return whether the server has a loopback address. Python would use a proxy even for such a server."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _log_failure(renewal: "asyncio.Task[None]") -> None:
    if not renewal.cancelled() and (error := renewal.exception()) is not None:
        logger.warning("cannot renew the credentials: %s", error)
