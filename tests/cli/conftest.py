"""The cluster that these tests share: see `hollow_world`."""

from collections.abc import Iterator

import hollow_world
import pytest
from hollow_world import HollowPlace, HollowWorld


@pytest.fixture(scope="session")
def world() -> Iterator[HollowWorld]:
    with hollow_world.opened() as opened:
        yield opened


@pytest.fixture
def place(world: HollowWorld) -> HollowPlace:
    """A namespace of the test's own."""
    return world.new_place()
