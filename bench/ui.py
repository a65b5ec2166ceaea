"""Measure the page of `windlass ui` in Chromium: the first paint of a job with 10,000 tasks, the time from a change of
a job until the screen shows it, and the memory of the page.

The API server, the dashboard and the writer of the changes share one process, so that the times contain the delays
that they cause to each other. There is no controller: the writer changes the status of jobs.
"""

import contextlib
import re
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import dashboards
import large_jobs
import scripted_cluster
from dashboard_tabs import WINDOW, Tab, launch
from playwright.sync_api import Browser, CDPSession, sync_playwright
from scripted_cluster import Place

from conformance.waiting import wait_for
from figures import Sheet, argument_parser  # next to this file

TASKS = 10_000
JOBS = 50
TASKS_OF_A_JOB = 8
EVENTS_PER_SECOND = 200
WARM_UP_SECONDS = 5.0
MIB = 1024 * 1024
# Milliseconds since the navigation, when the first lane of the timeline is on the screen.
PAINTED = """
    new MutationObserver((_, observer) => {
        if (!document.querySelector(".lane .bar")) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => { window.paintedAt = performance.now(); }));
    }).observe(document, {subtree: true, childList: true});
"""
# Job, number of running tasks, and time, whenever a row on the screen shows another number.
SEEN = """
    () => {
        window.seen = [];
        const shown = new Map();
        const look = () => {
            const now = performance.timeOrigin + performance.now();
            for (const row of document.querySelectorAll("tr[data-job]")) {
                const running = row.querySelector(".tasks").textContent.match(/([0-9]+) running/)?.[1];
                if (running === undefined || shown.get(row.dataset.job) === running) continue;
                shown.set(row.dataset.job, running);
                window.seen.push([row.dataset.job, Number(running), now]);
            }
        };
        look();
        window.seen = [];
        let isWaiting = false;
        new MutationObserver(() => {
            if (isWaiting) return;
            isWaiting = true;
            requestAnimationFrame(() => setTimeout(() => { isWaiting = false; look(); }));
        }).observe(document.querySelector("tbody"), {subtree: true, childList: true, characterData: true});
    }
"""


class Writer:
    """Changes the number of running tasks of one job after the other, in a thread."""

    def __init__(self, place: Place) -> None:
        self.written: list[tuple[str, int, float]] = []
        """Job, number of running tasks, and milliseconds since 1970 before the request."""
        self._place = place
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        due = time.monotonic()
        for number in range(10**9):
            if self._ended.is_set():
                return
            name, running = f"job-{number % JOBS}", 1 + number // JOBS % TASKS_OF_A_JOB
            path = f"{self._place.framework_path(name)}/status"
            started = time.time() * 1000
            self._place.client.patch(path, {"status": status(name, running)}).expect(200)
            self.written.append((name, running, started))
            due += 1 / EVENTS_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))


def status(name: str, running: int) -> dict[str, Any]:
    """Return the status of a job with this number of running tasks."""
    found = large_jobs.status(name, TASKS_OF_A_JOB)
    for task in found["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][running:]:
        task["state"] = "AttemptPreparing"
        task["runTime"] = task["attemptStatus"]["runTime"] = None
    return found


@contextlib.contextmanager
def opened(browser: Browser, place: Place) -> Iterator[Tab]:
    with dashboards.serving(place) as dashboard:
        context = browser.new_context(viewport=WINDOW)
        tab = Tab(context, f"http://127.0.0.1:{dashboard.server.port}")
        tab.page.goto(f"{tab.address}{dashboard.server.login_path()}")
        tab.page.get_by_role("heading", name="Jobs").wait_for()
        yield tab
        context.close()


def first_paint(sheet: Sheet, browser: Browser, place: Place, rounds: int) -> None:
    large_jobs.create(place, "large", TASKS)
    with opened(browser, place) as tab:
        tab.page.add_init_script(PAINTED)
        times = []
        for _ in range(rounds):
            tab.page.goto("about:blank")
            tab.open(f"jobs/{place.name}/large")
            times.append(wait_for("the timeline", lambda: tab.page.evaluate("window.paintedAt")))
    note = " ".join(f"{each:.0f}" for each in times)
    sheet.add(
        f"{TASKS:,} tasks: first paint of the timeline", statistics.median(times), "ms", aim=1000, note=note
    )


def updates(sheet: Sheet, browser: Browser, place: Place, seconds: float) -> None:
    for number in range(JOBS):
        large_jobs.create(place, f"job-{number}", TASKS_OF_A_JOB)
    with opened(browser, place) as tab, Writer(place) as writer:
        tab.open("jobs?q=job-&sort=name")
        tab.page.locator("tbody tr").nth(JOBS - 1).wait_for()
        session = tab.page.context.new_cdp_session(tab.page)
        time.sleep(WARM_UP_SECONDS)
        before = heap(session)
        tab.page.evaluate(SEEN)
        first = len(writer.written)
        time.sleep(seconds)
        seen, count = tab.page.evaluate("window.seen"), len(writer.written) - first
        tab.page.evaluate("window.seen = []")
        after = heap(session)
    what = f"{JOBS} jobs, {EVENTS_PER_SECOND} changes/s"
    delays = delays_of(writer.written, seen)
    note = f"{count / seconds:.0f} changes/s, {len(delays):,} shown, p50 {statistics.median(delays):.0f}"
    sheet.add(f"{what}: change until it is shown, p95", percentile(delays, 0.95), "ms", aim=300, note=note)
    sheet.add(
        f"{what}, {seconds:g} s: JavaScript heap", after / MIB, "MiB", note=f"{before / MIB:.1f} before"
    )
    growth = max(0.0, (after - before) * 3600 / seconds / MIB)
    sheet.add(f"{what}, {seconds:g} s: growth of the heap, as an hour", growth, "MiB/h", noise=10)


def heap(session: CDPSession) -> float:
    """Return the bytes of the objects that are in use."""
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    return used


def delays_of(written: list[tuple[str, int, float]], seen: list[tuple[str, int, float]]) -> list[float]:
    """Return the milliseconds from each change that was shown until then."""
    times: dict[tuple[str, int], list[float]] = {}
    for name, running, at in written:
        times.setdefault((name, running), []).append(at)
    delays = []
    for key, running, at in seen:
        name = re.sub(".*/", "", key)
        earlier = [each for each in times.get((name, running), ()) if each <= at]
        if earlier:
            delays.append(at - earlier[-1])
    return delays


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the changes")
    parser.add_argument("--rounds", type=int, default=5, help="number of first paints")
    arguments = parser.parse_args()
    sheet = Sheet("ui")
    sheet.title("The page of `windlass ui`:")
    with sync_playwright() as playwright, scripted_cluster.running(has_controller=False) as cluster:
        browser = launch(playwright)
        place = cluster.new_scripted_place()
        first_paint(sheet, browser, place, arguments.rounds)
        updates(sheet, browser, place, arguments.seconds)
        browser.close()
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()
