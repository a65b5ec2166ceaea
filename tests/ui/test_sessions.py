"""Logins, their end, and a server that does not answer."""

import re
from collections.abc import Iterator

import dashboard_jobs
import pytest
from dashboard_jobs import Dashboard
from dashboard_tabs import Tab
from playwright.sync_api import Browser, expect
from pods.commands import Local


@pytest.fixture
def token(local: Local) -> str:
    found = local.client.access.token
    assert found is not None
    return found


@pytest.fixture
def stranger(browser: Browser, local: Local) -> Iterator[Tab]:
    """A tab of a server for several viewers."""
    with dashboard_jobs.serving(local.home, "--token-login") as (dashboard, _):
        context = browser.new_context()
        tab = Tab(context, dashboard.address)
        yield tab
        assert not tab.errors
        context.close()


def test_viewer_logs_in_with_a_token_and_out(stranger: Tab, token: str) -> None:
    page = stranger.open("jobs/default/hello")
    page.get_by_label("Token").fill("nonsense")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="hello")).to_be_visible()
    assert token not in page.url
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_viewer_is_offered_only_what_is_allowed(stranger: Tab, local: Local) -> None:
    page = stranger.open("jobs")
    page.get_by_label("Token").fill(reader_token(local))
    page.get_by_role("button", name="Log in").click()
    page.goto(f"{stranger.address}/#/jobs?ns=default")
    expect(stranger.row("training")).to_contain_text("Running")
    page.get_by_role("checkbox", name="Select training").check()
    expect(page.get_by_text("1 selected")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("…$"))).to_have_count(0)
    stranger.row("training").get_by_role("link").click()
    expect(page.get_by_role("grid")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("…$"))).to_have_count(0)
    page.goto(f"{stranger.address}/#/submit?ns=default")
    page.get_by_role("button", name="Insert an example").click()
    expect(page.get_by_text("You may not submit jobs in the namespace default.")).to_be_visible()


def reader_token(local: Local, name: str = "reader") -> str:
    """Return the token of a new account that may only read in the namespace default."""
    post = local.client.post
    group = "rbac.authorization.k8s.io"
    base = f"/apis/{group}/v1/namespaces/default"
    metadata = {"name": name}
    resources = ["frameworks", "attemptrecords", "pods", "events", "configmaps"]
    rules = [{"apiGroups": ["*"], "resources": resources, "verbs": ["get", "list", "watch"]}]
    account = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": group, "kind": "Role", "name": name}
    post("/api/v1/namespaces/default/serviceaccounts", {"metadata": metadata}).expect(201)
    post(f"{base}/roles", {"metadata": metadata, "rules": rules}).expect(201)
    post(f"{base}/rolebindings", {"metadata": metadata, "roleRef": role, "subjects": [account]}).expect(201)
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    found: str = post(path, {"spec": {}}).expect(201).body["status"]["token"]
    return found


def test_expired_session_says_how_to_get_a_new_one(tab: Tab) -> None:
    page = tab.open("jobs")
    tab.row("hello").wait_for()
    page.context.clear_cookies()
    page.goto(f"{tab.address}/#/cluster")
    expect(page.get_by_role("alert")).to_contain_text("session")
    expect(page.get_by_text("run windlass ui in a terminal")).to_be_visible()


def test_expired_token_asks_for_a_new_one(stranger: Tab, local: Local) -> None:
    page = stranger.open("jobs")
    page.get_by_label("Token").fill(reader_token(local, "guest"))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    local.client.delete("/api/v1/namespaces/default/serviceaccounts/guest").expect(200)
    page.goto(f"{stranger.address}/#/jobs/default/hello")
    expect(page.get_by_role("alert")).to_contain_text("the cluster rejected your credentials")
    expect(page.get_by_label("Token")).to_be_visible()


def test_link_works_once(browser: Browser, served: tuple[Dashboard, str], login: object) -> None:
    dashboard, link = served
    context = browser.new_context()
    tab = Tab(context, dashboard.address)
    tab.page.goto(link)
    expect(tab.page.get_by_text(re.compile("link"))).to_be_visible()
    expect(tab.page.get_by_role("heading", name="Jobs")).to_have_count(0)
    context.close()


def test_page_continues_after_the_server_was_away(browser: Browser, local: Local, token: str) -> None:
    with dashboard_jobs.serving(local.home, "--token-header", "X-Viewer-Token") as (dashboard, _):
        context = browser.new_context(extra_http_headers={"X-Viewer-Token": token})
        tab = Tab(context, dashboard.address)
        page = tab.open("jobs")
        expect(tab.row("training")).to_contain_text("Running")
        dashboard.stop()
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
        expect(tab.row("training")).to_be_visible()
        dashboard_jobs.submit(local, dashboard_jobs.job("meanwhile"))
        dashboard.start()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(tab.row("meanwhile")).to_be_visible()
        # The restarted server has another CSRF token.
        page.get_by_role("checkbox", name="Select meanwhile").check()
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("checkbox", name="Select meanwhile")).not_to_be_checked()
        assert not tab.errors
        context.close()
