"""The list of jobs, its stream, one job, its timeline, and actions."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import dashboards
import jsonschema
import pytest
from dashboards import Answer, Browser, Dashboard
from operated import jobs
from scripted_cluster import Place

from windlass.client.events import Event
from windlass.client.run_again import ORIGINAL_ANNOTATION
from windlass.client.timeline import Timeline
from windlass.web import jobs as web_jobs
from windlass.web import routes
from windlass.web import rows as rows_module


@pytest.fixture
def running(place: Place) -> Place:
    place.submit(jobs.framework("digits", jobs.role(tasks=2, life=jobs.FOREVER)))
    place.wait_for_running("digits", 2)
    return place


def rows(browser: Browser, query: str = "") -> list[dict[str, Any]]:
    path = f"jobs?namespace={browser.dashboard.place.name}&{query}"
    found: list[dict[str, Any]] = browser.get(path).expect(200).body["items"]
    return found


# The list


def test_row_describes_a_running_job(running: Place, browser: Browser) -> None:
    (row,) = rows(browser)
    assert (row["namespace"], row["name"], row["state"]) == (running.name, "digits", "Running")
    assert row["roles"] == [
        {"name": "worker", "tasks": 2, "running": 2, "succeeded": 0, "failed": 0, "waiting": 0}
    ]
    assert row["started"].endswith("Z")
    assert (row["finished"], row["durationSeconds"], row["exists"]) == (None, None, True)


def test_retries_are_counted_by_class(place: Place, browser: Browser) -> None:
    retry = {"maxRetryCount": 2}
    place.submit(jobs.framework("digits", jobs.role(life=jobs.fails(3), retry=retry)))
    place.wait_for_completed("digits")
    (row,) = rows(browser)
    assert row["retries"] == {"total": 2, "byClass": {"unknown": 2}}
    assert row["durationSeconds"] is not None


def test_list_is_filtered_sorted_and_paged(place: Place, browser: Browser) -> None:
    for name, life in (("apple", jobs.SUCCEEDS), ("banana", jobs.fails()), ("cherry", jobs.SUCCEEDS)):
        place.submit(jobs.framework(name, jobs.role(life=life)))
        place.wait_for_completed(name)

    def names(query: str) -> list[str]:
        return [row["name"] for row in rows(browser, query)]

    assert names("sort=name") == ["apple", "banana", "cherry"]
    assert names("sort=-name&size=2") == ["cherry", "banana"]
    assert names("sort=-name&size=2&page=2") == ["apple"]
    assert names("state=Failed") == ["banana"]
    assert names("q=AN") == ["banana"]
    answer = browser.get(f"jobs?namespace={place.name}&state=Failed").body
    assert answer["counts"] == {"Succeeded": 2, "Failed": 1}
    assert answer["total"] == 1


def test_running_jobs_are_sorted_by_their_duration_until_now(running: Place, browser: Browser) -> None:
    running.submit(jobs.framework("short", jobs.role(life=jobs.SUCCEEDS)))
    running.wait_for_completed("short")
    assert [row["name"] for row in rows(browser, "sort=duration")] == ["short", "digits"]
    assert [row["name"] for row in rows(browser, "sort=-duration")] == ["digits", "short"]


@pytest.mark.parametrize(
    "query", ["sort=colour", "page=0", "size=x", "size=100000", "namespace=A_B", "page=1e9"]
)
def test_invalid_query_is_rejected(browser: Browser, query: str) -> None:
    error = browser.get(f"jobs?{query}").expect(400).body["error"]
    assert error["code"] == "invalid-request"
    assert error["message"].startswith(query.partition("=")[0])


def test_deleted_job_with_records_is_listed(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS)))
    place.wait_for_completed("digits")
    place.delete("digits")
    place.wait_until_gone("digits")
    (row,) = rows(browser)
    assert (row["name"], row["state"], row["exists"]) == ("digits", "Succeeded", False)
    detail = browser.get(f"jobs/{place.name}/digits").expect(200).body
    assert detail["permissions"]["delete"] is False


def test_namespaces_are_listed(place: Place, browser: Browser) -> None:
    answer = browser.get("namespaces").body
    assert place.name in answer["items"]
    assert answer["all"] is True


# The stream


def test_stream_starts_with_all_jobs_and_reports_changes(running: Place, browser: Browser) -> None:
    with browser.events(f"jobs/stream?namespace={running.name}") as events:
        first = events.next("rows")
        assert [row["name"] for row in first["upserts"]] == ["digits"]
        running.submit(jobs.framework("other", jobs.role(life=jobs.FOREVER)))
        events.wait_for(
            lambda data: any(row["name"] == "other" and row["state"] == "Running" for row in data["upserts"])
        )
        running.delete("other", "Foreground")
        events.wait_for(
            lambda data: (
                {"namespace": running.name, "name": "other"} in data["deleted"]
                or any(row["name"] == "other" and not row["exists"] for row in data["upserts"])
            )
        )


def test_many_changes_are_sent_together(
    running: Place, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a job changes while a message is sent, the next message has its row once."""
    monkeypatch.setattr(web_jobs, "MIN_INTERVAL_SECONDS", 2.0)
    with browser.events(f"jobs/stream?namespace={running.name}") as events:
        events.next("rows")
        for number in range(40):
            running.change("digits", {"description": str(number)})
        names = [row["name"] for row in events.next("rows")["upserts"]]
        assert names == ["digits"]
        messages = 1
        running.change("digits", {"suspend": True})
        while not any(row["suspended"] for row in events.next("rows")["upserts"]):
            messages += 1
        assert messages <= 5


