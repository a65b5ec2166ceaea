"""A server of the dashboard for the cluster of a test, and the browser of a viewer."""

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.cookies import Morsel
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiohttp
import msgspec
from operated.loop_thread import LoopThread
from scripted_cluster import Place

from windlass.client import connection
from windlass.web.routes import API
from windlass.web.schema import Mode
from windlass.web.server import CSRF_HEADER, Server, ServerOptions


class Answer(msgspec.Struct, frozen=True):
    code: int
    headers: Any
    data: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.data)

    @property
    def text(self) -> str:
        return self.data.decode()

    @property
    def error(self) -> str:
        """The code of the error."""
        return str(self.body["error"]["code"])

    def expect(self, code: int) -> "Answer":
        assert self.code == code, (self.code, self.data)
        return self


class Events:
    """An open stream of server-sent events."""

    def __init__(self, browser: "Browser", response: aiohttp.ClientResponse) -> None:
        self._browser = browser
        self._response = response

    def next(self, event: str = "") -> Any:
        """Return the data of the next event, of this name, except pings."""
        while True:
            found, data = self._browser.stage.wait(self._next())
            if found != "ping" and event in ("", found):
                return data

    async def _next(self) -> tuple[str, Any]:
        lines = (await self._response.content.readuntil(b"\n\n")).decode().rstrip("\n").split("\n")
        assert len(lines) == 2, lines
        return lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))

    def wait_for(self, is_true: Callable[[Any], bool], event: str = "") -> Any:
        while True:
            data = self.next(event)
            if is_true(data):
                return data


class Lines:
    """An open response of lines."""

    def __init__(self, browser: "Browser", response: aiohttp.ClientResponse) -> None:
        self._browser = browser
        self._response = response

    def next_line(self) -> bytes:
        """Return the next line that is not empty; empty at the end."""
        while True:
            line = self._browser.stage.wait(self._response.content.readline())
            if line != b"\n":
                return line


class Browser:
    """Keeps the cookies of one viewer."""

    def __init__(
        self, dashboard: "Dashboard", session: aiohttp.ClientSession, headers: dict[str, str]
    ) -> None:
        self.dashboard = dashboard
        self.stage = dashboard.stage
        self.session = session
        self.headers = headers

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        url = path if path.startswith("/") else f"{API}/{path}"
        data = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}

        async def sent() -> Answer:
            async with self.session.request(
                method, url, data=data, headers={**self.headers, **kind, **headers}, allow_redirects=False
            ) as response:
                return Answer(response.status, response.headers.copy(), await response.read())

        return self.stage.wait(sent())

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any) -> Answer:
        """Send a change with the CSRF token of the session."""
        token = self.get("session").expect(200).body["csrfToken"]
        return self.send("POST", path, body, **{CSRF_HEADER: token})

    def log_in(self) -> Answer:
        return self.get(self.dashboard.server.login_path()).expect(303)

    @property
    def cookies(self) -> list[Morsel[str]]:
        return list(self.session.cookie_jar)

    @contextlib.contextmanager
    def events(self, path: str) -> Iterator[Events]:
        with self._response(path) as response:
            yield Events(self, response)

    @contextlib.contextmanager
    def response(self, path: str) -> Iterator[Lines]:
        with self._response(path) as response:
            yield Lines(self, response)

    @contextlib.contextmanager
    def _response(self, path: str) -> Iterator[aiohttp.ClientResponse]:
        response = self.stage.wait(self._opened(f"{API}/{path}"))
        try:
            assert response.status == 200, self.stage.wait(response.read())
            yield response
        finally:
            self.stage.call(response.close)

    async def _opened(self, url: str) -> aiohttp.ClientResponse:
        return await self.session.get(url, headers=self.headers)


class Served(Protocol):
    """A namespace of any cluster, and the loop on which to serve."""

    @property
    def stage(self) -> LoopThread: ...

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def name(self) -> str: ...


class ServedPlace(NamedTuple):
    stage: LoopThread
    kubeconfig: Path
    name: str


class Dashboard:
    def __init__(self, place: Served, server: Server) -> None:
        self.place = place
        self.stage = place.stage
        self.server = server

    @contextlib.contextmanager
    def browser(self, **headers: str) -> Iterator[Browser]:
        async def opened() -> aiohttp.ClientSession:
            jar = aiohttp.CookieJar(unsafe=True)  # also for addresses without a name
            return aiohttp.ClientSession(f"http://127.0.0.1:{self.server.port}", cookie_jar=jar)

        session = self.stage.wait(opened())
        try:
            yield Browser(self, session, headers)
        finally:
            self.stage.wait(session.close())


@contextlib.contextmanager
def serving(
    place: Served,
    mode: Mode = Mode.LINK,
    *,
    now: Callable[[], float] | None = None,
    **options: Any,
) -> Iterator[Dashboard]:
    """Serve on the loop of the cluster. `now` is the clock of sessions."""
    exits = contextlib.AsyncExitStack()

    async def start() -> Server:
        opened = await exits.enter_async_context(connection.connected(str(place.kubeconfig), "", place.name))
        clock = {} if now is None else {"now": now}
        server = Server(opened, ServerOptions(mode=mode, **options), **clock)
        await exits.enter_async_context(server.serving("127.0.0.1", 0))
        return server

    server = place.stage.wait(start())
    try:
        yield Dashboard(place, server)
    finally:
        place.stage.wait(exits.aclose())


def token_of_viewer(place: Place, *verbs: str, resources: str = "frameworks") -> str:
    """Return a token of a new service account that may do this in the namespace of the place only."""
    client, namespace = place.client, place.name
    rules = [
        {
            "apiGroups": ["frameworkcontroller.microsoft.com", "launcher.microsoft.com", "windlass.dev", ""],
            "resources": [resources, "attemptrecords", "pods", "pods/log", "events", "configmaps"],
            "verbs": list(verbs),
        }
    ]
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    account = {"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"}
    metadata = {"name": "viewer"}
    rbac = "rbac.authorization.k8s.io/v1"
    client.post(
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
        },
    ).expect(201)
    client.post(
        f"{base}/roles",
        {
            "apiVersion": rbac,
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        },
    ).expect(201)
    client.post(
        f"{base}/rolebindings",
        {
            "apiVersion": rbac,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [account],
        },
    ).expect(201)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/viewer/token"
    token: str = client.post(path, request).expect(201).body["status"]["token"]
    return token


def report_event(place: Place, pod: dict[str, Any], reason: str, seconds: float, message: str = "") -> None:
    """Report an event of a pod, this long after its creation."""
    metadata = pod["metadata"]
    time = datetime.fromisoformat(metadata["creationTimestamp"]) + timedelta(seconds=seconds)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {"kind": "Pod", "namespace": place.name, "name": metadata["name"], "uid": metadata["uid"]}
    body = {
        "metadata": {"generateName": "event-", "namespace": place.name},
        "involvedObject": involved,
        "type": "Normal",
        "reason": reason,
        "message": message,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
    }
    place.client.post(place.path("events"), body).expect(201)
