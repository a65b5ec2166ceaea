"""Viewers with different permissions use the same server, and none sees what belongs to another."""

from collections.abc import Iterator

import dashboards
import pytest
from dashboards import Browser, Dashboard
from operated import jobs
from scripted_cluster import Place, ScriptedCluster

from windlass.web import calls, viewers
from windlass.web import logs as web_logs
from windlass.web.schema import Mode
from windlass.web.server import CSRF_HEADER

HEADER = "X-Forwarded-Access-Token"
JOB_FILE = "name: digits\nimage: x\ncommand: x\nroles: {worker: {}}\n"
READ = ("get", "list", "watch")


@pytest.fixture
def theirs(world: ScriptedCluster) -> Place:
    """The namespace of another viewer."""
    return world.new_scripted_place()


@pytest.fixture
def both(place: Place, theirs: Place) -> tuple[Place, Place]:
    for each in (place, theirs):
        each.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER)))
        each.wait_for_running("digits", 1)
        each.write("digits-worker-0", f"secret of {each.name}\n")
    return place, theirs


@pytest.fixture
def shared(place: Place) -> Iterator[Dashboard]:
    with dashboards.serving(place, Mode.TOKEN) as found:
        yield found


def logged_in(browser: Browser, token: str) -> Browser:
    browser.send("POST", "session", {"token": token}).expect(200)
    return browser


def paths_of(place: Place) -> tuple[str, ...]:
    job = f"jobs/{place.name}/digits"
    return (
        f"jobs?namespace={place.name}",
        job,
        f"{job}/timeline",
        f"{job}/logs",
        f"{job}/logs/search?q=secret",
        f"{job}/logs/download",
        f"{job}/metrics",
        f"{job}/attempts/0/tasks/worker-0/0",
    )


def test_viewers_never_see_each_others_jobs(shared: Dashboard, both: tuple[Place, Place]) -> None:
    mine, theirs = both
    my_token, their_token = (dashboards.token_of_viewer(each, *READ) for each in both)
    with shared.browser() as me, shared.browser() as them:
        logged_in(me, my_token)
        logged_in(them, their_token)
        # The answers of the first viewer fill the caches before the second one asks.
        for place, browser, other in ((mine, me, them), (theirs, them, me)):
            for path in paths_of(place):
                own = browser.get(path).expect(200)
                assert b"digits" in own.data or b"secret" in own.data or "metrics" in path or "tasks" in path
                denied = other.get(path)
                assert denied.code == 403, (path, denied.data)
                assert b"secret of" not in denied.data
        for browser in (me, them):
            assert browser.get("jobs?namespace=*").expect(403).error == "forbidden"
            assert browser.get("namespaces").body["all"] is False


def test_stream_of_another_namespace_ends_with_an_error(shared: Dashboard, both: tuple[Place, Place]) -> None:
    mine, theirs = both
    with shared.browser() as me, shared.browser() as them:
        logged_in(them, dashboards.token_of_viewer(theirs, *READ))
        logged_in(me, dashboards.token_of_viewer(mine, *READ))
        with (
            them.events(f"jobs/stream?namespace={theirs.name}") as allowed,
            me.events(f"jobs/stream?namespace={theirs.name}") as denied,
        ):
            assert [row["namespace"] for row in allowed.next("rows")["upserts"]] == [theirs.name]
            assert denied.next()["code"] == "forbidden"


def test_only_possible_actions_are_offered(shared: Dashboard, both: tuple[Place, Place]) -> None:
    mine, theirs = both
    with shared.browser() as reader, shared.browser() as owner:
        logged_in(reader, dashboards.token_of_viewer(mine, *READ))
        logged_in(owner, dashboards.token_of_viewer(theirs, *READ, "patch", "delete", "create"))
        found = reader.get(f"jobs/{mine.name}/digits").body["permissions"]
        assert {name for name, is_allowed in found.items() if is_allowed} == {"logs"}
        found = owner.get(f"jobs/{theirs.name}/digits").body["permissions"]
        assert {name for name, is_allowed in found.items() if not is_allowed} == {"resume"}
        assert owner.get(f"permissions?namespace={mine.name}").body["submit"] is False
        assert owner.get(f"permissions?namespace={theirs.name}").body["submit"] is True


