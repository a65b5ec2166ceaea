"""Questions to the API server from inside a pod, with what Python brings along.

Another client than `kubeapi.transport`, which takes three times as long to import as everything here takes to run.
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
ALIVE_SECONDS = 30
"""So often a connection on which nothing happens is tried."""


class AnsweredError(Exception):
    """The server said no."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class NoAnswerError(Exception):
    """There was no answer, or it broke off."""


class NoAccessError(Exception):
    """It is not known where the server is, or who we are. One message."""


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
        with self._asked(path, ANSWER_SECONDS) as answer:
            return _read(answer.read)

    def watch(self, path: str, seconds: float, **query: str) -> Iterator[bytes]:
        """The lines of a watch, until the server ends it or the time is over."""
        asked = {"watch": "true", "timeoutSeconds": str(max(1, round(seconds))), **query}
        with self._asked(f"{path}?{urlencode(asked)}", seconds + ANSWER_SECONDS) as answer:
            while line := _read(answer.readline):
                if line.strip():
                    yield line

    def _asked(self, target: str, timeout: float) -> http.client.HTTPResponse:
        try:
            connection = self._connection(timeout)
            headers = {"Accept": "application/json", "User-Agent": "windlass-barrier", **self._headers()}
            connection.request("GET", self._root + target, headers=headers)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, ALIVE_SECONDS)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{self._host}:{self._port or 443} does not answer: {error}") from error
        if answer.status != 200:
            raise AnsweredError(answer.status, _message(_read(answer.read)))
        return answer

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port or 80, timeout=timeout)
        return http.client.HTTPSConnection(
            self._host, self._port or 443, timeout=timeout, context=self._context
        )


def _read(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(f"the answer broke off: {error!r}") from error


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).message
    except msgspec.DecodeError:
        return body[:200].decode(errors="replace")


def find(environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Server:
    """By a kubeconfig or an address if one is named, as the reference's barrier does; else as the pod it is in.

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
    # It is rotated while we wait.
    return Server(f"https://{name}:{port}", context, lambda: {"Authorization": f"Bearer {_token(account)}"})


def _token(account: Path) -> str:
    return (account / "token").read_text(encoding="utf-8").strip()


def _elsewhere(kubeconfig: str, address: str) -> Server:
    """Whoever has a kubeconfig has all the time that reading it takes."""
    import asyncio

    from windlass.kubeapi import access
    from windlass.kubeapi.errors import AccessError

    try:
        found = asyncio.run(access.load(kubeconfig, server=address, environment=os.environ))
    except AccessError as error:
        raise NoAccessError(str(error)) from error
    identity = found.identity()
    return Server(found.server, identity.context, lambda: dict(identity.headers))
