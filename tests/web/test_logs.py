"""Logs: merged, followed, searched and downloaded while they are read."""

import asyncio
import json
from typing import Any

import pytest
from dashboards import Browser
from operated import jobs
from scripted_cluster import Place

from windlass.client.logs import search


@pytest.fixture
def running(place: Place) -> Place:
    roles = (jobs.role("ps", life=jobs.FOREVER), jobs.role(tasks=2, life=jobs.FOREVER))
    place.submit(jobs.framework("digits", *roles))
    place.wait_for_running("digits", 3)
    return place


def write(place: Place, task: str, *texts: str) -> None:
    for text in texts:
        place.write(f"digits-{task}", f"{text}\n")


def lines(browser: Browser, query: str = "") -> list[dict[str, Any]]:
    answer = browser.get(f"jobs/{browser.dashboard.place.name}/digits/logs?{query}").expect(200)
    return [json.loads(line) for line in answer.text.split("\n") if line]


def texts(browser: Browser, query: str = "") -> list[str]:
    return [f"{line['task']} {line['text']}" for line in lines(browser, query)]


def test_tasks_and_roles_are_selected(running: Place, browser: Browser) -> None:
    for task in ("ps-0", "worker-0", "worker-1"):
        running.write(f"digits-{task}", f"hello from {task}\n")
    assert sorted(texts(browser)) == [
        "ps-0 hello from ps-0",
        "worker-0 hello from worker-0",
        "worker-1 hello from worker-1",
    ]
    assert texts(browser, "task=worker-1") == ["worker-1 hello from worker-1"]
    assert sorted(texts(browser, "task=ps,worker-1")) == [
        "ps-0 hello from ps-0",
        "worker-1 hello from worker-1",
    ]


def test_tail_limits_the_lines_of_each_task(running: Place, browser: Browser) -> None:
    write(running, "ps-0", *map(str, range(600)))
    assert texts(browser, "task=ps-0&tail=2") == ["ps-0 598", "ps-0 599"]
    assert len(lines(browser, "task=ps-0")) == 500


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("task=Worker", 400),
        ("task=nothing-0", 404),
        ("attempt=x", 400),
        ("tail=-1", 400),
        ("tail=1000000", 400),
    ],
)
def test_invalid_selection_is_rejected(running: Place, browser: Browser, query: str, code: int) -> None:
    browser.get(f"jobs/{running.name}/digits/logs?{query}").expect(code)


def test_missing_attempt_is_reported_as_a_gap(running: Place, browser: Browser) -> None:
    (gap,) = lines(browser, "attempt=7")
    assert gap["gap"].startswith("there is no attempt 7 of digits")


def test_followed_lines_arrive_until_the_viewer_leaves(running: Place, browser: Browser) -> None:
    path = f"/api/v1/jobs/{running.name}/digits/logs?follow=1&task=ps-0"

    async def opened() -> Any:
        return await browser.session.get(path)

    response = browser.stage.wait(opened())
    try:
        for text in ("first", "second"):
            running.write("digits-ps-0", f"{text}\n")
            line = b""
            while not line.strip():
                line = browser.stage.wait(response.content.readline())
            assert json.loads(line)["text"] == text
    finally:
        browser.stage.call(response.close)
    # The server stops to follow: its requests for the log end.
    running.wait_for("the end of the work", lambda: not _follows(browser))


def _follows(browser: Browser) -> bool:
    def count() -> bool:
        return any("_Follower" in str(task.get_coro()) for task in asyncio.all_tasks())

    return bool(browser.stage.call(count))


def test_search_counts_matches_of_the_whole_log(running: Place, browser: Browser) -> None:
    write(running, "worker-0", *(f"step {number} loss=0.{number}" for number in range(300)), "KeyError: 'lr'")
    write(running, "worker-1", "step 7", "LOSS=1")
    base = f"jobs/{running.name}/digits/logs/search"
    found = browser.get(f"{base}?q=loss=").expect(200).body
    assert found["total"] == 301
    assert found["byTask"] == {"worker-0": 300, "worker-1": 1}
    assert len(found["first"]) == search.MAX_FOUND
    assert found["firstError"] == {
        "task": "worker-0",
        "time": found["firstError"]["time"],
        "text": "KeyError: 'lr'",
        "line": 301,
    }
    assert found["scannedBytes"] > 300 * 10
    found = browser.get(f"{base}?q=step [0-9]$&regex=1&task=worker-1").expect(200).body
    assert [(each["line"], each["text"]) for each in found["first"]] == [(1, "step 7")]
    assert browser.get(f"{base}?q=").body["total"] == 0
    assert browser.get(f"{base}?q=(&regex=1").expect(400).body["error"]["message"].startswith("q: invalid")


def test_search_text_is_not_a_pattern_without_regex(running: Place, browser: Browser) -> None:
    write(running, "ps-0", "a.b", "axb")
    assert browser.get(f"jobs/{running.name}/digits/logs/search?q=a.b").body["total"] == 1


def test_download_has_all_lines(running: Place, browser: Browser) -> None:
    write(running, "ps-0", "one", "two")
    answer = browser.get(f"jobs/{running.name}/digits/logs/download?task=ps-0").expect(200)
    assert answer.data == b"one\ntwo\n"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="digits-ps-0.log"'
    merged = browser.get(f"jobs/{running.name}/digits/logs/download").text
    assert all(text in merged for text in ("ps-0 | one\n", "ps-0 | two\n"))


def test_logs_of_a_retried_task_are_selected_by_its_attempt(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER, retry={"maxRetryCount": 1})))
    place.wait_for_running("digits", 1)
    place.write("digits-worker-0", "first\n")
    assert texts(browser, "taskAttempt=0") == ["worker-0 first"]
    assert texts(browser, "taskAttempt=1") == []
