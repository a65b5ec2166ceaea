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
ANSWER_SECONDS = 30.0
"""Timeout in seconds for the beginning of a response, and for each part of it."""
SHOWN_BYTES = 200
"""Maximum length of an error that is not a Kubernetes `Status`."""
ALIVE_SECONDS = 30
"""Idle seconds after which a connection is probed."""
ALIVE_TRIES, ALIVE_PAUSE = 3, 10
"""Number and interval of probes before the connection counts as broken. Linux's default is eleven minutes."""


class AnsweredError(Exception):
    """The server responded with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class NoAnswerError(Exception):
    """There was no response, or it was incomplete or invalid."""


class NoAccessError(Exception):
    """The address of the server or the credentials are unknown."""


class _Refusal(msgspec.Struct, frozen=True):
    message: str = ""


class Server:
    def __init__(
        self, address: str, context: ssl.SSLContext | None, headers: Callable[[], Mapping[str, str]]
    ) -> None:
        parts = urlsplit(address)
        self._host, self._port, self._root = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._context = context
        self._headers = headers

    def get(self, path: str) -> bytes:
        with self._asked(path) as answer:
            return _read(answer.read)

    def watch(self, path: str, seconds: float, **query: str) -> Iterator[bytes]:
        """Yield the lines of a watch until the server ends it or the time is over."""
        asked = {"watch": "true", "timeoutSeconds": str(max(1, round(seconds))), **query}
        with self._asked(f"{path}?{urlencode(asked)}", silence=seconds + ANSWER_SECONDS) as answer:
            while line := _read(answer.readline):
                if line.strip():
                    yield line

    def _asked(self, target: str, silence: float = ANSWER_SECONDS) -> http.client.HTTPResponse:
        """Return the response once it has begun. After that, the server may be idle for `silence` seconds."""
        try:
            connection = self._connection()
            headers = {"Accept": "application/json", "User-Agent": "windlass-barrier", **self._headers()}
            connection.request("GET", self._root + target, headers=headers)
            line = connection.sock
            _keep_alive(line)
            answer = connection.getresponse()
            line.settimeout(silence)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{self._host}:{self._port or 443} does not answer: {error}") from error
        if answer.status != 200:
            raise AnsweredError(answer.status, _message(_read(answer.read)))
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port or 80, timeout=ANSWER_SECONDS)
        return http.client.HTTPSConnection(
            self._host, self._port or 443, timeout=ANSWER_SECONDS, context=self._context
        )


def _keep_alive(line: socket.socket) -> None:
    """Enable keep-alive probes: a server whose machine is down does not close its connections."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = (("KEEPIDLE", ALIVE_SECONDS), ("KEEPINTVL", ALIVE_PAUSE), ("KEEPCNT", ALIVE_TRIES))
    for name, value in wanted:
        if (option := getattr(socket, f"TCP_{name}", None)) is not None:  # not every system has them
            line.setsockopt(socket.IPPROTO_TCP, option, value)


def _read(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(f"the answer broke off: {error!r}") from error


def _message(body: bytes) -> str:
    """Return the error message in one line, also if it comes from a proxy."""
    try:
        text = msgspec.json.decode(body, type=_Refusal).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body[:SHOWN_BYTES].decode(errors="replace")
    return " ".join(text.split())


def find(environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Server:
    """Return the server of a kubeconfig or an address if one is set, as the reference's barrier does; otherwise that
    of the pod's service account.

    Raises NoAccessError.
    """
    kubeconfig, address = environment.get("KUBECONFIG", ""), environment.get("KUBE_APISERVER_ADDRESS", "")
    if kubeconfig or address:
        return _elsewhere(kubeconfig, address)
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoAccessError(
            "no API server is known: this is no pod, and neither KUBECONFIG nor KUBE_APISERVER_ADDRESS is set"
        )
    try:
        context = ssl.create_default_context(cafile=str(account / "ca.crt"))
        _token(account)
    except OSError as error:
        raise NoAccessError(
            f"this pod has no service account's token ({error}): set automountServiceAccountToken: true in its spec"
        ) from error
    name = f"[{host}]" if ":" in host else host
    try:
        # Read the token for each request: it is rotated.
        return Server(
            f"https://{name}:{port}", context, lambda: {"Authorization": f"Bearer {_token(account)}"}
        )
    except ValueError as error:
        raise NoAccessError(
            f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are {host!r} and {port!r}, which is no address: "
            f"{error}"
        ) from error


def _token(account: Path) -> str:
    return (account / "token").read_text(encoding="utf-8").strip()


def _elsewhere(kubeconfig: str, address: str) -> Server:
    """Read a kubeconfig. The slow imports do not matter here."""
    import asyncio

    from windlass.kubeapi import access
    from windlass.kubeapi.errors import AccessError

    try:
        found = asyncio.run(access.load(kubeconfig, server=address, environment=os.environ))
    except AccessError as error:
        raise NoAccessError(str(error)) from error
    identity = found.identity()
    return Server(found.server, identity.context, lambda: dict(identity.headers))
