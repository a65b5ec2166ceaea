"""Every page in light and dark: axe finds no violation, nothing is wider than the window, and the docs have pictures.

`WINDLASS_REGENERATE=1` writes the pictures to docs/images.
"""

import base64
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from dashboard_tabs import Tab
from playwright.sync_api import Page, expect

from conformance.waiting import wait_for

IMAGES = Path(__file__).parents[2] / "docs/images"
MAX_BYTES = 150_000

JOB_FILE = """\
name: digits
image: example.com/digits:1
command: python3 train.py
runtime: pytorch
roles:
  worker:
    tasks: 4
retry: 2
"""


def jobs(tab: Tab) -> None:
    tab.open("jobs")
    expect(tab.row("unstable")).to_contain_text("Failed")
    expect(tab.row("hello")).to_contain_text("Succeeded")
    expect(tab.row("training")).to_contain_text("loss=")


def job(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable")
    expect(page.locator(".title .status")).to_have_text("Failed")
    expect(tab.lane("worker-1").get_by_role("gridcell")).to_have_count(4)
    tab.lane("worker-1").get_by_role("gridcell").last.click()
    expect(page.get_by_role("complementary")).to_contain_text("exit code 1")


def logs(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable/logs?attempt=all&q=NaN")
    expect(page.get_by_text(re.compile(r"^\d+ matches in"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("First error"))).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("loading the data")


def metrics(tab: Tab) -> None:
    page = tab.open("jobs/default/training/metrics")
    for title in ("CPU", "Memory", "loss"):
        expect(page.get_by_role("region", name=title).locator("canvas")).to_be_visible()
    many = "[...document.querySelectorAll('figure')].every(each => each.dataset.points >= 5)"
    wait_for("charts with lines", lambda: page.evaluate(many))


def file(tab: Tab) -> None:
    page = tab.open("jobs/default/training/file")
    expect(page.locator("pre.file")).to_contain_text("kind: Framework")


def submit(tab: Tab) -> None:
    page = tab.open("submit")
    page.get_by_label("Job file").fill(JOB_FILE)
    page.get_by_label("Faults, one per line").fill("kill worker-1 after 5m")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "4")
    expect(page.get_by_role("region", name="Check of the file")).not_to_contain_text("Checking")


def cluster(tab: Tab) -> None:
    page = tab.open("cluster")
    expect(page.get_by_role("region", name="Waiting tasks")).to_contain_text("default/waiting")


def confirmation(tab: Tab) -> None:
    page = tab.open("jobs")
    page.get_by_role("checkbox", name="Select training").check()
    page.get_by_role("button", name="Stop…").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def login_hint(tab: Tab) -> None:
    tab.page.context.clear_cookies()
    page = tab.open("jobs")
    expect(page.get_by_text("windlass ui")).to_be_visible()


PAGES: tuple[Callable[[Tab], None], ...] = (
    jobs,
    job,
    logs,
    metrics,
    file,
    submit,
    cluster,
    confirmation,
    login_hint,
)
PICTURES = ("jobs", "job", "job-dark", "logs", "metrics", "submit", "cluster")


@pytest.mark.parametrize("show", PAGES, ids=lambda show: show.__name__)
def test_page_is_accessible_in_light_and_dark(tab: Tab, show: Callable[[Tab], None]) -> None:
    show(tab)
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        tab.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert tab.violations() == [], scheme
        name = show.__name__ if scheme == "light" else f"{show.__name__}-dark"
        if name in PICTURES:
            _take(tab.page, f"dashboard-{name}")
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_list_is_accessible_on_a_phone(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 844})
    jobs(tab)
    tab.page.emulate_media(color_scheme="light")
    assert tab.violations() == []
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    _take(tab.page, "dashboard-phone")


def _take(page: Page, name: str) -> None:
    """Write a picture for the docs, if asked to."""
    if os.environ.get("WINDLASS_REGENERATE") != "1":
        return
    session = page.context.new_cdp_session(page)
    taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": 90})
    picture = base64.b64decode(taken["data"])
    assert len(picture) <= MAX_BYTES, name
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / f"{name}.webp").write_bytes(picture)
