"""A client of JupyterHub: its login form, and the server of a user."""

import re
from typing import Final
from urllib.parse import quote

from notebook_client import SECONDS, Answer, NotebookServer, Response
from yarl import URL

from conformance.client import Json
from conformance.waiting import wait_for

KERNEL_PROTOCOL: Final = "v1.kernel.websocket.jupyter.org"
"""Kernel protocol requested by JupyterLab, which a browser requires."""
_FIELD = re.compile(r'name="_xsrf"\s+value="([^"]*)"')


class HubUser(NotebookServer):
    """A user with cookies. `url` is that of their server, below the hub's."""

    def __init__(self, hub: str, name: str) -> None:
        self._hub = hub.rstrip("/")
        self._name = name
        super().__init__(f"{self._hub}/user/{name}")

    def log_in(self, password: str) -> bool:
        answer = self._do(
            self._asked_of_the_hub("POST", "/hub/login?next=%2Fhub%2Fhome", self._form(password))
        )
        return answer.code == 200 and answer.url.endswith("/hub/home")

    def try_to_log_in(self, password: str, next_url: str = "/hub/home") -> Response:
        """Return the first response to a login."""
        return self.ask_hub("POST", f"/hub/login?next={quote(next_url, safe='')}", self._form(password))

    def ask_hub(self, method: str, path: str, form: Json = None) -> Response:
        """Return the response of the hub without following redirects."""
        return self._do(self._first_response(method, f"{self._hub}{path}", form))

    def visit(self, path: str) -> Answer:
        """Return the response to a path of the hub or of any server, after redirects."""
        return self._do(self._asked_of_the_hub("GET", path))

    def _form(self, password: str) -> Json:
        form = self._do(self._asked_of_the_hub("GET", "/hub/login"))
        found = _FIELD.search(form.text)
        assert found is not None, f"no form:\n{form.text}"
        return {"_xsrf": found[1], "username": self._name, "password": password}

    def start_server(self) -> None:
        """Start the server and wait until it answers to this user."""
        begun = self._do(self._asked_of_the_hub("GET", "/hub/spawn"))
        assert begun.code == 200, begun
        wait_for("the server of the user", lambda: self.get("/lab").url.startswith(self.url), SECONDS)
        status = self.get("/api/status")
        assert status.code == 200, status

    async def _asked_of_the_hub(self, method: str, path: str, form: Json = None) -> Answer:
        async with self._session.request(method, f"{self._hub}{path}", data=form) as answer:
            return Answer(answer.status, str(answer.url), await answer.text())

    def protocol_of(self, kernel: str) -> str | None:
        """Return the protocol negotiated with a kernel, as requested by JupyterLab."""
        return self._do(self._protocol(f"{self.url}/api/kernels/{kernel}/channels"))

    async def _protocol(self, url: str) -> str | None:
        async with self._session.ws_connect(url, protocols=(KERNEL_PROTOCOL,)) as websocket:
            return websocket.protocol

    def _headers(self) -> dict[str, str]:
        """Return headers with the XSRF token of the hub or of the server."""
        token = self._session.cookie_jar.filter_cookies(URL(f"{self.url}/")).get("_xsrf")
        return {} if token is None else {"X-XSRFToken": token.value}
