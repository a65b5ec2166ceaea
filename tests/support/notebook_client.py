"""A client of a Jupyter server: login form, cookies, API and kernels."""

import asyncio
import re
import uuid
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from web_sessions import WebSession
from yarl import URL

from conformance.client import Json

T = TypeVar("T")

SECONDS: Final = 900.0
"""Timeout of a response; a cell may train something."""
_FIELD = re.compile(r'name="_xsrf" value="([^"]*)"')


class Answer(msgspec.Struct, frozen=True):
    code: int
    url: str
    """The URL after redirects."""
    text: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.text)


class Response(msgspec.Struct, frozen=True):
    """A response of which no redirect was followed."""

    code: int
    location: str
    """Target of a redirect."""
    cookies: list[str]
    """The Set-Cookie headers."""


class Executed(msgspec.Struct, frozen=True):
    """The result of a cell."""

    output: str
    """Its output and the value of its last line."""
    error: str
    """The traceback of a failed cell."""


class NotebookServer(WebSession):
    """Everything below `url`, for one user with cookies."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url.rstrip("/")
        self.set_cookies: list[str] = []
        """The Set-Cookie headers of all responses."""

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return self._do(self._asked(method, path, json=body))

    def log_in(self, password: str) -> bool:
        """Log in with the form and return whether the server grants access."""
        self.try_to_log_in(password)
        return self.get("/api/contents").code == 200

    def try_to_log_in(self, password: str, next_url: str = "/lab") -> Response:
        """Return the first response to a login."""
        form = self.get("/login")
        found = _FIELD.search(form.text)
        assert found is not None, f"no form:\n{form.text}"
        fields = {"_xsrf": found[1], "password": password}
        return self.send_form("POST", f"/login?next={quote(next_url, safe='')}", fields)

    def send_form(self, method: str, path: str, form: Json = None) -> Response:
        """Send a form, as a page of any site can, without the headers of the server's own pages."""
        return self._do(self._first_response(method, f"{self.url}{path}", form))

    def websocket_status(self, path: str, origin: str) -> int:
        """Return the status with which the server answers a WebSocket of a page of this origin."""
        return self._do(self._websocket_status(f"{self.url}{path}", origin))

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder."""
        answer = self.get(f"/api/contents/{folder}")
        assert answer.code == 200, answer
        return sorted(each["name"] for each in answer.json["content"])

    def cells(self, notebook: str) -> list[str]:
        """Return the code cells of a notebook."""
        answer = self.get(f"/api/contents/{notebook}")
        assert answer.code == 200, answer
        cells = answer.json["content"]["cells"]
        return ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]

    def execute(self, *cells: str, path: str = "") -> list[Executed]:
        """Execute cells in one new kernel, which is shut down afterwards. `path` is their notebook."""
        created = self.ask("POST", "/api/kernels", {"path": path})
        assert created.code == 201, created
        kernel = created.json["id"]
        try:
            return self._do(self._executed(kernel, cells))
        finally:
            self.ask("DELETE", f"/api/kernels/{kernel}")

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(work, SECONDS))

    async def _open(self) -> None:
        # Keep cookies of numeric addresses too, and send Secure cookies, as through a proxy with TLS.
        jar = aiohttp.CookieJar(unsafe=True, treat_as_secure_origin=URL(self.url).origin())
        trace = aiohttp.TraceConfig()
        trace.on_request_redirect.append(self._record_cookies)
        trace.on_request_end.append(self._record_cookies)
        # For `TlsProxy`: its certificate is not trusted, and it changes the first request of each connection.
        self._session = aiohttp.ClientSession(
            cookie_jar=jar, trace_configs=[trace], connector=aiohttp.TCPConnector(ssl=False, force_close=True)
        )

    async def _record_cookies(self, _session: object, _context: object, seen: Any) -> None:
        self.set_cookies += seen.response.headers.getall("Set-Cookie", [])

    async def _asked(self, method: str, path: str, **content: Any) -> Answer:
        async with self._session.request(
            method, f"{self.url}{path}", headers=self._headers(), **content
        ) as answer:
            return Answer(answer.status, str(answer.url), await answer.text())

    async def _first_response(self, method: str, url: str, form: Json) -> Response:
        async with self._session.request(method, url, data=form, allow_redirects=False) as answer:
            cookies = answer.headers.getall("Set-Cookie", [])
            return Response(answer.status, answer.headers.get("Location", ""), cookies)

    async def _websocket_status(self, url: str, origin: str) -> int:
        try:
            async with self._session.ws_connect(url, origin=origin):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status

    def _headers(self) -> Mapping[str, str]:
        """Return the headers that the pages' JavaScript sends."""
        token = next((each.value for each in self._session.cookie_jar if each.key == "_xsrf"), None)
        return {} if token is None else {"X-XSRFToken": token}

    async def _executed(self, kernel: str, cells: tuple[str, ...]) -> list[Executed]:
        async with self._session.ws_connect(
            f"{self.url}/api/kernels/{kernel}/channels", headers=self._headers(), max_msg_size=0
        ) as websocket:
            return [await _cell(websocket, each) for each in cells]


async def _cell(websocket: aiohttp.ClientWebSocketResponse, code: str) -> Executed:
    """Execute a cell, which has ended when the kernel is idle again."""
    number = uuid.uuid4().hex
    await websocket.send_json(_request(number, code))
    output: list[str] = []
    error = ""
    async for message in websocket:
        received: Json = message.json()
        if received["parent_header"].get("msg_id") != number:
            continue
        content = received["content"]
        match received["msg_type"]:
            case "stream":
                output.append(content["text"])
            case "execute_result" | "display_data":
                output.append(content["data"].get("text/plain", "") + "\n")
            case "error":
                error = "\n".join(content["traceback"])
            case "status" if content["execution_state"] == "idle":
                return Executed("".join(output), error)
    raise AssertionError(f"the kernel is gone; it has said:\n{''.join(output)}")


def _request(number: str, code: str) -> Json:
    return {
        "header": {
            "msg_id": number,
            "msg_type": "execute_request",
            "session": uuid.uuid4().hex,
            "username": "",
            "date": "",
            "version": "5.3",
        },
        "parent_header": {},
        "metadata": {},
        "channel": "shell",
        "buffers": [],
        "content": {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        },
    }
