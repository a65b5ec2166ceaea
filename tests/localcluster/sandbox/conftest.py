"""A spawner at each level that this machine allows, and pods of it."""

from collections.abc import Iterator

import pytest
import spawner_harness
from pods import levels
from spawner_harness import Pod, Spawner

LEVELS = ("root", "nobody", "plain")


def _spawner(name: levels.Name) -> Iterator[Spawner]:
    if reason := levels.why_not(name):
        pytest.skip(reason)
    with spawner_harness.spawner(levels.level(name)) as one:
        yield one


@pytest.fixture(scope="module", params=LEVELS)
def spawner(request: pytest.FixtureRequest) -> Iterator[Spawner]:
    """For what harms no other pod."""
    for one in _spawner(request.param):
        yield one
        assert one.complaints() == ""


@pytest.fixture(params=LEVELS)
def doomed(request: pytest.FixtureRequest) -> Iterator[Spawner]:
    """One that a test may kill."""
    yield from _spawner(request.param)


@pytest.fixture
def pod(spawner: Spawner) -> Pod:
    return spawner.pod()
