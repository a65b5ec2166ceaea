"""The logs of a job."""

import re

from dashboard_tabs import Tab
from playwright.sync_api import expect


def test_tasks_are_merged_and_followed(tab: Tab) -> None:
    page = tab.open("jobs/default/training/logs")
    log = page.get_by_role("log")
    for index in range(3):
        expect(log).to_contain_text(f"worker-{index}")
    status = page.get_by_text(re.compile(r"lines?, following"))
    expect(status).to_be_visible()
    before = log.locator(".line").last.inner_text()
    expect(log.locator(".line").last).not_to_have_text(before)


def test_tasks_are_selected(tab: Tab) -> None:
    page = tab.open("jobs/default/training/logs?task=worker-1")
    log = page.get_by_role("log")
    expect(log).to_contain_text("worker-1")
    expect(log.get_by_text("worker-2", exact=True)).to_have_count(0)
    page.get_by_label("Tasks").fill("worker-2")
    page.keyboard.press("Enter")
    expect(log).to_contain_text("worker-2")
    expect(log.get_by_text("worker-1", exact=True)).to_have_count(0)
    expect(page).to_have_url(re.compile("task=worker-2"))


def test_search_counts_matches_of_the_whole_log(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable/logs?attempt=all")
    page.get_by_role("searchbox").fill("loading the data")
    matches = page.get_by_text(re.compile(r"^\d+ matches in"))
    expect(matches).to_be_visible()
    expect(page.get_by_role("list", name="Matches by task")).to_contain_text("worker-0:")
    page.reload()
    expect(matches).to_be_visible()
    page.get_by_role("searchbox").fill(r"step \d+$")
    page.get_by_label("Regular expression").check()
    expect(page.get_by_role("list", name="First matches").get_by_role("listitem").first).to_contain_text(
        "loss is NaN at step 17"
    )
    page.get_by_role("searchbox").fill("(")
    expect(page.get_by_role("alert")).to_be_visible()


def test_first_error_is_shown_in_its_place(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable/logs?attempt=all")
    page.get_by_role("button", name=re.compile("First error")).click()
    expect(page.locator(".line.target")).to_contain_text(re.compile("error|NaN|Traceback", re.IGNORECASE))


def test_earlier_attempts_are_kept(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable/logs?attempt=0&task=worker-1")
    expect(page.get_by_role("log")).to_contain_text("loss is NaN at step 17")
    expect(page.get_by_label("Job attempt")).to_have_value("0")


def test_log_is_downloaded(tab: Tab) -> None:
    page = tab.open("jobs/default/hello/logs")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    text = started.value.path().read_text()
    assert text.count("hello") >= 2


def test_hostile_lines_stay_text(tab: Tab) -> None:
    page = tab.open("jobs/default/hostile/logs")
    log = page.get_by_role("log")
    expect(log).to_contain_text("<img src=x onerror=")
    expect(log).to_contain_text("red after")
    expect(log).to_contain_text("<U+202E>right to left<U+2066> <U+200B>hidden")
    expect(log).to_contain_text("nul <U+0000> bell <U+0007>")
    expect(log).to_contain_text("data: {}")
    expect(log).to_contain_text("the last line")
    assert log.locator("img, script").count() == 0
    page.get_by_role("searchbox").fill("<script>")
    expect(page.get_by_text(re.compile(r"^1 match in"))).to_be_visible()
    expect(log.locator("mark")).to_have_text(["<script>"])


def test_long_line_is_cut_and_can_be_opened(tab: Tab) -> None:
    page = tab.open("jobs/default/hostile/logs")
    page.get_by_role("button", name="Show all").first.click()
    dialog = page.get_by_role("dialog")
    assert len(dialog.locator("pre").inner_text()) > 100_000
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
