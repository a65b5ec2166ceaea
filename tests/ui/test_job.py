"""The page of a job: verdict, timeline, details of attempts."""

import re
from datetime import datetime, timedelta
from typing import Any

import dashboard_jobs
import dashboards
import large_jobs
import pytest
from dashboard_tabs import Tab
from playwright.sync_api import Route, expect
from scripted_cluster import Place

from conformance.waiting import wait_for


def test_verdict_reason_and_facts_are_shown(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable")
    expect(page.locator(".lead")).to_contain_text("unstable failed: worker-1 exited with code 1")
    expect(page.get_by_role("region", name="Why")).to_contain_text("ValueError: loss is NaN at step 17")
    expect(page.get_by_role("region", name="Details")).to_contain_text('print("loading the data"')
    page.get_by_role("link", name="File").click()
    expect(page.locator("pre.file")).to_contain_text("kind: Framework")


def test_timeline_shows_every_attempt_of_every_task(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable")
    expect(page.locator(".title .status")).to_have_text("Failed")
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "4")
    expect(page.locator(".axis .attempt")).to_have_count(2)
    failed = tab.lane("worker-1").get_by_role("gridcell")
    expect(failed).to_have_count(4)
    for number in range(4):
        expect(failed.nth(number)).to_have_attribute("aria-label", re.compile("failed, exit code 1"))
    expect(tab.lane("worker-0").get_by_role("gridcell")).to_have_count(2)
    expect(page.locator(".axis .event").first).to_have_attribute("title", re.compile("unstable"))
    expect(tab.lane("worker-0").locator(".phase-running")).not_to_have_count(0)
    page.get_by_text(re.compile(r"Events \(\d+\)")).click()
    expect(page.get_by_role("region", name="Events")).to_contain_text("unstable")


def completed(name: str, created: datetime) -> dict[str, Any]:
    """Return the status of a job whose task waited for 10 s, prepared for 5 s, pulled images for 20 s, prepared for
    5 s, ran for 40 s and ended for 20 s."""

    def at(seconds: float) -> str:
        return (created + timedelta(seconds=seconds)).isoformat()

    found = large_jobs.status(name, 1)
    outcome = {
        "code": 0,
        "phrase": "Succeeded",
        "type": {"name": "Succeeded", "attributes": []},
        "diagnostics": "",
    }
    ended = {"completionTime": at(100), "completionStatus": outcome}
    attempt = found["attemptStatus"]
    (task,) = attempt["taskRoleStatuses"][0]["taskStatuses"]
    found |= {"state": "Completed", "startTime": at(0), "completionTime": at(100), "transitionTime": at(100)}
    attempt |= {"startTime": at(0), "runTime": at(40), **ended}
    task |= {"state": "Completed", "startTime": at(0), "completionTime": at(100), "transitionTime": at(100)}
    times = {"scheduled": at(10), "started": at(40), "deletionRequested": at(80)}
    task["attemptStatus"] |= {"startTime": at(0), "runTime": at(40), "podTimes": times, **ended}
    return found


def test_bar_shows_the_phases_of_an_attempt(place: Place, scripted_tab: Tab) -> None:
    created = large_jobs.submit(place, "phases", 1)
    stamp = created["metadata"]["creationTimestamp"]
    status = completed("phases", datetime.fromisoformat(stamp))
    large_jobs.store(place, created, status)
    (task,) = status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    uid = task["attemptStatus"]["podUID"]
    pod = {"metadata": {"name": "phases-worker-0", "uid": uid, "creationTimestamp": stamp}}
    dashboards.report_event(place, pod, "Pulling", 15, "Pulling image a")
    dashboards.report_event(place, pod, "Pulled", 35, "Successfully pulled image a")
    page = scripted_tab.open(f"jobs/{place.name}/phases")
    bar = scripted_tab.lane("worker-0").get_by_role("gridcell")
    expect(bar).to_have_attribute("aria-label", re.compile("succeeded, .*pulled images for 20 s, on node-0"))
    phases = [
        ("pending", 10),
        ("preparing", 5),
        ("pulling", 20),
        ("preparing", 5),
        ("running", 40),
        ("ending", 20),
    ]
    drawn = bar.locator("i")
    expect(drawn).to_have_count(len(phases))
    found = drawn.evaluate_all(
        "(all) => all.map((each) => [each.className, each.getBoundingClientRect().width])"
    )
    total = sum(width for _, width in found)
    shares = [(name.removeprefix("phase-"), 100 * width / total) for name, width in found]
    assert shares == [(name, pytest.approx(seconds, abs=1)) for name, seconds in phases]
    colours = drawn.evaluate_all("(all) => all.map((each) => getComputedStyle(each).background)")
    assert len(set(colours)) == len({name for name, _ in phases})
    expect(page.locator(".axis .event")).to_have_count(2)


def test_frequent_changes_do_not_interrupt_a_slow_timeline(place: Place, scripted_tab: Tab) -> None:
    large_jobs.create(place, "large", 3)
    page = scripted_tab.page
    held: list[Route] = []
    failed: list[str] = []
    page.route("**/timeline", lambda route: route.continue_() if len(held) else held.append(route))
    page.on("requestfailed", lambda request: failed.append(request.url))
    scripted_tab.open(f"jobs/{place.name}/large")
    # The server sends at most one change per second, after which the page reads the timeline again.
    for running in (2, 3, 2, 3):
        status = {"summary": {"running": running, "tasks": 3}}
        place.client.patch(f"{place.framework_path('large')}/status", {"status": status}).expect(200)
        expect(page.locator(".lead")).to_contain_text(f"{running} of 3 tasks")
    wait_for("the first request", lambda: held)
    assert not [url for url in failed if url.endswith("/timeline")]
    held[0].continue_()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "3")


