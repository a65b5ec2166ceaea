"""A dashboard of the cluster that these tests share, for one test."""

from collections.abc import Iterator

import dashboards
import pytest
from cluster_fixtures import scripted_place, world
from dashboards import Browser, Dashboard
from scripted_cluster import Place

__all__ = ["scripted_place", "world"]


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


@pytest.fixture
def dashboard(place: Place) -> Iterator[Dashboard]:
    with dashboards.serving(place) as found:
        yield found


@pytest.fixture
def browser(dashboard: Dashboard) -> Iterator[Browser]:
    """The browser of a viewer who is logged in."""
    with dashboard.browser() as found:
        found.log_in()
        yield found
