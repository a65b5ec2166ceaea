"""A job with 10,000 tasks."""

import re

import large_jobs
from dashboard_tabs import Tab
from playwright.sync_api import expect
from scripted_cluster import Place

TASKS = 10_000
MAX_LANES = 100
"""The document has only the lanes on the screen."""


def test_ten_thousand_tasks_are_scrolled_found_and_zoomed(place: Place, scripted_tab: Tab) -> None:
    large_jobs.create(place, "large", TASKS)
    tab = scripted_tab
    page = tab.open(f"jobs/{place.name}/large")
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
