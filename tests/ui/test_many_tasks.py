"""A job with 10,000 tasks."""

import re
from collections.abc import Iterator

import dashboards
import large_jobs
import pytest
import scripted_cluster
from dashboard_tabs import WINDOW, Tab
from playwright.sync_api import Browser, expect

TASKS = 10_000
MAX_LANES = 100
"""The document has only the lanes on the screen."""


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with scripted_cluster.running(has_controller=False) as cluster:
        place = cluster.new_scripted_place()
        large_jobs.create(place, "large", TASKS)
        with dashboards.serving(place) as dashboard:
            server = dashboard.server
            context = browser.new_context(viewport=WINDOW)
            made = Tab(context, f"http://127.0.0.1:{server.port}")
            made.page.goto(f"{made.address}{server.login_path()}")
            made.open(f"jobs/{place.name}/large")
            yield made
            assert not made.errors
            context.close()


def test_ten_thousand_tasks_are_scrolled_found_and_zoomed(tab: Tab) -> None:
    page = tab.page
    grid = page.get_by_role("grid")
    expect(grid).to_have_attribute("aria-rowcount", str(TASKS))
    lanes = page.locator(".lane")
    assert lanes.count() < MAX_LANES
    grid.focus()
    page.keyboard.press("End")
    expect(tab.lane("worker-9999")).to_be_visible()
    expect(lanes.nth(MAX_LANES)).to_have_count(0)
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_label(re.compile("Only tasks with a failed attempt")).check()
    expect(grid).to_have_attribute("aria-rowcount", str(TASKS // large_jobs.FAILED_EVERY))
    page.get_by_role("searchbox", name="Tasks").fill("worker-1499")
    expect(grid).to_have_attribute("aria-rowcount", "1")
    page.get_by_role("button", name="All").click()
    cell = tab.lane("worker-1499").get_by_role("gridcell")
    expect(cell).to_have_attribute("aria-label", re.compile("failed, exit code 1"))
