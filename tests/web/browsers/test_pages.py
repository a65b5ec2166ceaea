"""The page that `make ui` builds in Chromium and in Firefox, with jobs on a cluster in this process.

The tests of all its functions are in tests/ui.
"""

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import browsers
import dashboards
import pytest
from browsers import Page
from dashboards import Dashboard
from operated import jobs
from scripted_cluster import Place

from windlass.web.page import STATIC
from windlass.web.schema import Mode

pytestmark = pytest.mark.smoke
MAX_BYTES = 200_000
"""Size of the compressed page."""
HOSTILE = "<img src=x onerror=\"document.title='attacked'\"><script>document.title='attacked'</script>"


@pytest.fixture(scope="module", params=[browsers.PROGRAM, browsers.FIREFOX])
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    with browsers.opened(request.param) as opened:
        yield opened
        assert opened.ask("document.title") != "attacked"
        assert not opened.complaints


@pytest.fixture
def running(place: Place) -> Place:
    """A job with two running tasks."""
    place.submit(jobs.framework("digits", jobs.role(tasks=2, life=jobs.FOREVER)))
    place.wait_for_running("digits", 2)
    return place


CHOOSE_OTHER = """
    (() => {
        const labels = [...document.querySelectorAll("main label")];
        const list = labels.find((each) => each.textContent.startsWith("Namespace"));
        const select = list?.querySelector("select");
        if (!select) return true;
        select.value = "…";
        select.dispatchEvent(new Event("change", {bubbles: true}));
        return true;
    })()
"""


def row(job: str) -> str:
    return f"document.querySelector('tr[data-job$=\"/{job}\"]')"


def until_row(page: Page, job: str, words: str) -> None:
    page.until(
        f"{job} to be shown as {words}", f"{row(job)} && {row(job)}.innerText.includes({json.dumps(words)})"
    )


def click_button(page: Page, words: str, where: str = "document") -> None:
    """Click the button with this text once it exists."""
    found = f"[...{where}.querySelectorAll('button')].find((each) => each.innerText.trim() === {json.dumps(words)})"
    page.until(f"the button {words!r}", f"{where} && {found} && ({found}.click(), true)")


def show(page: Page, dashboard: Dashboard, path: str) -> None:
    address = f"http://127.0.0.1:{dashboard.server.port}"
    page.open(f"{address}/#/{path}")
    page.until(
        "the page", f"location.href.endsWith({json.dumps(path)}) && document.querySelector('h1') !== null"
    )


@pytest.fixture
def logged_in(page: Page, dashboard: Dashboard) -> Page:
    server = dashboard.server
    page.open(f"http://127.0.0.1:{server.port}{server.login_path()}")
    page.until_shown("Namespace")
    assert "code" not in page.ask("location.href")
    return page


def test_list_is_updated_and_a_job_is_stopped(logged_in: Page, dashboard: Dashboard, running: Place) -> None:
    page = logged_in
    show(page, dashboard, f"jobs?ns={running.name}")
    until_row(page, "digits", "2 worker: 2 running")
    running.submit(jobs.framework("late", jobs.role(life=jobs.fails(3))))
    until_row(page, "late", "Failed")
    page.click("input[aria-label='Select digits']")
    click_button(page, "Stop…")
    click_button(page, "Stop", "document.querySelector('dialog[open]')")
    until_row(page, "digits", "Stopped")
    assert running.framework("digits")["spec"]["executionType"] == "Stop"


def test_timeline_shows_an_attempt_and_its_details(
    logged_in: Page, dashboard: Dashboard, place: Place
) -> None:
    page = logged_in
    place.submit(jobs.framework("digits", jobs.role(life=jobs.fails(3), retry={"maxRetryCount": 1})))
    place.wait_for_completed("digits")
    show(page, dashboard, f"jobs/{place.name}/digits")
    page.until("the attempts", "document.querySelector('.lane .bar') !== null")
    page.until(
        "the outcome", "document.querySelector('.lane .bar').ariaLabel.includes('failed, exit code 3')"
    )
    page.click(".lane .bar")
    page.until_shown("Log of this attempt")
    details = page.ask("document.querySelector('aside').innerText")
    assert "exit code 3" in details
    assert "retried" in details.lower()


