"""Sessions, cookies, headers and the checks of requests, with a real server and the responses that browsers get."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import dashboards
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from dashboards import Answer, Browser, Dashboard
from operated import jobs
from scripted_cluster import Place

from windlass.web import files, page, server, sessions
from windlass.web.schema import Mode
from windlass.web.server import CSRF_HEADER

STOP = {"action": "stop", "jobs": []}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(place: Place, clock: Clock) -> Iterator[Browser]:
    with dashboards.serving(place, now=clock) as dashboard, dashboard.browser() as browser:
        yield browser


# Sessions


def test_link_works_once(dashboard: Dashboard) -> None:
    path = dashboard.server.login_path()
    with dashboard.browser() as first, dashboard.browser() as second:
        assert first.get(path).expect(303).headers["Location"] == "/"
        assert "already used" in second.get(path).expect(403).text
        first.get("session").expect(200)
        assert second.get("session").expect(401).error == "no-session"


def test_link_expires(timed: Browser, clock: Clock) -> None:
    path = timed.dashboard.server.login_path()
    clock.now += sessions.CODE_SECONDS
    assert "expired" in timed.get(path).expect(403).text


@pytest.mark.parametrize(
    ("step", "steps"),
    [(sessions.MAX_IDLE_SECONDS, 1), (sessions.MAX_IDLE_SECONDS - 1, 9)],
    ids=["unused", "too old"],
)
def test_session_expires(timed: Browser, clock: Clock, step: float, steps: int) -> None:
    timed.log_in()
    answers: list[Answer] = []
    for _ in range(steps):
        clock.now += step
        answers.append(timed.get("session"))
    assert all(answer.code == 200 for answer in answers[:-1])
    error = answers[-1].expect(401).body["error"]
    assert (error["code"], error["mode"]) == ("session-expired", "link")


def test_stream_ends_with_its_session(timed: Browser, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.web.calls.PING_SECONDS", 0.05)
    timed.log_in()
    with timed.events("jobs/stream") as events:
        events.next("rows")
        clock.now += sessions.MAX_SESSION_SECONDS
        assert events.next()["code"] == "session-expired"


def test_logout_ends_the_session(browser: Browser) -> None:
    token = browser.get("session").body["csrfToken"]
    browser.send("DELETE", "session", **{CSRF_HEADER: token}).expect(204)
    assert browser.get("jobs").expect(401).error == "session-expired"


def test_cookie_is_not_readable_by_scripts_and_other_sites(dashboard: Dashboard) -> None:
    with dashboard.browser() as browser:
        cookie = browser.log_in().headers["Set-Cookie"]
        other = browser.get(dashboard.server.login_path(), **{"X-Forwarded-Proto": "https"})
    assert cookie.startswith(f"windlass-session-{dashboard.server.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert "Secure" in other.headers["Set-Cookie"].split("; ")


def test_cookie_behind_tls_belongs_to_this_host_only(dashboard: Dashboard) -> None:
    tls = {"X-Forwarded-Proto": "https"}
    name = f"__Host-windlass-session-{dashboard.server.port}"
    with dashboard.browser() as browser:
        cookie = browser.get(dashboard.server.login_path(), **tls).expect(303).headers["Set-Cookie"]
    key, _, attributes = cookie.removeprefix(f"{name}=").partition("; ")
    assert {"Secure", "Path=/"} <= set(attributes.split("; "))
    with dashboard.browser() as browser:
        browser.get("session", Cookie=f"{name}={key}", **tls).expect(200)
        # A page of another host of the domain can set a cookie without the prefix.
        browser.get("session", Cookie=f"{name.removeprefix('__Host-')}={key}", **tls).expect(401)


def test_login_ends_the_earlier_session_of_the_browser(dashboard: Dashboard) -> None:
    with dashboard.browser() as browser:
        browser.log_in()
        (before,) = [each.value for each in browser.cookies]
        browser.log_in()
        (after,) = [each.value for each in browser.cookies]
        browser.get("session").expect(200)
    with dashboard.browser() as browser:
        cookie = f"windlass-session-{dashboard.server.port}"
        browser.get("session", Cookie=f"{cookie}={before}").expect(401)
        browser.get("session", Cookie=f"{cookie}={after}").expect(200)


def test_cookie_chosen_by_another_page_does_not_become_a_session(dashboard: Dashboard) -> None:
    name = f"windlass-session-{dashboard.server.port}"
    with dashboard.browser() as browser:
        path = dashboard.server.login_path()
        answer = browser.get(path, Cookie=f"{name}=chosen").expect(303)
        assert not answer.headers["Set-Cookie"].startswith(f"{name}=chosen")
    with dashboard.browser() as browser:
        browser.get("session", Cookie=f"{name}=chosen").expect(401)


def test_streams_end_with_the_oldest_session_of_too_many(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.web.calls.PING_SECONDS", 0.05)
    monkeypatch.setattr("windlass.web.sessions.MAX_SESSIONS_OF_VIEWER", 2)
    with browser.events("jobs/stream") as events:
        events.next("rows")
        for _ in range(2):
            with browser.dashboard.browser() as other:
                other.log_in()
        assert events.next()["code"] == "session-expired"
    browser.get("session").expect(401)


# Requests of other pages


def test_change_without_the_token_of_the_session_is_rejected(browser: Browser) -> None:
    assert browser.send("POST", "jobs/actions", STOP).expect(403).error == "csrf"
    assert browser.send("POST", "jobs/actions", STOP, **{CSRF_HEADER: "x"}).expect(403).error == "csrf"
    browser.post("jobs/actions", STOP).expect(200)


def test_token_of_another_session_is_rejected(dashboard: Dashboard, browser: Browser) -> None:
    with dashboard.browser() as other:
        other.log_in()
        token = other.get("session").body["csrfToken"]
    assert browser.send("POST", "jobs/actions", STOP, **{CSRF_HEADER: token}).expect(403).error == "csrf"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_request_of_another_origin_is_rejected(browser: Browser, headers: dict[str, str]) -> None:
    assert browser.get("jobs", **headers).expect(403).error == "foreign-origin"


def test_request_of_the_page_is_accepted(browser: Browser) -> None:
    origin = f"http://127.0.0.1:{browser.dashboard.server.port}"
    browser.get("jobs", **{"Origin": origin, "Sec-Fetch-Site": "same-origin"}).expect(200)


def test_page_without_tls_is_another_origin_behind_tls(browser: Browser) -> None:
    address = f"127.0.0.1:{browser.dashboard.server.port}"
    tls = {"X-Forwarded-Proto": "https"}
    assert browser.get("jobs", Origin=f"http://{address}", **tls).expect(403).error == "foreign-origin"
    assert browser.get("jobs", Origin=f"https://{address}", **tls).expect(401).error == "no-session"


@pytest.mark.parametrize("path", ["session", "/", "/login?code=x"])
def test_foreign_host_name_is_rejected(browser: Browser, path: str) -> None:
    browser.get(path, Host="evil.example").expect(421)
    browser.get(path, Host="127.0.0.1:1").expect(421)


def test_form_of_another_page_is_rejected(browser: Browser) -> None:
    token = browser.get("session").body["csrfToken"]
    headers = {"Content-Type": "application/x-www-form-urlencoded", CSRF_HEADER: token}
    assert browser.send("POST", "jobs/actions", STOP, **headers).expect(415).error == "not-json"


@pytest.mark.parametrize("path", ["/", "/nothing", "session", "nothing", "openapi.json"])
def test_every_response_has_the_headers_of_a_safe_page(browser: Browser, path: str) -> None:
    headers = browser.get(path).headers
    policy = dict(each.strip().split(" ", 1) for each in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert ("no-store" in headers.get("Cache-Control", "")) is not path.startswith("/")
    assert "Access-Control-Allow-Origin" not in headers
    assert "Server" not in headers


def test_path_outside_of_the_page_is_not_served(browser: Browser) -> None:
    for path in (
        "/../server.py",
        "/assets/..%2f..%2fserver.py",
        "/%2e%2e/server.py",
        "/assets/../../server.py",
    ):
        assert b"class Server" not in browser.get(path).data


def test_page_that_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    answer = asyncio.run(page.serve(make_mocked_request("GET", "/"), tmp_path))
    assert isinstance(answer, web.Response)
    assert answer.status == 200
    assert "run `make ui`" in str(answer.text)


def test_too_large_request_is_rejected(browser: Browser) -> None:
    body = {"text": "x" * (5 * 1024 * 1024)}
    assert browser.post("files/lint", body).expect(413).error == "request-entity-too-large"


# Limits


@pytest.mark.parametrize("path", ["files/lint", "files/plan", "files/submit"])
def test_too_large_file_is_rejected(browser: Browser, path: str) -> None:
    most = files.MAX_TEXT_BYTES
    error = browser.post(path, {"text": "#" * (most + 1)}).expect(413).body["error"]
    assert error["code"] == "too-large"
    assert browser.post("files/lint", {"text": "#" * most}).expect(200).body["diagnostics"]


def test_too_large_login_is_rejected(place: Place) -> None:
    with dashboards.serving(place, Mode.TOKEN) as dashboard, dashboard.browser() as browser:
        browser.send("POST", "session", {"token": "x" * server.MAX_LOGIN_BYTES}).expect(413)


def test_number_of_streams_of_a_viewer_is_limited(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.web.viewers.MAX_STREAMS", 2)
    with browser.events("jobs/stream"), browser.events("jobs/stream") as second:
        second.next("rows")
        assert browser.get("jobs/stream").expect(429).error == "too-many-streams"
        browser.get("jobs").expect(200)
    place = browser.dashboard.place
    assert isinstance(place, Place)
    place.wait_for("a stream to be free", lambda: _can_open(browser))


def _can_open(browser: Browser) -> bool:
    try:
        with browser.events("jobs/stream") as events:
            return bool(events.next("rows"))
    except AssertionError:
        return False


def test_number_of_watched_namespaces_of_a_viewer_is_limited(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.web.viewers.MAX_WATCHES", 2)
    for name in ("default", "kube-system", "kube-public", "default"):
        browser.get(f"jobs?namespace={name}").expect(200)
    with browser.events("jobs/stream?namespace=default") as first, browser.events("jobs/stream") as second:
        first.next("rows")
        second.next("rows")
        error = browser.get("jobs?namespace=kube-system").expect(429).error
    assert error == "too-many-streams"


def test_cancelled_simulation_counts_until_its_thread_ends(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_end = threading.Semaphore(0), threading.Event()
    running: list[None] = []

    def slow(*_: object) -> None:
        running.append(None)
        started.release()
        may_end.wait()

    monkeypatch.setattr(files, "_plan", slow)
    token = browser.get("session").body["csrfToken"]
    text = {"text": "x"}

    async def simulate() -> int:
        answer = await browser.session.post("/api/v1/files/plan", json=text, headers={CSRF_HEADER: token})
        return answer.status

    async def begin() -> "asyncio.Task[int]":
        return asyncio.create_task(simulate())

    try:
        first = browser.stage.wait(begin())
        assert started.acquire(timeout=60)
        browser.stage.call(first.cancel)
        second = browser.stage.wait(begin())
        assert browser.post("files/lint", text).expect(200).body["diagnostics"]
        assert len(running) == 1
    finally:
        may_end.set()

    async def end() -> int:
        return await second

    assert browser.stage.wait(end()) == 200
    assert len(running) == 2


# Tokens


def test_token_is_in_no_url_and_no_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    token = dashboards.token_of_viewer(place, "get", "list", "watch")
    with (
        caplog.at_level(logging.DEBUG),
        dashboards.serving(place, Mode.TOKEN) as dashboard,
        dashboard.browser() as browser,
    ):
        answers = [browser.send("POST", "session", {"token": token})]
        answers += [
            browser.get(path) for path in ("session", "jobs", "jobs?namespace=*", "nothing", "cluster")
        ]
        browser.send("POST", "session", {"token": f"{token}x"}).expect(401)
    assert answers[0].code == 200
    assert token not in caplog.text
    assert not any(token in answer.text or token in str(answer.headers) for answer in answers)


@pytest.mark.parametrize("token", ["", "wrong", "a b", "a\nb", "ä", "x" * 20_000], ids=repr)
def test_invalid_token_is_rejected(place: Place, token: str) -> None:
    with dashboards.serving(place, Mode.TOKEN) as dashboard, dashboard.browser() as browser:
        error = browser.send("POST", "session", {"token": token}).expect(401).body["error"]
        assert (error["code"], error["mode"]) == ("invalid-token", "token")
        assert browser.get("jobs").expect(401).error == "no-session"
        browser.get("/login?code=x").expect(404)


def test_session_ends_when_its_token_becomes_invalid(place: Place) -> None:
    token = dashboards.token_of_viewer(place, "get", "list", "watch")
    with dashboards.serving(place, Mode.TOKEN) as dashboard, dashboard.browser() as browser:
        browser.send("POST", "session", {"token": token}).expect(200)
        browser.get(f"jobs?namespace={place.name}").expect(200)
        place.client.delete(place.path("serviceaccounts", "viewer")).expect(200)
        assert browser.get(f"jobs/{place.name}/digits").expect(401).error == "session-expired"
        assert browser.get("session").expect(401).error == "session-expired"
        error = browser.get("jobs").expect(401).body["error"]
        assert "the cluster rejected your credentials" in error["message"], "every request says why"


def test_link_mode_accepts_no_token(dashboard: Dashboard) -> None:
    with dashboard.browser() as browser:
        browser.send("POST", "session", {"token": "x"}).expect(404)


# Hostile text


def test_hostile_text_is_unchanged_in_json(place: Place, browser: Browser) -> None:
    text = "</script><img src=x onerror=alert(1)> \x1b[31m \u2028 \u202e \x00 \ufeff &amp; ' \" \\"
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER), description=text.replace("\x00", "")))
    place.wait_for_running("digits", 1)
    place.write("digits-worker-0", f"{text}\n")
    place.write("digits-worker-0", b"\xff\xfe bytes\n")
    detail = browser.get(f"jobs/{place.name}/digits").expect(200)
    assert detail.body["facts"]["description"] == text.replace("\x00", "")
    assert detail.headers["Content-Type"].startswith("application/json")
    logs = browser.get(f"jobs/{place.name}/digits/logs").expect(200)
    assert logs.headers["Content-Type"] == "application/x-ndjson"
    lines = [each for each in logs.text.split("\n") if each]
    assert len(lines) == 2
    assert json.loads(lines[0])["text"] == text
    download = browser.get(f"jobs/{place.name}/digits/logs/download")
    assert download.headers["Content-Disposition"].startswith("attachment;")
    assert b"\xff\xfe bytes" in download.data
