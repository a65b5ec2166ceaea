"""Windlass on a complete Kubernetes: the controller runs as a Deployment, and the pods are real.

make kubernetes && pytest tests/kubernetes         on this machine
KUBECONFIG=… pytest tests/kubernetes               on any cluster whose nodes have the images; it is not broken
"""

import contextlib
import http.client
import os
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from live import clusters, kubectl_process, request_counts
from live.clusters import Cluster
from live.command_line import Console
from live.kubectl_process import Kubectl
from live.place import Place
from live.request_counts import Account

from images import building, catalogue, checkout

HERE = Path(__file__).parent
BEGAN = datetime.now(UTC)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with clusters.with_windlass() as cluster:
        yield cluster


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    place = cluster.new_place()
    yield place
    cluster.client.delete(f"/api/v1/namespaces/{place.name}")


@pytest.fixture
def console(cluster: Cluster, place: Place, tmp_path: Path) -> Console:
    return Console(cluster.kubeconfig, place.name, tmp_path)


@pytest.fixture
def kubectl(cluster: Cluster, place: Place) -> Kubectl:
    return kubectl_process.newest(cluster, place.name)


@pytest.fixture
def tensorflow(cluster: Cluster) -> str:
    """The image of the examples and of notebook servers, on the node."""
    ours = catalogue.with_tensorflow(checkout.read()).name
    return _on_the_node(cluster, ours, "WINDLASS_TEST_TENSORFLOW_IMAGE")


@pytest.fixture
def hub_image(cluster: Cluster) -> str:
    return _on_the_node(cluster, catalogue.hub(checkout.read()).name, "WINDLASS_TEST_HUB_IMAGE")


@pytest.fixture
def openmpi(cluster: Cluster) -> str:
    """The image with Open MPI and sshd."""
    return _on_the_node(cluster, catalogue.OPENMPI.name, "WINDLASS_TEST_OPENMPI_IMAGE")


@pytest.fixture
def nfs_image(cluster: Cluster) -> str:
    """The image of the NFS server, which includes the client's programs."""
    return _on_the_node(cluster, catalogue.nfs(checkout.read()).name, "WINDLASS_TEST_NFS_IMAGE")


def _on_the_node(cluster: Cluster, ours: str, variable: str) -> str:
    """Return the name of an image on the nodes: ours, or the one named for another cluster."""
    named = os.environ.get(variable, "")
    if not named:
        cluster.breakable().load(building.ensure(ours))
    return named or ours


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, Cluster):
        # The API server may be down, which the test reports.
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            report.sections += [(f"log of {name}", log) for name, log in cluster.controller_logs().items()]
    return report


# Request costs

COSTS = pytest.StashKey[dict[str, Account]]()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which the controller exceeded its request budget."""
    if hasattr(session.config, "workerinput"):
        return
    found = session.config.stash[COSTS] = clusters.accounts_since(BEGAN)
    if session.exitstatus == pytest.ExitCode.OK and any(each.is_over_budget for each in found.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if found := terminalreporter.config.stash.get(COSTS, {}):
        terminalreporter.section("requests of the controller, by the audit log")
        for line in request_counts.lines(found):
            terminalreporter.write_line(line)