def test_action_that_is_not_allowed_is_rejected_by_the_cluster(
    shared: Dashboard, both: tuple[Place, Place]
) -> None:
    mine, _ = both
    with shared.browser() as reader:
        logged_in(reader, dashboards.token_of_viewer(mine, *READ))
        keys = [{"namespace": mine.name, "name": "digits"}]
        (result,) = reader.post("jobs/actions", {"action": "stop", "jobs": keys}).expect(200).body["results"]
        assert result["ok"] is False
        assert "denied access" in result["message"]
    assert mine.framework("digits")["spec"]["executionType"] == "Start"


def test_file_of_the_server_is_not_submitted(shared: Dashboard, place: Place) -> None:
    token = dashboards.token_of_viewer(place, *READ, "patch", "delete", "create")
    text = "name: digits\nimage: x\ncommand: python3 train.py\ncode: /etc\nroles: {worker: {}}\n"
    with shared.browser() as viewer:
        logged_in(viewer, token)
        body = {"text": text, "namespace": place.name}
        error = viewer.post("files/submit", body).expect(422).body["error"]
        assert error["message"].startswith("digits: code is read on the machine that submits the job")
        lint = viewer.post("files/lint", {"text": text}).expect(200).body
        assert lint == {"jobs": ["digits"], "diagnostics": []}
        body["text"] = text.replace("code: /etc\n", "")
        assert viewer.post("files/submit", body).expect(200).body["created"] == [
            {"namespace": place.name, "name": "digits"}
        ]


def test_forwarded_token_is_the_identity_of_each_request(both: tuple[Place, Place]) -> None:
    mine, theirs = both
    tokens = [dashboards.token_of_viewer(each, *READ) for each in both]
    with (
        dashboards.serving(mine, Mode.HEADER, token_header=HEADER) as dashboard,
        dashboard.browser() as browser,
    ):
        mode = browser.get("jobs").expect(401).body["error"]["mode"]
        assert mode == "header"
        browser.get("jobs", **{HEADER: "wrong"}).expect(401)
        browser.get("jobs", Authorization=f"Bearer {tokens[0]}").expect(401)
        for place, token in zip(both, tokens, strict=True):
            headers = {HEADER: f"Bearer {token}"}
            session = browser.get("session", **headers).expect(200).body
            assert session["user"] == f"system:serviceaccount:{place.name}:viewer"
            browser.get(f"jobs?namespace={place.name}", **headers).expect(200)
            other = theirs if place is mine else mine
            browser.get(f"jobs?namespace={other.name}", **headers).expect(403)
            stop = {"action": "stop", "jobs": []}
            browser.send("POST", "jobs/actions", stop, **headers).expect(403)
            with_csrf = {**headers, CSRF_HEADER: session["csrfToken"]}
            browser.send("POST", "jobs/actions", stop, **with_csrf).expect(200)
        assert not browser.cookies


# Withdrawn permissions


