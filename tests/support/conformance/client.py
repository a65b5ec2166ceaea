"""A small synchronous client of the Kubernetes API, without retries.

Every exchange is passed to a listener, which records transcripts. `waiting` waits for conditions.
"""

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import yaml

Json = Any
Headers = Mapping[str, str]

PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

SECONDS_TO_WAIT: Final = 120.0
"""How long a request may take before the test fails."""


class Answer(msgspec.Struct, frozen=True):
    code: int
    headers: Headers
    body: Json
    raw: bytes

    @property
    def type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def version(self) -> str:
        """The resourceVersion of the object or list in the response."""
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def names(self) -> list[str]:
        """The names of the items in a list."""
        return [item["metadata"]["name"] for item in self.body["items"]]

    def expect(self, code: int) -> Self:
        assert self.code == code, f"expected {code}, got {self.code}: {self.raw[:2000]!r}"
        return self


class Exchange(msgspec.Struct, frozen=True):
    """A request and its response. The events of a watch are appended as they are read."""

    method: str
    target: str
    headers: Headers
    sent: Json
    answer: Answer | None
    events: list[Json] | None = None


class Listener:
    """Receives every exchange. This base class ignores them."""

    def record(self, exchange: Exchange) -> None:
        pass


class Access(msgspec.Struct, frozen=True):
    """The address and credentials of a server, from a kubeconfig."""

    host: str
    port: int
    context: ssl.SSLContext | None
    token: str | None

    @classmethod
    def of_kubeconfig(cls, file: Path) -> "Access":
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        address = urllib.parse.urlsplit(cluster["server"])
        return cls(
            host=address.hostname or "127.0.0.1",
            port=address.port or (443 if address.scheme == "https" else 80),
            context=_tls(cluster, user, file.parent) if address.scheme == "https" else None,
            token=user.get("token"),
        )

    def connect(self, timeout: float = SECONDS_TO_WAIT) -> http.client.HTTPConnection:
        if self.context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.context)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(cluster: Json, user: Json, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if authority := _bytes(cluster, "certificate-authority", folder):
        context.load_verify_locations(cadata=authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _bytes(user, "client-certificate", folder), _bytes(user, "client-key", folder)
    if certificate and key:
        with tempfile.NamedTemporaryFile() as file:  # ssl reads client certificates from files only
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _bytes(entry: Json, field: str, folder: Path) -> bytes | None:
    if data := entry.get(f"{field}-data"):
        return base64.b64decode(data)
    return (folder / entry[field]).read_bytes() if field in entry else None


CLOSED_BY_THE_SERVER = (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError)


class Client:
    """Sends requests over one persistent connection. Each watch has its own."""

    def __init__(
        self, access: Access, listener: Listener | None = None, seconds: float = SECONDS_TO_WAIT
    ) -> None:
        self.access = access
        self._seconds = seconds
        self._listener = listener or Listener()
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, headers: Headers | None = None, **params: str) -> Answer:
        return self.request("GET", path, None, headers, **params)

    def post(self, path: str, body: Json, headers: Headers | None = None, **params: str) -> Answer:
        return self.request("POST", path, body, headers, **params)

    def put(self, path: str, body: Json, headers: Headers | None = None, **params: str) -> Answer:
        return self.request("PUT", path, body, headers, **params)

    def patch(
        self, path: str, body: Json, kind: str = "merge", headers: Headers | None = None, **params: str
    ) -> Answer:
        typed = {"Content-Type": PATCH_TYPES[kind], **(headers or {})}
        return self.request("PATCH", path, body, typed, **params)

    def delete(self, path: str, body: Json = None, headers: Headers | None = None, **params: str) -> Answer:
        return self.request("DELETE", path, body, headers, **params)

    def request(
        self, method: str, path: str, body: Json = None, headers: Headers | None = None, **params: str
    ) -> Answer:
        target = _target(path, params)
        answer = self._send(method, target, body, headers or {})
        self._listener.record(Exchange(method, target, headers or {}, body, answer))
        return answer

    @contextlib.contextmanager
    def watch(self, path: str, headers: Headers | None = None, **params: str) -> Iterator["Watch"]:
        target = _target(path, {"watch": "true", **params})
        connection = self.access.connect()
        try:
            connection.request("GET", target, headers=self._headers(None, headers or {}))
            response = connection.getresponse()
            events: list[Json] = []
            answer = _answer(response, b"" if response.status == 200 else response.read())
            self._listener.record(Exchange("WATCH", target, headers or {}, None, answer, events))
            yield Watch(answer, response, events)
        finally:
            connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, method: str, target: str, body: Json, headers: Headers) -> Answer:
        payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = self._headers(payload, headers)
        if self._connection is not None:
            with contextlib.suppress(
                *CLOSED_BY_THE_SERVER
            ):  # the server may have closed it since the last request
                return self._exchange(self._connection, method, target, payload, sent)
        self._connection = self.access.connect(self._seconds)
        return self._exchange(self._connection, method, target, payload, sent)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        payload: bytes | None,
        headers: Headers,
    ) -> Answer:
        try:
            connection.request(method, target, body=payload, headers=dict(headers))
            response = connection.getresponse()
            return _answer(response, response.read())
        except (http.client.HTTPException, OSError):
            self.close()  # the next request opens another one
            raise

    def _headers(self, payload: bytes | None, given: Headers) -> Headers:
        authorization = {"Authorization": f"Bearer {self.access.token}"} if self.access.token else {}
        content = {"Content-Type": "application/json"} if payload is not None else {}
        merged = {"Accept": "application/json", **authorization, **content, **given}
        return {name: value for name, value in merged.items() if value}


class Watch:
    """The events of one watch. Reading waits for the next event, with a timeout."""

    def __init__(self, answer: Answer, response: http.client.HTTPResponse, events: list[Json]) -> None:
        self.answer = answer
        self._response = response
        self._events = events

    def next(self) -> Json:
        event = self._read()
        assert event is not None, f"the watch ended after {len(self._events)} events: {self._events}"
        self._events.append(event)
        return event

    def take(self, count: int) -> list[Json]:
        return [self.next() for _ in range(count)]

    def take_in_any_order(self, count: int) -> list[Json]:
        """Return events whose order is not guaranteed, sorted by name: those of objects older than the watch."""
        read = sorted(self.take(count), key=lambda event: str(event["object"]["metadata"]["name"]))
        self._events[-count:] = read
        return read

    def rest(self) -> list[Json]:
        """Return all events until the server ends the watch."""
        read = []
        while (event := self._read()) is not None:
            self._events.append(event)
            read.append(event)
        return read

    def _read(self) -> Json:
        try:
            line = self._response.readline()
        except TimeoutError as error:
            raise AssertionError(
                f"no event within {SECONDS_TO_WAIT:.0f} s after {len(self._events)} events: {self._events}"
            ) from error
        return json.loads(line) if line.strip() else None


def _target(path: str, params: Mapping[str, str]) -> str:
    return f"{path}?{urllib.parse.urlencode(params)}" if params else path


def _answer(response: http.client.HTTPResponse, raw: bytes) -> Answer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    is_json = headers.get("content-type", "").startswith("application/json")
    return Answer(response.status, headers, json.loads(raw) if raw and is_json else None, raw)
