"""Fixtures for a conftest: the cluster that all tests of a folder share, and a namespace per test."""

from collections.abc import Iterator

import pytest
import scripted_cluster
from in_process_cluster import ClusterNamespace
from scripted_cluster import Place, ScriptedCluster


@pytest.fixture(scope="session")
def world() -> Iterator[ScriptedCluster]:
    with scripted_cluster.running() as opened:
        yield opened


@pytest.fixture
def place(world: ScriptedCluster) -> ClusterNamespace:
    """A namespace for the test."""
    return world.new_place()


@pytest.fixture
def scripted_place(world: ScriptedCluster) -> Place:
    """A namespace in which the test writes the logs."""
    return world.new_scripted_place()
