"""The list of jobs."""

import re

import dashboard_jobs
import large_jobs
import pytest
from dashboard_tabs import Tab
from playwright.sync_api import expect
from pods.commands import Local
from scripted_cluster import Place


def test_list_shows_state_verdict_tasks_and_progress(tab: Tab) -> None:
    tab.open("jobs")
    expect(tab.row("hello")).to_contain_text("Succeeded")
    expect(tab.row("hello")).to_contain_text("hello succeeded in")
    expect(tab.row("hello")).to_contain_text("2 worker: 2 succeeded")
    expect(tab.row("training")).to_contain_text("training is running: 3 of 3 tasks")
    expect(tab.row("training")).to_contain_text("loss=")
    expect(tab.row("waiting")).to_contain_text("4000 CPU")
    expect(tab.row("unstable")).to_contain_text("Failed")
    for label in ("Age", "Duration"):
        expect(tab.row("training").locator(f"[data-label={label}]")).to_have_text(
            re.compile(r"^\d+ (s|min|h)")
        )
    states = [tab.row(name).locator(".state path") for name in ("hello", "training", "unstable", "waiting")]
    shapes = [each.get_attribute("d") for each in states]
    assert len(set(shapes)) == len(shapes)


def test_retries_are_counted_by_class(tab: Tab) -> None:
    tab.open("jobs?q=broken")
    cell = tab.row("broken").locator(".retries")
    expect(cell).to_contain_text(re.compile(r"1\s*\S+ 1"))


def test_filter_and_states_are_in_the_url(tab: Tab) -> None:
    page = tab.open("jobs")
    page.get_by_role("searchbox", name="Filter jobs").fill("hell")
    expect(page).to_have_url(re.compile("q=hell"))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.get_by_role("searchbox", name="Filter jobs")).to_have_value("hell")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name=re.compile("Succeeded")).click()
    expect(page).to_have_url(re.compile("state=Succeeded"))
    page.go_back()
    expect(page.get_by_role("button", name=re.compile("Succeeded"))).to_have_attribute(
        "aria-pressed", "false"
    )


def test_jobs_are_sorted_by_name(tab: Tab) -> None:
    page = tab.open("jobs")
    tab.row("hello").wait_for()
    page.get_by_role("columnheader", name="Job", exact=True).get_by_role("button").click()
    expect(page.locator("tbody tr").first).to_have_attribute("data-job", "default/broken")
    expect(page.get_by_role("columnheader", name="Job", exact=True)).to_have_attribute(
        "aria-sort", "ascending"
    )
    page.get_by_role("columnheader", name="Job", exact=True).get_by_role("button").click()
    expect(page.locator("tbody tr").last).to_have_attribute("data-job", "default/broken")


def test_pages_are_turned_and_in_the_url(place: Place, scripted_tab: Tab) -> None:
    for number in range(101):
        large_jobs.create(place, f"job-{number:03}", 1)
    page = scripted_tab.open("jobs?sort=name")
    rows, pager = page.locator("tbody tr"), page.get_by_role("navigation", name="Pages of the list")
    following, previous = (pager.get_by_role("button", name=name) for name in ("Next", "Previous"))

    def is_shown(number: int, pages: int, first: str, count: int) -> None:
        expect(pager).to_contain_text(f"Page {number} of {pages}")
        expect(rows).to_have_count(count)
        expect(rows.first).to_have_attribute("data-job", f"{place.name}/{first}")
        expect(page).to_have_url(re.compile(f"page={number}$") if number > 1 else re.compile("sort=name$"))

    is_shown(1, 3, "job-000", 50)
    expect(previous).to_be_disabled()
    following.click()
    is_shown(2, 3, "job-050", 50)
    page.reload()
    is_shown(2, 3, "job-050", 50)
    following.click()
    is_shown(3, 3, "job-100", 1)
    expect(following).to_be_disabled()
    page.go_back()
    is_shown(2, 3, "job-050", 50)
    previous.click()
    is_shown(1, 3, "job-000", 50)
    following.click()
    page.get_by_role("button", name=re.compile("Running")).click()
    expect(page).to_have_url(re.compile("sort=name&state=Running$"))
    expect(pager).to_contain_text("Page 1 of 3")
    following.click()
    expect(page).to_have_url(re.compile("page=2"))
    page.get_by_role("searchbox", name="Filter jobs").fill("job-09")
    expect(rows).to_have_count(10)
    expect(rows.first).to_have_attribute("data-job", f"{place.name}/job-090")
    expect(page).to_have_url(re.compile("q=job-09$"))
    expect(pager).to_have_count(0)


def test_last_page_whose_jobs_are_deleted_is_replaced_by_the_one_before(
    place: Place, scripted_tab: Tab
) -> None:
    for number in range(51):
        large_jobs.create(place, f"job-{number:03}", 1)
    page = scripted_tab.open("jobs?sort=name&page=2")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    place.client.delete(place.framework_path("job-050")).expect(200)
    expect(rows).to_have_count(50)


