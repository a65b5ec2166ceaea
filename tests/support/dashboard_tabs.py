"""A tab of Debian's Chromium that shows the dashboard, controlled by Playwright."""

import functools
import shutil
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Playwright, expect

MS: Final = 180_000
"""Timeout of every condition, which only a broken page reaches."""
WINDOW: Final = {"width": 1280, "height": 800}
AXE: Final = Path(__file__).parents[2] / "ui/node_modules/axe-core/axe.min.js"
_ABOUT_REQUESTS: Final = ("Failed to load resource", "net::ERR_")


def launch(playwright: Playwright) -> Browser:
    program = shutil.which("chromium")
    assert program is not None, "chromium is not installed: apt-get install chromium"
    expect.set_options(timeout=MS)
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])


class Tab:
    """No exception and no violation of the content security policy may happen in it, see `errors`."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        context.set_default_timeout(MS)
        self.page: Page = context.new_page()
        self.address = address
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._on_console)

    def _on_console(self, message: ConsoleMessage) -> None:
        is_about_request = any(words in message.text for words in _ABOUT_REQUESTS)
        if message.type == "error" and not is_about_request:
            self.errors.append(message.text)

    def open(self, path: str) -> Page:
        """Open a page, e.g. `jobs?q=hello`."""
        self.page.goto(f"{self.address}/#/{path}")
        return self.page

    def row(self, job: str) -> Locator:
        """Return the row of a job in the list."""
        return self.page.locator(f"tr[data-job$='/{job}']")

    def lane(self, task: str) -> Locator:
        """Return the lane of a task in the timeline."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_text(task, exact=True))

    def violations(self) -> list[str]:
        """Return what axe complains about."""
        # Not a script of the page: the content security policy stays in force.
        self.page.evaluate(_axe())
        found: dict[str, Any] = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {each['help']}: {node['html'][:300]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]


@functools.cache
def _axe() -> str:
    return AXE.read_text()
