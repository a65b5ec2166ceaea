"""Pods that run, seen through the Kubernetes API alone.

    pytest tests/kubelet                                        on the embedded cluster
    WINDLASS_TEST_CLUSTER=real pytest tests/kubelet             on that of `make kubernetes`, or that of KUBECONFIG,
                                                                whose nodes have the image WINDLASS_TEST_IMAGE (a shell,
                                                                coreutils and python3)

What may differ between releases of Kubernetes, or between container runtimes, is left open or written down in
`pods.known_differences`; a run on a real cluster ends with a report of all that. Each test has a namespace of its own.
"""

import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pods import clusters, known_differences
from pods.clusters import Cluster
from pods.place import Place


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with clusters.running() as cluster:
        yield cluster


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    place = cluster.new_place()
    yield place
    if cluster.is_real:
        # The controller of namespaces asks about every kind again for as long as there are pods.
        cluster.client.delete(place.path("pods"), {"gracePeriodSeconds": 0})
    cluster.client.delete(f"/api/v1/namespaces/{place.namespace}")


@pytest.fixture
def by_release(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """Return the value that the test must expect from this release of Kubernetes."""
    return known_differences.of_release(_names_of(request.node), cluster.minor)


@pytest.fixture
def host_folder(place: Place) -> Iterator[str]:
    """A path on the node at which there is nothing yet; where the node is this machine, nothing stays."""
    folder = Path("/var/tmp", f"windlass-{place.namespace}")  # noqa: S108
    yield str(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, Cluster) and cluster.daemon is not None:
        report.sections.append(("the cluster's log", cluster.daemon.tail()))
    return report


@pytest.fixture
def storage(cluster: Cluster, place: Place, host_folder: str) -> Iterator[dict[str, Any]]:
    """Return fields that bind a claim. A real cluster may have no provisioner, so this creates a volume."""
    if not cluster.is_real:
        yield {}
        return
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": place.namespace,
        "hostPath": {"path": host_folder, "type": "DirectoryOrCreate"},
    }
    metadata = {"name": place.namespace}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    cluster.client.post("/api/v1/persistentvolumes", body).expect(201)
    yield {"storageClassName": place.namespace}
    cluster.client.delete(f"/api/v1/persistentvolumes/{place.namespace}")


# What is known to differ

DIFFERENCE = "known difference"
SLOW = ("test_terminations.py", "test_restart_policies.py", "test_probing.py", "test_volume_contents.py")
"""Their pods wait for what a real kubelet does once in a while, so they come first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    minor = clusters.release()
    if minor is None:
        return
    for item in items:
        _expect_differences(item, minor)
    items.sort(key=lambda item: item.path.name not in SLOW)


def _expect_differences(item: pytest.Item, minor: int) -> None:
    for name in _names_of(item):
        if found := known_differences.of_failure(name, minor):
            mark = pytest.mark.xfail(
                reason=found.description(name),
                raises=AssertionError,
                strict=not found.may_pass,
                run=found.runs,
            )
            item.add_marker(mark)
        if difference := known_differences.description(name, minor):
            item.user_properties.append((DIFFERENCE, difference))


def _names_of(item: pytest.Item) -> set[str]:
    """Its file and its function, with the case and without."""
    return {f"{item.path.name}::{name}" for name in (item.name, item.name.partition("[")[0])}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [each for group in terminalreporter.stats.values() for each in group]
    differences = {
        str(text)
        for each in reports
        for kind, text in getattr(each, "user_properties", ())
        if kind == DIFFERENCE
    }
    if differences:
        terminalreporter.section("known differences of this cluster from the embedded one")
        for line in sorted(differences):
            terminalreporter.line(line)
