"""Pods that run, seen through the Kubernetes API alone.

    pytest tests/kubelet                                        on the embedded cluster
    WINDLASS_TEST_CLUSTER=real KUBECONFIG=… pytest tests/kubelet   on a real one, whose node has the image
                                                                WINDLASS_TEST_IMAGE (a shell, coreutils and python3)

What may differ between releases of Kubernetes, or between container runtimes, is left open or depends on the version
that the server says it is. Each test has a namespace of its own.
"""

import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pods import clusters
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
    cluster.client.delete(f"/api/v1/namespaces/{place.namespace}")


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
    """What a claim has to say to be bound: on a real cluster there may be nobody who makes volumes, so there is one."""
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