def test_ten_failures_are_told_apart(tab: Tab) -> None:
    page = tab.open("jobs/default/broken")
    expect(page.get_by_label(re.compile("Only tasks with a failed attempt"))).to_be_visible()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "10")
    codes = {
        "code": 3,
        "traceback": 1,
        "killed": 137,
        "aborted": 134,
        "segfault": 139,
        "longline": 9,
        "shell": 127,
        "temporary": 75,
    }
    for role in dashboard_jobs.FAILURES:
        cell = tab.lane(f"{role}-0").get_by_role("gridcell").last
        code = codes.get(role, 1)
        expect(cell).to_have_attribute("aria-label", re.compile(f"failed, exit code {code},"))
    expect(tab.lane("temporary-0").get_by_role("gridcell")).to_have_count(2)


def test_details_of_an_attempt_say_why_it_was_retried(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable")
    tab.lane("worker-1").get_by_role("gridcell").nth(3).wait_for()
    tab.lane("worker-1").get_by_role("gridcell").first.click()
    details = page.get_by_role("complementary", name="Attempt 0 of worker-1")
    expect(details).to_contain_text("exit code 1")
    expect(details).to_contain_text(re.compile("retried: ", re.IGNORECASE))
    for fact, value in (
        ("Node", r"\S"),
        ("pending", r"\d\d:\d\d"),
        ("ended", r"\d\d:\d\d"),
        ("Class", "unknown"),
    ):
        found = (
            details.locator("dt")
            .filter(has_text=re.compile(f"^{fact}$"))
            .locator("xpath=following-sibling::dd[1]")
        )
        expect(found).to_have_text(re.compile(value))
    expect(details).not_to_contain_text("not scheduled")
    expect(page).to_have_url(re.compile(r"attempt=worker-1\.0\.0"))
    tab.lane("worker-1").get_by_role("gridcell").last.click()
    last = page.get_by_role("complementary", name=re.compile("of worker-1"))
    expect(last).to_contain_text("loss is NaN at step 17")
    last.get_by_role("link", name="Log of this attempt").click()
    expect(page.get_by_role("log")).to_contain_text("loss is NaN at step 17")


def test_hostile_message_of_a_task_stays_text(tab: Tab) -> None:
    page = tab.open("jobs/default/broken")
    tab.lane("hostile-0").get_by_role("gridcell").last.click()
    details = page.get_by_role("complementary", name=re.compile("of hostile-0"))
    expect(details).to_contain_text("<script>document.title=")


def test_timeline_is_operated_by_keyboard(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable")
    tab.lane("worker-1").get_by_role("gridcell").nth(3).wait_for()
    grid = page.get_by_role("grid")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Attempt 1 of worker-1")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name=re.compile("of worker-3"))).to_be_visible()
    everything = page.get_by_role("button", name="All")
    expect(everything).to_be_disabled()
    grid.focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    expect(everything).to_be_enabled()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("0")
    expect(everything).to_be_disabled()


def test_tasks_are_filtered(tab: Tab) -> None:
    page = tab.open("jobs/default/unstable")
    grid = page.get_by_role("grid")
    expect(grid).to_have_attribute("aria-rowcount", "4")
    page.get_by_label(re.compile("Only tasks with a failed attempt")).check()
    expect(grid).to_have_attribute("aria-rowcount", "1")
    page.get_by_role("searchbox", name="Tasks").fill("worker-3")
    expect(page.get_by_text("No task matches.")).to_be_visible()


def test_job_that_does_not_exist_is_an_error(tab: Tab) -> None:
    page = tab.open("jobs/default/no-such-job")
    expect(page.get_by_role("alert")).to_contain_text("no-such-job")
