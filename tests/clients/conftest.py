"""Fixtures: one embedded server per test module, and a namespace for each test."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server_process import RunningServer, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(tmp_path_factory.mktemp("server") / "data") as served:
        yield served


@pytest.fixture
def kubeconfig(server: RunningServer) -> Path:
    return server.data / "kubeconfig"


@pytest.fixture
def namespace(server: RunningServer) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert server.ask("POST", "/api/v1/namespaces", body).code == 201
    return name


@pytest.fixture
def connection(kubeconfig: Path) -> Iterator[Any]:
    """Return the official client, configured from the kubeconfig."""
    from kubernetes import client, config  # slow to import, and needed by a few tests only

    configuration = client.Configuration()
    load: Any = config.load_kube_config
    load(config_file=str(kubeconfig), client_configuration=configuration)
    assert configuration.verify_ssl
    assert configuration.ssl_ca_cert
    with client.ApiClient(configuration) as opened:
        yield opened


@pytest.fixture
def core(connection: Any) -> Any:
    from kubernetes import client

    return client.CoreV1Api(connection)
