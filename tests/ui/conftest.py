"""The page of `windlass ui` in a browser, with real jobs on an embedded cluster."""

from collections.abc import Iterator
from typing import Any

import dashboard_jobs
import dashboard_tabs
import dashboards
import pytest
import scripted_cluster
from dashboard_jobs import Dashboard
from dashboard_tabs import WINDOW, Tab
from playwright.sync_api import Browser, sync_playwright
from pods import commands
from pods.commands import Local
from scripted_cluster import Place


@pytest.fixture(scope="session")
def local() -> Iterator[Local]:
    """A cluster with jobs in many states, which tests must not change."""
    with commands.home(commands.best()) as home, commands.local(home) as made:
        for text in (
            dashboard_jobs.job("training", dashboard_jobs.TRAINING, tasks=3),
            dashboard_jobs.job("unstable", dashboard_jobs.UNSTABLE, tasks=4, retry={"job": 1, "task": 1}),
            dashboard_jobs.job("hello", tasks=2),
            dashboard_jobs.failing_job("broken"),
            dashboard_jobs.job("hostile", dashboard_jobs.HOSTILE),
            dashboard_jobs.job("waiting", resources={"cpus": 4000}),
        ):
            dashboard_jobs.submit(made, text)
        yield made


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = dashboard_tabs.launch(playwright)
        yield made
        made.close()


@pytest.fixture(scope="session")
def served(local: Local) -> Iterator[tuple[Dashboard, str]]:
    """A server and the link that logs in once."""
    with dashboard_jobs.serving(local.home) as made:
        yield made


@pytest.fixture(scope="session")
def login(browser: Browser, served: tuple[Dashboard, str]) -> Any:
    """Log in with the link, and return the cookies."""
    dashboard, link = served
    context = browser.new_context()
    tab = Tab(context, dashboard.address)
    tab.page.goto(link)
    tab.page.get_by_role("heading", name="Jobs").wait_for()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def place() -> Iterator[Place]:
    """A namespace of a cluster without a controller: jobs keep the status that a test stores."""
    with scripted_cluster.running(has_controller=False) as cluster:
        yield cluster.new_scripted_place()


@pytest.fixture
def scripted_tab(browser: Browser, place: Place) -> Iterator[Tab]:
    """A tab that shows the jobs of this namespace."""
    with dashboards.serving(place) as dashboard:
        server = dashboard.server
        context = browser.new_context(viewport=WINDOW)
        made = Tab(context, f"http://127.0.0.1:{server.port}")
        made.page.goto(f"{made.address}{server.login_path()}")
        made.page.get_by_role("heading", name="Jobs").wait_for()
        yield made
        assert not made.errors
        context.close()


@pytest.fixture
def tab(browser: Browser, served: tuple[Dashboard, str], login: Any) -> Iterator[Tab]:
    context = browser.new_context(storage_state=login, viewport=WINDOW)
    made = Tab(context, served[0].address)
    yield made
    assert not made.errors
    assert "attacked" not in made.page.title()
    context.close()