def test_text_typed_before_leaving_a_log_does_not_filter_the_jobs(tab: Tab) -> None:
    page = tab.open("jobs/default/hello/logs")
    page.get_by_role("log").wait_for()
    page.get_by_role("searchbox", name="Search the whole logs").fill("nothing")
    page.evaluate("location.hash = '#/jobs?ns=default'")
    tab.row("hello").wait_for()
    # This timer is later than that of the search.
    page.evaluate("new Promise((done) => setTimeout(done, 500))")
    assert "q=" not in page.url
    expect(tab.row("hello")).to_be_visible()


def test_new_and_deleted_jobs_appear_without_reloading(tab: Tab, local: Local) -> None:
    page = tab.open("jobs?ns=default")
    tab.row("hello").wait_for()
    dashboard_jobs.submit(local, dashboard_jobs.job("late", dashboard_jobs.TRAINING))
    expect(tab.row("late")).to_contain_text("Running")
    local.home.windlass("suspend", "--local", "late").expect(0)
    expect(tab.row("late")).to_contain_text("Suspended")
    local.home.windlass("delete", "--local", "late").expect(0)
    expect(tab.row("late").get_by_text("Running")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_bulk_stop_asks_and_stops_the_selected_jobs(tab: Tab, local: Local) -> None:
    for name in ("first", "second"):
        dashboard_jobs.submit(local, dashboard_jobs.job(name, dashboard_jobs.TRAINING))
    page = tab.open("jobs")
    for name in ("first", "second"):
        expect(tab.row(name)).to_contain_text("Running")
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("button", name="Stop…").click()
    dialog = page.get_by_role("dialog", name="Stop 2 jobs?")
    expect(dialog).to_contain_text("default/first")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(tab.row("first")).to_contain_text("Running")
    page.get_by_role("button", name="Stop…").click()
    dialog.get_by_role("button", name="Stop").click()
    for name in ("first", "second"):
        expect(tab.row(name)).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Stop…")).to_have_count(0)


def test_jobs_are_suspended_resumed_copied_and_deleted(tab: Tab, local: Local) -> None:
    dashboard_jobs.submit(local, dashboard_jobs.job("paused", dashboard_jobs.TRAINING))
    page = tab.open("jobs/default/paused")

    def do(action: str) -> None:
        page.get_by_role("button", name=f"{action}…").click()
        page.get_by_role("dialog").get_by_role("button", name=action).click()

    expect(page.locator(".title .status")).to_have_text("Running")
    do("Suspend")
    expect(page.locator(".title .status")).to_have_text("Suspended")
    expect(page.get_by_role("button", name="Suspend…")).to_have_count(0)
    do("Resume")
    expect(page.locator(".title .status")).to_have_text("Running")
    do("Run again")
    expect(page.get_by_role("heading", name="paused-2")).to_be_visible()
    do("Delete")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    local.home.windlass("delete", "--local", "paused").expect(0)


def test_bulk_suspend_and_delete_ask_and_change_the_selected_jobs(tab: Tab, local: Local) -> None:
    names = ("third", "fourth")
    for name in names:
        dashboard_jobs.submit(local, dashboard_jobs.job(name, dashboard_jobs.TRAINING))
    page = tab.open("jobs")
    for action in ("Suspend", "Delete"):
        for name in names:
            expect(tab.row(name)).to_contain_text("Running" if action == "Suspend" else "Suspended")
            page.get_by_role("checkbox", name=f"Select {name}").check()
        page.get_by_role("button", name=f"{action}…").click()
        dialog = page.get_by_role("dialog", name=f"{action} 2 jobs?")
        dialog.get_by_role("button", name=action).click()
        expect(dialog).to_have_count(0)
    for name in names:
        expect(tab.row(name).get_by_text("Suspended")).to_have_count(0)


def test_chosen_colours_are_kept(tab: Tab) -> None:
    page = tab.open("jobs")
    page.get_by_label("Colours").select_option("dark")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.reload()
    expect(page.get_by_label("Colours")).to_have_value("dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
    page.get_by_label("Colours").select_option("light")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != dark


@pytest.mark.parametrize("width", [390])
def test_list_fits_a_phone(tab: Tab, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 844})
    page = tab.open("jobs")
    expect(tab.row("hello")).to_contain_text("Succeeded")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_keyboard_reaches_the_filter_a_job_and_the_help(tab: Tab) -> None:
    page = tab.open("jobs")
    tab.row("hello").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Filter jobs")).to_be_focused()
    page.keyboard.type("hello")
    expect(page.locator("tbody tr")).to_have_count(1)
    tab.row("hello").get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="hello")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Cluster")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
