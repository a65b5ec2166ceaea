"""Reports in a real browser, opened from the disk: large ones stay usable, and hostile text stays text."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import browsers
import pytest
import reports

from examples import needs
from windlass.client.report.page import PageWriter

TASKS = 10_000
LINES = 1_000_000
MAX_ELEMENTS = 5000
"""Bound of the number of elements of a page, whatever its report contains."""
SCREENSHOTS = "WINDLASS_SCREENSHOTS"
"""Environment variable with a folder in which the tests store screenshots."""


@pytest.fixture(scope="module", params=[browsers.PROGRAM, browsers.FIREFOX])
def page(request: pytest.FixtureRequest) -> Iterator[browsers.Page]:
    needs(request.param)
    with browsers.opened(request.param) as opened:
        yield opened


def line(number: int) -> str:
    return f"step {number} of {LINES}: loss={number * 7919 % 10_007 / 10_007:.6f} accuracy=0.97".ljust(
        100, "."
    )


def elements(page: browsers.Page) -> int:
    count: int = page.ask("document.querySelectorAll('*').length")
    return count


def rows(page: browsers.Page, box: str) -> list[str]:
    found: list[str] = page.ask(
        f"[...document.querySelectorAll('#{box} .row')].map((row) => row.textContent)"
    )
    return found


def press(page: browsers.Page, box: str, key: str) -> None:
    event = f"new KeyboardEvent('keydown', {{key: {json.dumps(key)}, bubbles: true, cancelable: true}})"
    page.ask(f"document.getElementById('{box}').dispatchEvent({event})")


def open_report(page: browsers.Page, path: Path) -> None:
    page.open(path.as_uri())
    page.until("the page to be ready", "document.documentElement.dataset.ready")


def store_screenshot(page: browsers.Page, name: str) -> None:
    """Store a screenshot, and check that the page is drawn: a blank one is small."""
    data = page.screenshot()
    assert len(data) > 20_000
    if folder := os.environ.get(SCREENSHOTS):
        (Path(folder) / name).write_bytes(data)


def test_report_about_10_000_tasks_with_100_mb_of_logs(page: browsers.Page, tmp_path: Path) -> None:
    tasks = [reports.task(at, is_failed=at % 100 == 7, text="KeyError: 'lr'") for at in range(TASKS)]
    path = tmp_path / "report.html"
    small = [(reports.log_of(each), ["line", "end"]) for each in tasks if each.is_failed][:-1]
    last = next(each for each in reversed(tasks) if each.is_failed)
    with path.open("wb") as file:
        logs = (*small, (reports.log_of(last), map(line, range(LINES))))
        reports.write(PageWriter, file.write, reports.report(tasks, "KeyError", events=5000), logs)
    open_report(page, path)
    assert page.ask("document.getElementById('count').textContent") == "10000 of 10000 tasks"
    assert 10 < len(rows(page, "tasks")) < 60
    store_screenshot(page, "timeline.png")

    press(page, "tasks", "End")
    page.until(
        "the last lane",
        "document.querySelector('#tasks .row:last-child').textContent.includes('worker-9999')",
    )
    page.ask("document.getElementById('outcome').value = 'Failed'")
    page.ask("document.getElementById('outcome').dispatchEvent(new Event('input'))")
    page.until("the failed tasks", "document.getElementById('count').textContent === '100 of 10000 tasks'")
    before = page.ask("document.getElementById('axis').textContent")
    press(page, "tasks", "+")
    page.until("another axis", f"document.getElementById('axis').textContent !== {json.dumps(before)}")
    press(page, "tasks", "End")
    page.until("the summary", "document.getElementById('detail').textContent.includes(\"KeyError: 'lr'\")")

    press(page, "tasks", "Enter")
    page.until("the log", f"document.getElementById('found').textContent === '{LINES} lines'")
    press(page, "lines", "End")
    page.until(
        "the last line", f"document.getElementById('lines').textContent.includes('step {LINES - 1} of')"
    )
    last_rows = rows(page, "lines")
    assert last_rows[-1].endswith(line(LINES - 1))
    page.ask("document.getElementById('lines').scrollTop /= 2")
    page.until(
        "the middle",
        "/step (49|50)[0-9]{4} of/.test(document.getElementById('lines').textContent)",
    )
    page.type("#find", "step 765432 of")
    page.click("#next")
    page.until("the found line", "document.getElementById('found').textContent === 'line 765433'")
    page.until(
        "its row", "(document.querySelector('#lines .hit') || {}).textContent?.includes('step 765432 of')"
    )
    store_screenshot(page, "log.png")
    assert elements(page) < MAX_ELEMENTS
    assert page.ask("performance.getEntriesByType('resource').length") == 0
    assert page.complaints == []


def test_hostile_text_in_a_report_stays_text(page: browsers.Page, tmp_path: Path) -> None:
    tasks = [reports.task(0, is_failed=True, text=reports.HOSTILE), reports.task(1)]
    contents = reports.report(tasks, reports.HOSTILE, events=300)
    path = tmp_path / "report.html"
    with path.open("wb") as file:
        logs = [(reports.log_of(tasks[0]), [reports.HOSTILE])]
        reports.write(PageWriter, file.write, contents, logs, reports.HOSTILE)
    open_report(page, path)
    page.until("the log line", "document.getElementById('lines').textContent.includes('onerror')")
    press(page, "tasks", "Home")
    page.until("the summary", "document.getElementById('detail').textContent.includes('onerror')")
    assert page.ask("document.images.length") == 0
    assert page.ask("document.getElementById('event-list').textContent").count("<img src=x") > 10
    assert page.complaints == []


def test_page_refuses_scripts_that_are_not_its_own(page: browsers.Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with path.open("wb") as file:
        reports.write(PageWriter, file.write, reports.report([reports.task()]))
    change = "document.title = 'injected'"
    injected = f"<script>{change}</script><img src='http://127.0.0.1:1/x' onerror=\"{change}\">"
    path.write_text(path.read_text().replace("</main>", f"{injected}</main>"))
    open_report(page, path)
    assert page.ask("document.images.length") == 1
    assert page.ask("document.title").startswith("digits failed")
