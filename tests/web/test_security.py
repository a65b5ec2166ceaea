"""Sessions, cookies, headers and the checks of requests, with a real server and the responses that browsers get."""

import json
import logging
from collections.abc import Iterator

import dashboards
import pytest
from dashboards import Answer, Browser, Dashboard
from operated import jobs
from scripted_cluster import Place

from windlass.web import sessions
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


def test_too_large_request_is_rejected(browser: Browser) -> None:
    body = {"text": "x" * (5 * 1024 * 1024)}
    assert browser.post("files/lint", body).expect(413).error == "request-entity-too-large"


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
