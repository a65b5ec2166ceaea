"""Requests to the API server from inside a pod, with Python's standard library.

`kubeapi.transport` is not used: importing it takes three times as long as everything here takes to run.
"""

import http.client
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RESPONSE_TIMEOUT = 30.0
"""Timeout in seconds for connecting, for the beginning of a response and, except in a watch, for each part of it."""
MAX_ERROR_BYTES = 200
"""Maximum length of an error message that is not in a Kubernetes `Status`."""
KEEPALIVE_IDLE = 30
"""Idle seconds after which a connection is probed."""
KEEPALIVE_COUNT, KEEPALIVE_INTERVAL = 3, 10
"""Number of unanswered probes after which a connection counts as broken, and seconds between them. With the
defaults of Linux, the probes take eleven minutes."""


class ResponseError(Exception):
    """The server responded with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class NoResponseError(Exception):
    """There was no response, or it was incomplete or invalid."""


class NoCredentialsError(Exception):
    """The address of the server or the credentials are unknown or invalid."""


class _ErrorStatus(msgspec.Struct, frozen=True):
    message: str = ""


class ApiClient:
    def __init__(
        self, address: str, context: ssl.SSLContext | None, headers: Callable[[], Mapping[str, str]]
    ) -> None:
        parts = urlsplit(address)
        self._host, self._root = parts.hostname or "", parts.path.rstrip("/")
        self._port = parts.port or (80 if context is None else 443)
        self._context = context
        self._headers = headers

    def get(self, path: str) -> bytes:
        with self._request(path) as response:
            return _read(response.read)

    def watch(self, path: str, seconds: float, **query: str) -> Iterator[bytes]:
        """Yield the lines of a watch that are not empty. The server ends the watch after about `seconds`."""
        parameters = {"watch": "true", "timeoutSeconds": str(max(1, round(seconds))), **query}
        with self._request(
            f"{path}?{urlencode(parameters)}", idle_seconds=seconds + RESPONSE_TIMEOUT
        ) as response:
            while line := _read(response.readline):
                if line.strip():
                    yield line

    def _request(self, target: str, idle_seconds: float = RESPONSE_TIMEOUT) -> http.client.HTTPResponse:
        """Return the response once it has begun. After that, the server may be idle for up to `idle_seconds`."""
        try:
            connection = self._connection()
            headers = {"Accept": "application/json", "User-Agent": "windlass-barrier", **self._headers()}
            connection.request("GET", self._root + target, headers=headers)
            sock = connection.sock
            _keep_alive(sock)
            response = connection.getresponse()
            sock.settimeout(idle_seconds)
        except (OSError, http.client.HTTPException) as error:
            raise NoResponseError(f"{self._host}:{self._port} does not respond: {error}") from error
        if response.status != 200:
            raise ResponseError(response.status, _message(_read(response.read)))
        return response

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=RESPONSE_TIMEOUT)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=RESPONSE_TIMEOUT, context=self._context
        )


def _keep_alive(sock: socket.socket) -> None:
    """Enable keep-alive probes: a server whose machine is down does not close its connections."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = (("KEEPIDLE", KEEPALIVE_IDLE), ("KEEPINTVL", KEEPALIVE_INTERVAL), ("KEEPCNT", KEEPALIVE_COUNT))
    for name, value in options:
        if (option := getattr(socket, f"TCP_{name}", None)) is not None:  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _read(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except (OSError, http.client.HTTPException) as error:
        raise NoResponseError(f"the response was interrupted: {error!r}") from error


def _message(body: bytes) -> str:
    """Return as one line the message of the Kubernetes `Status`, or the start of another body, e.g. from a proxy."""
    try:
        text = msgspec.json.decode(body, type=_ErrorStatus).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body[:MAX_ERROR_BYTES].decode(errors="replace")
    return " ".join(text.split())


def client_from_environment(environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> ApiClient:
    """Return a client of the API server that KUBECONFIG or KUBE_APISERVER_ADDRESS configures; if neither is set, of the
    pod's own cluster, with the pod's service account. FrameworkController's barrier reads the same variables.

    Raises NoCredentialsError.
    """
    kubeconfig, address = environment.get("KUBECONFIG", ""), environment.get("KUBE_APISERVER_ADDRESS", "")
    if kubeconfig or address:
        return _from_kubeconfig_or_address(kubeconfig, address)
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoCredentialsError(
            "no API server is configured: this is not a pod, and neither KUBECONFIG nor KUBE_APISERVER_ADDRESS is set"
        )
    try:
        context = ssl.create_default_context(cafile=str(account / "ca.crt"))
        _token(account)
    except OSError as error:
        raise NoCredentialsError(
            f"cannot read the certificate or the token of the service account ({error}). "
            "Set automountServiceAccountToken: true in the pod's spec."
        ) from error
    url_host = f"[{host}]" if ":" in host else host
    try:
        # Read the token for each request: it is rotated.
        return ApiClient(
            f"https://{url_host}:{port}", context, lambda: {"Authorization": f"Bearer {_token(account)}"}
        )
    except ValueError as error:
        raise NoCredentialsError(
            f"invalid address in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT ({host!r} and {port!r}): {error}"
        ) from error


def _token(account: Path) -> str:
    return (account / "token").read_text(encoding="utf-8").strip()


def _from_kubeconfig_or_address(kubeconfig: str, address: str) -> ApiClient:
    """Return a client of `address`; if that is empty, of the address in the kubeconfig. `access.load` finds the
    credentials.

    Only this case needs the slow imports.
    """
    import asyncio

    from windlass.kubeapi import access
    from windlass.kubeapi.errors import AccessError

    try:
        cluster_access = asyncio.run(access.load(kubeconfig, server=address, environment=os.environ))
    except AccessError as error:
        raise NoCredentialsError(str(error)) from error
    identity = cluster_access.identity()
    return ApiClient(cluster_access.server, identity.ssl_context, lambda: dict(identity.headers))