def test_empty_namespace_streams_an_empty_list(place: Place, browser: Browser) -> None:
    with browser.events(f"jobs/stream?namespace={place.name}") as events:
        assert events.next("rows") == {"upserts": [], "deleted": []}


def test_progress_of_a_running_job_is_shown(running: Place, browser: Browser) -> None:
    running.write("digits-worker-0", "windlass progress 120/300 loss=0.31\n")
    with browser.events(f"jobs/stream?namespace={running.name}") as events:
        data = events.wait_for(lambda data: any(row["progress"] for row in data["upserts"]))
        assert data["upserts"][0]["progress"] == {"value": 0.4, "text": "120/300 loss=0.31"}


# One job


def test_detail_explains_a_failed_job(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.fails(3))))
    place.wait_for_completed("digits")
    detail = browser.get(f"jobs/{place.name}/digits").expect(200).body
    assert "worker-0 exited with code 3" in detail["why"][0]
    assert detail["facts"]["image"] == "windlass/test:1"
    assert detail["spec"].startswith("apiVersion: frameworkcontroller.microsoft.com/v1")
    assert "resourceVersion" not in detail["spec"]
    assert [(task["role"], task["index"], task["state"]) for task in detail["tasks"]] == [
        ("worker", 0, "Failed")
    ]
    assert detail["attempts"] == [0]
    assert detail["permissions"] == {
        "stop": False,
        "suspend": False,
        "resume": False,
        "delete": True,
        "runAgain": True,
        "logs": True,
    }


def test_job_is_streamed(running: Place, browser: Browser) -> None:
    with browser.events(f"jobs/{running.name}/digits/stream") as events:
        assert events.next("job")["state"] == "Running"
        running.change("digits", {"suspend": True})
        data = events.wait_for(lambda data: data["suspended"], "job")
        assert data["permissions"]["resume"] is True


def test_stream_of_a_missing_job_ends_with_an_error(place: Place, browser: Browser) -> None:
    with browser.events(f"jobs/{place.name}/digits/stream") as events:
        place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER)))
        events.wait_for(lambda data: data.get("state") == "Running")
    assert browser.get(f"jobs/{place.name}/nothing").expect(404).error == "not-found"


def test_timeline_has_a_bar_per_attempt(place: Place, browser: Browser) -> None:
    roles = (
        jobs.role("ps", life=jobs.FOREVER),
        jobs.role("worker", life=jobs.fails(3), retry={"maxRetryCount": 1}),
    )
    place.submit(jobs.framework("digits", *roles))
    place.wait_for_completed("digits")
    timeline = browser.get(f"jobs/{place.name}/digits/timeline").expect(200).body
    bars = [dict(zip(timeline["columns"], bar, strict=True)) for bar in timeline["bars"]]
    found = [(bar["role"], bar["taskAttempt"], bar["outcome"], bar["exitCode"], bar["class"]) for bar in bars]
    assert found == [
        ("ps", 0, "stopped", -220, ""),
        ("worker", 0, "failed", 3, "unknown"),
        ("worker", 1, "failed", 3, "unknown"),
    ]
    assert all(timeline["start"] <= bar["created"] <= bar["finished"] <= timeline["end"] for bar in bars)
    assert [each["outcome"] for each in timeline["jobAttempts"]] == ["failed"]
    assert {"AttemptStarted", "TaskFailed"} <= {each["reason"] for each in timeline["events"]}


