"""Both servers, both versions of kubectl, and a namespace of its own for each test.

A test that takes `kubectl` runs four times: 1.20 and 1.32, against the embedded server and against a real one. The
real one is always the API server alone: these tests write the status of pods and deployments themselves, which on a
cluster of KUBECONFIG others would do too.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import kubernetes_api
import kubernetes_binaries
from conformance import objects
from conformance.client import Access, Client
from conformance.waiting import wait_for
from served import serving
from tests.clients.kubectl.runs import Kubectl, Server, ServerName

VERSIONS = ("1.20", "1.32")
WIDGETS = Path(__file__).parent / "manifests" / "widget-definition.yaml"

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}


@pytest.fixture(scope="session")
def binaries() -> Path:
    return kubernetes_binaries.ensure(ENVIRONMENT)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("embedded") / "data") as served:
        with _server("embedded", served.data / "kubeconfig") as server:
            yield server


@pytest.fixture(scope="session")
def real(binaries: Path) -> Iterator[Server]:
    with kubernetes_api.serve(environment=ENVIRONMENT) as api, _server("real", api.kubeconfig) as server:
        yield server


@contextlib.contextmanager
def _server(name: ServerName, kubeconfig: Path) -> Iterator[Server]:
    """With the definition of widgets: it takes a real server some time to know a new kind everywhere."""
    with contextlib.closing(Client(Access.of_kubeconfig(kubeconfig))) as api:
        objects.establish(api, yaml.safe_load(WIDGETS.read_text()))
        wait_for("widgets to be documented", lambda: b"v1.Widget" in api.get("/openapi/v2").raw)
        yield Server(name, kubeconfig, api)


@pytest.fixture(scope="session", params=["embedded", "real"])
def server(request: pytest.FixtureRequest) -> Server:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Server)
    return found


@pytest.fixture(scope="session", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def program(binaries: Path, version: str) -> Path:
    found = binaries / f"kubectl-{version}"
    if not found.exists():
        pytest.skip(f"KUBEBUILDER_ASSETS names {binaries}, which has no {found.name}")
    return found


Opened = Callable[[Server], Kubectl]


@pytest.fixture
def open_kubectl(program: Path, version: str, tmp_path: Path) -> Iterator[Opened]:
    """Makes a kubectl for a server, in a new namespace, which has the same name on every server."""
    namespace = f"t-{uuid.uuid4().hex[:10]}"
    used: list[Server] = []

    def open_on(server: Server) -> Kubectl:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        server.api.post("/api/v1/namespaces", body).expect(201)
        used.append(server)
        return Kubectl(program, version, server, namespace, tmp_path / server.name)

    yield open_on
    for server in used:
        server.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def kubectl(open_kubectl: Opened, server: Server) -> Kubectl:
    return open_kubectl(server)
