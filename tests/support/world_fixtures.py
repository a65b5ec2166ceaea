"""The cluster that all tests of a folder share, as fixtures for its conftest: see `hollow_world` and `small_world`."""

from collections.abc import Iterator

import pytest
import small_world
from hollow_world import HollowPlace
from small_world import Place, SmallWorld


@pytest.fixture(scope="session")
def world() -> Iterator[SmallWorld]:
    with small_world.running() as opened:
        yield opened


@pytest.fixture
def place(world: SmallWorld) -> HollowPlace:
    """A namespace of the test's own."""
    return world.new_place()


@pytest.fixture
def scripted(world: SmallWorld) -> Place:
    """The same, in which the test writes the logs."""
    return world.new_scripted_place()