@pytest.mark.parametrize(
    ("reported", "phases"),
    [
        ([], (None, None, None)),
        ([("Scheduled", 10, "")], (10, None, None)),
        ([("Scheduled", 10, ""), ("Pulling", 12, "image a")], (10, 12, None)),
        (
            [("Scheduled", 10, ""), ("Pulling", 12, "image a"), ("Pulled", 20, "Successfully pulled a")],
            (10, 12, 20),
        ),
        (
            [
                ("Scheduled", 10, ""),
                ("Pulling", 12, "image a"),
                ("Pulled", 20, "Successfully pulled a"),
                ("Pulling", 20, "image b"),
                ("Pulled", 45, "Successfully pulled b"),
            ],
            (10, 12, 45),
        ),
        (
            [
                ("Pulling", 12, "image a"),
                ("Pulled", 20, "Successfully pulled a"),
                ("Pulling", 30, "image b"),
            ],
            (None, 12, None),
        ),
        ([("Pulled", 20, "image a already present on machine")], (None, None, None)),
        (
            [("Pulling", 12, "image a"), ("Pulled", 20, "image b already present on machine")],
            (None, 12, None),
        ),
    ],
    ids=lambda each: "-".join(event[0] for event in each) if isinstance(each, list) else "",
)
def test_timeline_shows_when_images_were_pulled(
    place: Place, browser: Browser, reported: list[tuple[str, float, str]], phases: tuple[float | None, ...]
) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.PENDING)))

    def knows_its_pod() -> bool:
        attempt = (place.framework("digits").get("status") or {}).get("attemptStatus") or {}
        roles = attempt.get("taskRoleStatuses") or []
        return any(role["taskStatuses"][0]["attemptStatus"].get("podUID") for role in roles)

    place.wait_for("the task to know its pod", knows_its_pod)
    (pod,) = place.pods().values()
    for reason, seconds, message in reported:
        dashboards.report_event(place, pod, reason, seconds, message)
    timeline = browser.get(f"jobs/{place.name}/digits/timeline").expect(200).body
    (bar,) = (dict(zip(timeline["columns"], each, strict=True)) for each in timeline["bars"])
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp() * 1000
    found = [bar[name] for name in ("scheduled", "pulling", "pulled")]
    assert found == [None if each is None else created + each * 1000 for each in phases]
    assert bar["started"] is None


def test_timeline_keeps_warnings_of_too_many_events() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def event(number: int) -> Event:
        time = now + timedelta(seconds=number)
        kind = "Warning" if number % 1000 == 0 else "Normal"
        return Event(time, time, 1, kind, "Pulled", f"worker-{number}", "")

    events = tuple(map(event, range(rows_module.MAX_EVENTS + 2000)))
    found = rows_module.of_timeline(Timeline((), (), events), now).events
    assert len(found) == rows_module.MAX_EVENTS
    assert [each.object for each in found if each.type == "Warning"] == [
        event.object for event in events if event.is_warning
    ]
    assert found[-1].object == events[-1].object
    assert [each.time for each in found] == sorted(each.time for each in found)


def test_attempt_of_a_task_has_its_decision(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.fails(3), retry={"maxRetryCount": 1})))
    place.wait_for_completed("digits")
    base = f"jobs/{place.name}/digits/attempts/0/tasks/worker-0"
    first = browser.get(f"{base}/0").expect(200).body
    assert (first["task"], first["taskAttempt"], first["decision"]) == ("worker-0", 0, "retried")
    assert first["exitCodes"][0]["code"] == 3
    assert [each["state"] for each in first["times"]][:2] == ["pending", "pod created"]
    last = browser.get(f"{base}/1").expect(200).body
    assert last["decision"] == "not retried"
    assert last["decisionReason"]
    assert browser.get(f"{base}/7").expect(404).error == "not-found"


# Actions


def act(browser: Browser, action: str, *names: str) -> list[tuple[bool, str]]:
    namespace = browser.dashboard.place.name
    keys = [{"namespace": namespace, "name": name} for name in names]
    answer = browser.post("jobs/actions", {"action": action, "jobs": keys}).expect(200)
    return [(each["ok"], each["message"]) for each in answer.body["results"]]


