"""Fixtures: both servers, all available kubectls, and a namespace for each test.

A test with the `kubectl` fixture runs against the embedded server and against a real one, with the kubectl of the
current release and with older ones that are installed. The real server is always an API server without controllers:
these tests write the status of pods and deployments themselves.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.clients.kubectl import sample_objects
from tests.clients.kubectl.namespaces import Namespaces, unique
from tests.clients.kubectl.runs import Kubectl, Server, ServerName

import kubernetes_api
import kubernetes_binaries
from conformance import objects
from conformance.client import Access, Client
from conformance.waiting import wait_for
from server_process import serving

CURRENT = kubernetes_binaries.VERSION.rpartition(".")[0]
PROGRAMS = {"1.20": "kubectl-1.20", "1.32": "kubectl-1.32", CURRENT: "kubectl"}
"""The kubectls by release. One without a version in its name is that of the current release."""

WIDGETS = Path(__file__).parent / "manifests" / "widget-definition.yaml"

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}


def _versions() -> tuple[str, ...]:
    """Return the releases of kubectl to test with, without building any."""
    if assets := ENVIRONMENT.get("KUBEBUILDER_ASSETS"):
        found = tuple(version for version, name in PROGRAMS.items() if Path(assets, name).exists())
        return found or (CURRENT,)
    return ("1.20", "1.32") if kubernetes_binaries.is_oldest(ENVIRONMENT) else (CURRENT,)


@pytest.fixture(scope="session")
def binaries() -> Path:
    return kubernetes_binaries.ensure(ENVIRONMENT)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("embedded") / "data"
    with serving(data), _server("embedded", data / "kubeconfig") as server:
        yield server


@pytest.fixture(scope="session")
def real(binaries: Path) -> Iterator[Server]:
    with kubernetes_api.serve(environment=ENVIRONMENT) as api, _server("real", api.kubeconfig) as server:
        yield server


@contextlib.contextmanager
def _server(name: ServerName, kubeconfig: Path) -> Iterator[Server]:
    """Return the server with the definition of widgets, since a real server needs some time to serve a new kind."""
    with contextlib.closing(Client(Access.of_kubeconfig(kubeconfig))) as api:
        objects.establish(api, yaml.safe_load(WIDGETS.read_text()))
        wait_for("widgets to be documented", lambda: b"v1.Widget" in api.get("/openapi/v2").raw)
        version = api.get("/version").expect(200).body["gitVersion"]
        yield Server(name, kubeconfig, api, kubernetes_binaries.minor_of(version))


@pytest.fixture(scope="session", params=["embedded", "real"])
def server(request: pytest.FixtureRequest) -> Server:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Server)
    return found


@pytest.fixture(scope="session", params=_versions())
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def program(binaries: Path, version: str) -> Path:
    found = binaries / PROGRAMS[version]
    if not found.exists():
        pytest.skip(f"KUBEBUILDER_ASSETS={binaries} has no {found.name}")
    return found


@pytest.fixture(scope="session")
def discovery_cache(version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the shared discovery cache of kubectl."""
    return tmp_path_factory.mktemp(f"discovery_cache-{version}")


@pytest.fixture(scope="module")
def namespaces(
    program: Path, version: str, discovery_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Namespaces:
    return Namespaces(program, version, tmp_path_factory.mktemp("homes"), discovery_cache)


@pytest.fixture
def kubectl(namespaces: Namespaces, server: Server) -> Kubectl:
    """Return a kubectl in a namespace of the test."""
    return namespaces.open(server)


@pytest.fixture(scope="module")
def populated(namespaces: Namespaces, server: Server) -> Kubectl:
    """Return a kubectl in a namespace with objects of many kinds, which the tests of a module do not change."""
    kubectl = namespaces.open(server)
    sample_objects.create(kubectl)
    return kubectl


@pytest.fixture(scope="module")
def both(namespaces: Namespaces, embedded: Server, real: Server) -> tuple[Kubectl, Kubectl]:
    """Return kubectls of the embedded and of the real server, in namespaces with one name and the same objects."""
    if real.minor != embedded.minor:
        pytest.skip(
            f"the embedded server follows Kubernetes 1.{embedded.minor}; the real one is 1.{real.minor}"
        )
    name = unique()
    mine, theirs = namespaces.open(embedded, name), namespaces.open(real, name)
    sample_objects.create(mine)
    sample_objects.create(theirs)
    return mine, theirs
