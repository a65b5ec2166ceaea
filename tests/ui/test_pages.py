"""The pages for metrics, submitting and the cluster."""

import re
from pathlib import Path

import dashboard_jobs
from dashboard_tabs import Tab
from playwright.sync_api import expect
from pods.commands import Local

FAILING = """\
name: planned
command: python3 train.py
roles:
  worker:
    tasks: 3
retry: 1
"""


def test_usage_and_reported_values_are_drawn(tab: Tab) -> None:
    page = tab.open("jobs/default/training/metrics")
    for title in ("CPU", "Memory", "loss"):
        section = page.get_by_role("region", name=title)
        section.scroll_into_view_if_needed()
        expect(section.locator("canvas")).to_be_visible()
        expect(section).to_contain_text("worker-2:")


def test_charts_outside_of_the_screen_are_not_drawn(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 700, "height": 300})
    page = tab.open("jobs/default/training/metrics")
    charts = page.locator("figure.chart")
    expect(charts.nth(2)).to_be_attached()
    expect(charts.first).to_have_attribute("data-drawn", "true")
    expect(charts.last).to_have_attribute("data-drawn", "false")
    charts.last.scroll_into_view_if_needed()
    expect(charts.last.locator("canvas")).to_be_visible()
    expect(charts.first).to_have_attribute("data-drawn", "false")


def test_lint_marks_the_line(tab: Tab) -> None:
    page = tab.open("submit")
    page.get_by_label("Job file").fill("name: typo\ncomand: python train.py\n")
    check = page.get_by_role("region", name="Check of the file")
    expect(check).to_contain_text("comand")
    expect(page.locator(".gutter .mark-error").filter(has_text="2")).to_be_visible()
    check.get_by_role("button", name="Line 2").first.click()
    expect(page.get_by_label("Job file")).to_be_focused()
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()


def test_file_is_dropped_planned_and_submitted(tab: Tab, local: Local, tmp_path: Path) -> None:
    page = tab.open("submit")
    file = tmp_path / "dropped.yaml"
    file.write_text(dashboard_jobs.job("dropped", tasks=2))
    drop = """(text) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([text], "dropped.yaml"));
        document.querySelector(".editor").dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true}));
    }"""
    page.get_by_label("Job file").wait_for()
    page.evaluate(drop, "name: first\n")
    expect(page.get_by_label("Job file")).to_have_value("name: first\n")
    page.get_by_label("Choose a file").set_input_files(file)
    expect(page.get_by_label("Job file")).to_have_value(re.compile("name: dropped"))
    page.get_by_label("Faults, one per line").fill("exit 3 worker-1 after 5s")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_text(re.compile("^dropped"))).to_be_visible()
    expect(tab.lane("worker-1").get_by_role("gridcell").first).to_have_attribute(
        "aria-label", re.compile("failed, exit code 3")
    )
    page.get_by_label("Faults, one per line").fill("exit 3 nobody-1")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("alert")).to_contain_text("nobody")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("link", name="dropped").click()
    expect(page.get_by_role("heading", name="dropped")).to_be_visible()
    local.home.windlass("delete", "--local", "dropped").expect(0)


def test_cluster_shows_nodes_and_what_waits(tab: Tab) -> None:
    page = tab.open("cluster")
    nodes = page.get_by_role("region", name="Nodes")
    expect(nodes).to_contain_text("Ready")
    expect(nodes).to_contain_text(re.compile(r"free of \S+ GiB, \S+ \S+ used"))
    waiting = page.get_by_role("region", name="Waiting tasks")
    expect(waiting).to_contain_text("worker-0")
    expect(waiting).to_contain_text("too few free CPUs")
    waiting.get_by_role("link", name="default/waiting").click()
    expect(page.get_by_role("heading", name="waiting")).to_be_visible()


def test_unknown_page_offers_the_jobs(tab: Tab) -> None:
    page = tab.open("nonsense")
    page.get_by_role("link", name="Show the jobs").click()
    expect(tab.row("hello")).to_be_visible()