def test_actions_answer_for_each_job(running: Place, browser: Browser) -> None:
    (suspended, missing) = act(browser, "suspend", "digits", "nothing")
    assert suspended[0] is True
    assert suspended[1].startswith("suspended digits")
    assert missing == (False, missing[1])
    assert 'there is no job "nothing"' in missing[1]
    assert act(browser, "resume", "digits")[0][0] is True
    assert act(browser, "stop", "digits")[0][0] is True
    running.wait_for_completed("digits")
    assert act(browser, "suspend", "digits")[0][0] is False
    assert act(browser, "delete", "digits") == [(True, "deleting digits")]
    running.wait_until_gone("digits")


def test_invalid_action_is_rejected(browser: Browser) -> None:
    body = {"action": "fly", "jobs": []}
    assert browser.post("jobs/actions", body).expect(400).error == "invalid-request"
    many = [{"namespace": "a", "name": "b"}] * 1001
    assert (
        browser.post("jobs/actions", {"action": "stop", "jobs": many}).expect(400).error == "invalid-request"
    )


def test_run_again_creates_numbered_copies(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS)))
    place.wait_for_completed("digits")
    place.change("digits", {"executionType": "Stop"})
    assert act(browser, "run-again", "digits") == [(True, "digits-2 submitted: a copy of digits")]
    place.wait_for_completed("digits-2")
    assert act(browser, "run-again", "digits-2") == [(True, "digits-3 submitted: a copy of digits-2")]
    copy = place.framework("digits-3")
    assert copy["metadata"]["annotations"][ORIGINAL_ANNOTATION] == "digits"
    assert copy["spec"]["executionType"] == "Start"


# OpenAPI


def test_openapi_document_describes_every_operation(dashboard: Dashboard, browser: Browser) -> None:
    document = browser.get("openapi.json").expect(200).body
    assert document["openapi"] == "3.1.0"
    references = {part.split('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]}
    assert references <= set(document["components"]["schemas"])
    paths = document["paths"]
    path = "/api/v1/jobs/{namespace}/{name}/attempts/{attempt}/tasks/{role}-{index}/{task_attempt}"
    assert set(paths[path]["get"]["parameters"][0]) == {"name", "in", "required", "schema"}
    assert set(paths["/api/v1/session"]) == {"get", "post", "delete"}
    assert {"stop", "run-again"} <= set(document["components"]["schemas"]["Action"]["enum"])
    served = {
        (route.resource.canonical, route.method.lower())
        for route in dashboard.server.application().router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/api/v1/")
    }
    described = {(path, method) for path, operations in paths.items() for method in operations}
    own = "/api/v1/openapi.json"
    assert {each for each in served if each[1] != "head"} == described | {(own, "get")}
    assert routes.API == "/api/v1"


def test_answers_have_the_form_that_the_openapi_document_describes(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.fails(3), retry={"maxRetryCount": 1})))
    place.wait_for_completed("digits")
    place.write("digits-worker-0", "result: accuracy=0.97\n")
    document = browser.get("openapi.json").body

    def check(answer: Answer, path: str, method: str = "get", code: str = "200") -> None:
        response = document["paths"][f"/api/v1/{path}"][method]["responses"][code]
        content = response["content"]["application/json"]
        schema = {**content["schema"], "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.body)

    job, template = f"jobs/{place.name}/digits", "jobs/{namespace}/{name}"
    attempt = "attempts/{attempt}/tasks/{role}-{index}/{task_attempt}"
    for path in ("session", "namespaces", "permissions", "cluster", "jobs"):
        check(browser.get(path).expect(200), path)
    for path in ("", "/timeline", "/metrics", "/logs/search"):
        check(browser.get(f"{job}{path}").expect(200), f"{template}{path}")
    check(browser.get(f"{job}/attempts/0/tasks/worker-0/1").expect(200), f"{template}/{attempt}")
    check(browser.get("jobs?page=0").expect(400), "jobs", code="default")
    body: dict[str, Any] = {"text": "name: a\nimage: x\ncommand: x\nroles: {worker: {}}\n"}
    for path in ("files/lint", "files/plan", "files/submit"):
        check(browser.post(path, body).expect(200), path, "post")
    action = {"action": "stop", "jobs": [{"namespace": place.name, "name": "a"}]}
    check(browser.post("jobs/actions", action).expect(200), "jobs/actions", "post")
    types = document["components"]["schemas"]
    with browser.events(f"jobs/stream?namespace={place.name}") as events:
        schema = {**types["JobRows"], "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(events.next("rows"))