def withdraw(place: Place) -> None:
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place.name}"
    place.client.delete(f"{base}/rolebindings/viewer").expect(200)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions are checked all the time."""
    monkeypatch.setattr("windlass.web.calls.PING_SECONDS", 0.05)
    monkeypatch.setattr("windlass.web.viewers.RECHECK_SECONDS", 0.05)
    monkeypatch.setattr("windlass.web.logs.NOTE_SECONDS", 0.05)


def test_permissions_are_checked_within_half_a_minute() -> None:
    assert calls.PING_SECONDS + viewers.RECHECK_SECONDS <= 30
    assert web_logs.NOTE_SECONDS * web_logs.PAUSES_PER_PING + viewers.RECHECK_SECONDS <= 30


@pytest.mark.usefixtures("hasty")
def test_withdrawn_permission_ends_open_streams(shared: Dashboard, both: tuple[Place, Place]) -> None:
    mine, _ = both
    base = f"jobs/{mine.name}/digits"
    with shared.browser() as viewer:
        logged_in(viewer, dashboards.token_of_viewer(mine, *READ))
        viewer.get(f"{base}/metrics").expect(200)
        with (
            viewer.events(f"jobs/stream?namespace={mine.name}") as rows,
            viewer.events(f"{base}/stream") as job,
            viewer.response(f"{base}/logs?follow=1") as log,
        ):
            rows.next("rows")
            job.next("job")
            assert b"secret" in log.next_line()
            withdraw(mine)
            assert rows.wait_for(lambda data: "code" in data)["code"] == "forbidden"
            assert job.wait_for(lambda data: "code" in data)["code"] == "forbidden"
            assert b"you may no longer read logs" in log.next_line()
        for path in paths_of(mine):
            assert viewer.get(path).expect(403).error == "forbidden", path


@pytest.mark.usefixtures("hasty")
def test_token_that_becomes_invalid_ends_streams_and_removes_what_was_read(
    shared: Dashboard, both: tuple[Place, Place]
) -> None:
    mine, _ = both
    token = dashboards.token_of_viewer(mine, *READ)
    with shared.browser() as viewer, shared.browser() as other:
        logged_in(viewer, token)
        logged_in(other, token)
        with viewer.events(f"jobs/stream?namespace={mine.name}") as rows:
            rows.next("rows")
            mine.client.delete(mine.path("serviceaccounts", "viewer")).expect(200)
            assert rows.wait_for(lambda data: "code" in data)["code"] == "session-expired"
        for browser in (viewer, other):
            assert browser.get(f"jobs?namespace={mine.name}").expect(401).error == "session-expired"


def test_service_account_starts_in_its_own_namespace(shared: Dashboard, theirs: Place) -> None:
    with shared.browser() as viewer:
        logged_in(viewer, dashboards.token_of_viewer(theirs, *READ))
        assert viewer.get("session").expect(200).body["namespace"] == theirs.name
        assert viewer.get("jobs").expect(200).body["items"] == []
        assert viewer.get("namespaces").expect(200).body["items"] == [theirs.name]


def test_viewer_who_may_not_submit_may_not_simulate(shared: Dashboard, place: Place, theirs: Place) -> None:
    body = {"text": JOB_FILE, "namespace": place.name}
    with shared.browser() as reader, shared.browser() as owner:
        logged_in(reader, dashboards.token_of_viewer(place, *READ))
        logged_in(owner, dashboards.token_of_viewer(theirs, *READ, "create"))
        message = f"you may not submit jobs in the namespace {place.name}, nor simulate them"
        for viewer in (reader, owner):
            assert viewer.post("files/plan", body).expect(403).body["error"]["message"] == message
        assert owner.post("files/plan", {**body, "namespace": theirs.name}).expect(200).body["verdict"]
        owner.post("files/plan", {**body, "namespace": "../x"}).expect(400)


def test_proxy_viewer_stays_open_while_it_follows_a_log(
    both: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, _ = both
    monkeypatch.setattr("windlass.web.viewers.IDLE_SECONDS", 0.0)
    headers = {HEADER: dashboards.token_of_viewer(mine, *READ)}
    with (
        dashboards.serving(mine, Mode.HEADER, token_header=HEADER) as dashboard,
        dashboard.browser(**headers) as browser,
        browser.response(f"jobs/{mine.name}/digits/logs?follow=1") as log,
    ):
        log.next_line()
        found = dashboard.server.viewers
        dashboard.stage.wait(found.end_idle(set()))
        mine.write("digits-worker-0", "a later line\n")
        assert b"a later line" in log.next_line()