def test_log_is_followed_and_stays_text(logged_in: Page, dashboard: Dashboard, running: Place) -> None:
    page = logged_in
    running.write("digits-worker-0", f"{HOSTILE}\n")
    show(page, dashboard, f"jobs/{running.name}/digits/logs")
    page.until_shown("<img src=x onerror=")
    running.write("digits-worker-1", "a later line\n")
    page.until_shown("a later line")
    assert page.ask("document.querySelectorAll('[role=log] img, [role=log] script').length") == 0
    assert page.ask("document.title") != "attacked"


def test_long_logs_are_merged_by_time_and_shown_to_the_end(
    logged_in: Page, dashboard: Dashboard, running: Place
) -> None:
    page, lines = logged_in, 600
    for number in range(lines):
        running.write(f"digits-worker-{number % 2}", f"line {number}\n", at=number / 7)
    show(page, dashboard, f"jobs/{running.name}/digits/logs")
    shown = "[...document.querySelectorAll('[role=log] .line .content')].map((each) => each.textContent)"
    last = [f"line {number}" for number in range(lines - 5, lines)]
    page.until("the end of both logs", f"JSON.stringify({shown}.slice(-5)) === {json.dumps(compact(last))}")
    running.write("digits-worker-0", "the newest line\n", at=lines)
    page.until("the newest line", f"{shown}.at(-1) === 'the newest line'")


def compact(value: object) -> str:
    """Return the JSON of a value as browsers write it."""
    return json.dumps(value, separators=(",", ":"))


def test_file_is_checked_and_simulated(logged_in: Page, dashboard: Dashboard) -> None:
    page = logged_in
    show(page, dashboard, "submit")
    page.type("textarea", "name: typo\nimage: x\ncomand: x\n")
    page.until_shown("comand")
    marks = "[...document.querySelectorAll('.gutter .mark-error')]"
    page.until("the mark of line 3", f"{marks}.some((each) => each.innerText.includes('3'))")
    page.click("textarea")
    page.ask("document.querySelector('textarea').select()")
    page.type("textarea", "name: digits\nimage: x\ncommand: x\nroles: {worker: {}}\n")
    click_button(page, "Simulate")
    page.until_shown("digits ends with Succeeded")


def test_viewer_logs_in_with_a_token(page: Page, running: Place) -> None:
    token = dashboards.token_of_viewer(running, "get", "list", "watch")
    with dashboards.serving(running, Mode.TOKEN) as dashboard:
        page.open(f"http://127.0.0.1:{dashboard.server.port}/#/jobs")
        page.type("input", token)
        click_button(page, "Log in")
        until_row(page, "digits", "Running")
        found: list[Any] = page.ask("[document.cookie, location.href, JSON.stringify(localStorage)]")
        assert not any(token in each or "session" in each for each in found)
        # Its own namespace, although it may not list namespaces.
        page.until(
            "another namespace", f"{CHOOSE_OTHER} && document.querySelector('main input[type=text]') !== null"
        )
        page.type("main input[type=text]", "default")
        enter = "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true})"
        page.ask(f"document.activeElement.dispatchEvent({enter})")
        page.until_shown("denied access")
        assert page.ask(f"{row('digits')} === null")
        click_button(page, "Log out")
        page.until(
            "the form", "document.querySelector('input') !== null && document.querySelector('tr') === null"
        )


def test_rows_disappear_when_the_permission_is_withdrawn(
    page: Page, running: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.web.calls.PING_SECONDS", 0.1)
    monkeypatch.setattr("windlass.web.viewers.RECHECK_SECONDS", 0.1)
    token = dashboards.token_of_viewer(running, "get", "list", "watch")
    with dashboards.serving(running, Mode.TOKEN) as dashboard:
        page.open(f"http://127.0.0.1:{dashboard.server.port}/#/jobs")
        page.type("input", token)
        click_button(page, "Log in")
        until_row(page, "digits", "Running")
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{running.name}"
        running.client.delete(f"{base}/rolebindings/viewer").expect(200)
        page.until_shown("denied access")
        page.until("the row to disappear", f"{row('digits')} === null")


def test_page_is_small_and_loads_nothing_from_elsewhere() -> None:
    found = [each for each in STATIC.rglob("*") if each.is_file()]
    assert sum(len(gzip.compress(each.read_bytes())) for each in found) <= MAX_BYTES
    index = (STATIC / "index.html").read_text()
    assert re.findall(r'(?:src|href)="([^"]*)"', index)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', index)
