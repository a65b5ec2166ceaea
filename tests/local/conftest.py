"""Embedded clusters at every isolation level of this machine, and the files and processes they leave.

tests/kubelet contains the tests for all clusters. Here a cluster is a process that is killed, restarted and searched
for.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands, daemons, levels
from pods.commands import Home
from pods.daemons import Daemon
from pods.levels import Name
from pods.outside import somebody
from pods.place import Place


def skip_unless_possible(name: Name) -> None:
    if reason := levels.why_not(name):
        pytest.skip(reason)


@pytest.fixture(scope="module", params=(*daemons.WITH_MOUNTS, *daemons.WITHOUT_MOUNTS), ids=str)
def local(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A cluster shared by the tests of a module that do not damage it; nothing of it stays."""
    kind: daemons.Kind = request.param
    skip_unless_possible(kind.level)
    with daemons.running(levels.level(kind.level), kind.network, is_ephemeral=True) as daemon:
        yield daemon
        traces = daemon.traces()
        assert daemon.is_alive, f"it ended with {daemon.code}:\n{daemon.tail()}"
        daemon.stop()
        traces.wait_until_gone()


@pytest.fixture
def home(best: levels.Level) -> Iterator[Home]:
    """The highest isolation level of this machine."""
    with commands.home(best) as made:
        yield made


@pytest.fixture
def anyone(level: levels.Level) -> Iterator[Home]:
    """Each isolation level in turn."""
    with commands.home(level) as made:
        yield made


@pytest.fixture
def place(local: Daemon) -> Iterator[Place]:
    place = local.new_place()
    yield place
    local.client.delete(f"/api/v1/namespaces/{place.namespace}")


@pytest.fixture(scope="session")
def outside() -> Iterator[str]:
    skip_unless_possible("root")
    with somebody() as address:
        yield address


@pytest.fixture
def best() -> levels.Level:
    """The highest level for the user who runs the tests."""
    names: tuple[Name, ...] = ("root", "nobody", "plain")
    return levels.level(next(name for name in names if not levels.why_not(name)))


@pytest.fixture(params=("root", "nobody", "plain"))
def level(request: pytest.FixtureRequest) -> levels.Level:
    skip_unless_possible(request.param)
    return levels.level(request.param)


@pytest.fixture
def lasting(level: levels.Level) -> Iterator[Daemon]:
    """A cluster whose pods outlive its daemon. Once all pods are deleted, nothing of it is left."""
    with _lasting(level) as daemon:
        yield daemon


@pytest.fixture(scope="module", params=("root", "nobody", "plain"))
def shared_lasting(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """The same, shared by the tests of a module."""
    skip_unless_possible(request.param)
    with _lasting(levels.level(request.param)) as daemon:
        yield daemon


@contextlib.contextmanager
def _lasting(level: levels.Level) -> Iterator[Daemon]:
    with daemons.running(level) as daemon:
        yield daemon
        if not daemon.is_alive:
            daemon.start()
        traces = daemon.traces()
        daemon.delete_all_pods()
        daemon.stop()
        traces.wait_until_gone()


@pytest.fixture
def passing(level: levels.Level) -> Iterator[Daemon]:
    """A cluster whose pods end with its daemon, however that ends."""
    with daemons.running(level, is_ephemeral=True) as daemon:
        yield daemon


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which the test and every pod may write."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
