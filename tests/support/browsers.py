"""Headless browsers: Debian's Chromium, controlled by the DevTools protocol, and Firefox, by WebDriver BiDi.

Tests poll the page instead of sleeping.
"""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
from web_sessions import WebSession

from conformance.waiting import wait_for

PROGRAM: Final = "chromium"
FIREFOX: Final = "firefox-esr"
SECONDS: Final = 300.0
"""Timeout of a page."""
OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",  # required for root
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-proxy-server",
    "--window-size=1400,1000",
    "--remote-debugging-port=0",
)
FIREFOX_OPTIONS: Final = (
    "--headless",
    "--no-remote",
    "--remote-debugging-port=0",
    "--width=1400",
    "--height=1000",
)
ENDS: Final = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED)


class Page(WebSession):
    """The only tab of a browser."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._number = 0
        self.complaints: list[str] = []
        """Uncaught exceptions of the page."""

    def open(self, url: str) -> None:
        """Navigate to a URL without waiting for the page."""
        if failed := self._tell("Page.navigate", url=url).get("errorText"):
            raise AssertionError(f"{url} does not open: {failed}")

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; None if it throws, e.g. during navigation."""
        answer = self._tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    def until(self, what: str, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        try:
            return wait_for(what, lambda: self.ask(expression), SECONDS)
        except AssertionError as error:
            text = self.ask("document.body.innerText")
            error.add_note(f"{self.ask('location.href')} shows:\n{text}\nand has thrown: {self.complaints}")
            raise

    def until_shown(self, words: str) -> None:
        self.until(f"{words!r} to be shown", f"document.body.innerText.includes({json.dumps(words)})")

    def click(self, selector: str) -> None:
        """Click an element once it exists."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{selector} to be there", f"{found} && ({found}.click(), true)")

    def type(self, selector: str, text: str) -> None:
        """Type into a field once it exists."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.until(
            f"{selector} to be there", f"{found} && ({found}.focus(), document.activeElement === {found})"
        )
        self._insert_text(text)

    def _insert_text(self, text: str) -> None:
        self._tell("Input.insertText", text=text)

    def screenshot(self) -> bytes:
        """Return a picture of the visible part of the page as PNG."""
        return base64.b64decode(self._tell("Page.captureScreenshot", format="png")["data"])

    def _tell(self, method: str, **parameters: Any) -> Any:
        return self._runner.run(asyncio.wait_for(self._send(method, parameters), SECONDS))

    async def _open(self) -> None:
        self._session = aiohttp.ClientSession()
        self._websocket = await self._session.ws_connect(self._address, max_msg_size=0)
        await self._enable()

    async def _enable(self) -> None:
        for domain in ("Page", "Runtime"):
            await self._send(f"{domain}.enable", {})

    async def _send(self, method: str, parameters: dict[str, Any]) -> Any:
        self._number += 1
        await self._websocket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._websocket.receive()
            assert message.type not in ENDS, f"the browser is gone: {message}"
            received = json.loads(message.data)
            self._notice(received)
            if received.get("id") != self._number:
                continue
            assert "error" not in received, f"{method}: {received}"
            return received["result"]

    def _notice(self, received: dict[str, Any]) -> None:
        if received.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(_complaint(received["params"]["exceptionDetails"]))


class FirefoxPage(Page):
    def open(self, url: str) -> None:
        self._tell("browsingContext.navigate", context=self._context, url=url, wait="none")

    def ask(self, expression: str) -> Any:
        answer = self._tell(
            "script.evaluate",
            expression=f"Promise.resolve({expression}).then((found) => JSON.stringify(found ?? null))",
            target={"context": self._context},
            awaitPromise=True,
        )
        return json.loads(answer["result"]["value"]) if answer["type"] == "success" else None

    def screenshot(self) -> bytes:
        return base64.b64decode(
            self._tell("browsingContext.captureScreenshot", context=self._context)["data"]
        )

    def _insert_text(self, text: str) -> None:
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": keys}]
        self._tell("input.performActions", context=self._context, actions=actions)

    async def _enable(self) -> None:
        await self._send("session.new", {"capabilities": {}})
        await self._send("session.subscribe", {"events": ["log.entryAdded"]})
        self._context = (await self._send("browsingContext.getTree", {}))["contexts"][0]["context"]

    def _notice(self, received: dict[str, Any]) -> None:
        entry = received.get("params", {})
        if received.get("method") == "log.entryAdded" and entry["type"] == "javascript":
            self.complaints.append(entry["text"])


def _complaint(details: dict[str, Any]) -> str:
    thrown = details.get("exception", {})
    return str(thrown.get("description") or thrown.get("value") or details["text"])


@contextlib.contextmanager
def opened(name: str = PROGRAM) -> Iterator[Page]:
    """Run a browser with a new profile."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-browser-"))
    program = shutil.which(name)
    assert program is not None, f"{name} is not installed"
    options: tuple[str, ...] = (*OPTIONS, f"--user-data-dir={folder}")
    if name == FIREFOX:
        options = (*FIREFOX_OPTIONS, f"--profile={folder}")
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            ["setpriv", "--pdeathsig", "KILL", program, *options, "about:blank"],  # noqa: S607
            env={**os.environ, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        if name == FIREFOX:
            port = json.loads(_written(folder / "WebDriverBiDiServer.json", folder, process))["ws_port"]
            made: Page = FirefoxPage(f"ws://127.0.0.1:{port}/session")
        else:
            made = Page(
                asyncio.run(
                    _address(int(_written(folder / "DevToolsActivePort", folder, process).split()[0]))
                )
            )
        with made as page:
            yield page
    finally:
        # All its processes are in its process group.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_for("the browser's processes to be gone", lambda: not _has_group(process.pid))
        shutil.rmtree(folder, ignore_errors=True)


def _written(file: Path, folder: Path, process: "subprocess.Popen[bytes]") -> str:
    """Return the content of the file in which the browser writes its port."""

    def look() -> str:
        assert process.poll() is None, f"it has ended:\n{(folder / 'output').read_text(errors='replace')}"
        return file.read_text() if file.exists() else ""

    return str(wait_for("the browser to listen", look, SECONDS))


async def _address(port: int) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/json/list") as answer,
    ):
        (page,) = (each for each in await answer.json() if each["type"] == "page")
    found: str = page["webSocketDebuggerUrl"]
    return found


def _has_group(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True
