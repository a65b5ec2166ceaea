"""The worlds that these tests share.

    pytest tests/operator                                     on the embedded API server
    WINDLASS_TEST_CLUSTER=real pytest tests/operator          on a real one, where the controller has only its roles

The tests do not import the controller: it is a process that gets the address of the API server, and the tests observe
it through the API, as users do.
"""

from collections.abc import Generator, Iterator

import pytest
from operated import clusters, processes, world
from operated.clusters import Cluster
from operated.controllers import Controller, options
from operated.place import Place
from operated.world import World

OFTEN_RENEWED = options(
    lease_duration_sec="120",
    lease_renew_deadline_sec="90",
    lease_retry_period_sec="0.3",
    request_timeout_sec="60",
)
"""And never lost: no test of the shared controller waits for that, and a machine may be slow."""


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    with clusters.running() as cluster:
        cluster.install()
        yield cluster


@pytest.fixture(scope="session")
def shared_world(shared_cluster: Cluster) -> Iterator[World]:
    """With a kubelet, and without a controller until a test asks for one."""
    with world.on(shared_cluster) as shared:
        shared.start_kubelet()
        yield shared


@pytest.fixture(scope="session")
def shared_controller(shared_world: World) -> Controller:
    return shared_world.controller("shared", *OFTEN_RENEWED)


@pytest.fixture
def controller(shared_controller: Controller) -> Iterator[Controller]:
    """The one that works for all tests that do it no harm."""
    found = shared_controller
    assert found.is_alive, f"it ended with {found.process.code}:\n{found.process.tail()}"
    processes.STARTED.append(found.process)
    yield found
    found.require_no_exceptions()


@pytest.fixture
def place(shared_world: World, controller: Controller) -> Iterator[Place]:
    """A namespace that the shared controller minds."""
    yield shared_world.new_place()
    shared_world.leave_places()


@pytest.fixture(scope="session")
def second_world() -> Iterator[World]:
    with clusters.running() as cluster:
        cluster.install()
        with world.on(cluster) as second:
            second.start_kubelet()
            yield second


@pytest.fixture
def own_world(second_world: World) -> Iterator[World]:
    """In which a test starts controllers of its own, does what it likes to them, and leaves nothing to the next one."""
    yield second_world
    try:
        second_world.require_no_exceptions()
    finally:
        second_world.stop_controllers()
        second_world.leave_places()
        second_world.cluster.delete_leases()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows the ends of the logs of all that it started."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {each.name}", each.tail()) for each in processes.STARTED]
    if call.when == "teardown":
        processes.STARTED.clear()
    return report
