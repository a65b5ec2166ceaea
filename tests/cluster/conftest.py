"""Fixtures: the cluster to test, a namespace for each test, and transcripts.

    pytest tests/cluster                                                      on the embedded server
    WINDLASS_TEST_CLUSTER=real pytest tests/cluster                           on a real Kubernetes
    WINDLASS_TEST_CLUSTER=real WINDLASS_REGENERATE=1 pytest tests/cluster     write the transcripts

The tests use the Kubernetes API only. Their helpers are in `conformance`, in tests/support.
"""

import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import known_differences, servers, transcript
from conformance.objects import Namespace, Widgets
from conformance.servers import Cluster
from conformance.transcript import RecordingClient

TRANSCRIPTS = Path(__file__).parent / "transcripts"
VERSION = TRANSCRIPTS / "VERSION"
"""The release of the server that wrote the transcripts, from its `/version`."""

WRITTEN: set[Path] = set()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with servers.running() as cluster:
        if _is_regenerating():
            VERSION.write_text(f"{cluster.versions['gitVersion']}\n", encoding="utf-8")
        yield cluster


@pytest.fixture
def unique() -> str:
    """Return a unique name for cluster-scoped objects. Transcripts show it as `<unique>`."""
    return f"t-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def api(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[RecordingClient]:
    """Return a client whose requests and responses are compared with the transcript after the test has passed."""
    if _is_of_another_release(cluster):
        for suffix, reason in known_differences.OTHER_RELEASES_FAIL.items():
            if request.node.nodeid.endswith(suffix):
                pytest.skip(reason)
    client = RecordingClient(cluster.client.access, cluster.client)
    yield client
    client.close()


@pytest.fixture
def namespace(cluster: Cluster, unique: str) -> Iterator[Namespace]:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique}}
    cluster.client.post("/api/v1/namespaces", body).expect(201)
    yield Namespace(unique)
    if not cluster.is_disposable:
        cluster.client.delete(f"/api/v1/namespaces/{unique}")


@pytest.fixture
def widgets(cluster: Cluster, namespace: Namespace) -> Iterator[Widgets]:
    """Return an API group for one definition, which is deleted at the end of the test."""
    widgets = Widgets(f"{namespace.name}.example.com", namespace.name)
    yield widgets
    cluster.client.delete(widgets.definition)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if servers.chosen() == "real":
        return
    for item in items:
        for suffix, reason in known_differences.EMBEDDED_FAILS.items():
            if item.nodeid.endswith(suffix):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    result = yield
    api, cluster = pyfuncitem.funcargs.get("api"), pyfuncitem.funcargs.get("cluster")
    if isinstance(api, RecordingClient) and isinstance(cluster, Cluster):
        unique = pyfuncitem.funcargs.get("unique", "no such name")
        found = api.recorder.transcript(str(unique))
        if found and _is_of_another_release(cluster):
            pytest.skip(f"the assertions passed; the transcripts are of {_recorded()} and do not apply")
        if found:
            _check(_file_of(pyfuncitem), found)
    return result


def _is_of_another_release(cluster: Cluster) -> bool:
    """Return whether this is a real server of another minor release, whose messages and fields differ."""
    served = cluster.versions["gitVersion"]
    return cluster.is_real and not _is_regenerating() and _minor(served) != _minor(_recorded())


def _recorded() -> str:
    return VERSION.read_text(encoding="utf-8").strip()


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _is_regenerating() -> bool:
    is_asked_for = bool(os.environ.get("WINDLASS_REGENERATE"))
    assert not is_asked_for or servers.chosen() == "real", "only a real server may write the transcripts"
    return is_asked_for


def _check(file: Path, found: list[object]) -> None:
    if _is_regenerating():
        assert file not in WRITTEN, (
            f"two tests have the transcript {file.name}: give one of them another name"
        )
        WRITTEN.add(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(transcript.dump(found), encoding="utf-8")
    transcript.compare(file, found)


def _file_of(item: pytest.Function) -> Path:
    subject = item.path.stem.removeprefix("test_")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", item.name.removeprefix("test_")).strip("-")
    return TRANSCRIPTS / subject / f"{name}.json"
