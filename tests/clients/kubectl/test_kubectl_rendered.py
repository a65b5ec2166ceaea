"""Files of `windlass render`: kubectl parses them as written, and a server accepts them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.clients.kubectl.namespaces import Namespaces
from tests.clients.kubectl.runs import Kubectl, Server

from conformance import objects
from windlass.k8s.removed_versions import removal_of
from windlass.model import names

pytestmark = pytest.mark.kubernetes

RENDERED = Path(__file__).parents[2] / "data" / "rendered"


def has_removed_versions(file: Path) -> bool:
    """Return whether servers reject objects of the file, because templates of configs may contain anything."""
    bodies = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    return any(removal_of(body["apiVersion"], body["kind"]) is not None for body in bodies)


FILES = sorted(
    file
    for kind in ("*.plain.yaml", "*.framework.yaml", "template-*.yaml")
    for file in RENDERED.glob(kind)
    if not has_removed_versions(file)
)
DEFINITION = (
    Path(__file__).parents[3] / "charts/windlass/definitions" / f"frameworks.{names.CONTROLLER_GROUP}.yaml"
)

UNKNOWN_HERE = ("PersistentVolume",)
"""Kinds that the embedded server does not have."""


@pytest.fixture
def kubectl(namespaces: Namespaces, embedded: Server) -> Kubectl:
    return with_frameworks(namespaces, embedded)


@pytest.fixture
def kubectl_there(namespaces: Namespaces, real: Server) -> Kubectl:
    return with_frameworks(namespaces, real)


def with_frameworks(namespaces: Namespaces, server: Server) -> Kubectl:
    """Other tests define and delete them on the same server."""
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    where = f"{objects.DEFINITIONS}/{definition['metadata']['name']}"
    if server.api.get(where).code == 404:
        objects.establish(server.api, definition)
    return namespaces.open(server)


def written(file: Path) -> list[Any]:
    """Return the objects without a namespace: each test has its own."""
    return [without_namespace(body) for body in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def file_of(folder: Path, bodies: list[Any]) -> str:
    file = folder / "here.json"
    file.write_text("\n".join(map(json.dumps, bodies)))
    return str(file)


def is_known(server: Server, body: Any) -> bool:
    """Return whether the server is new enough: the oldest supported release has no Indexed Jobs."""
    return server.minor >= 22 or "completionMode" not in body.get("spec", {})


def read(output: str) -> list[Any]:
    """Return the objects in a file with several documents or a list."""
    found: list[Any] = []
    decoder, rest = json.JSONDecoder(), output.strip()
    while rest:
        body, end = decoder.raw_decode(rest)
        found += body["items"] if body["kind"] == "List" else [body]
        rest = rest[end:].lstrip()
    return found


def without_namespace(body: Any) -> Any:
    metadata = {key: value for key, value in body["metadata"].items() if key != "namespace"}
    return {**body, "metadata": metadata}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_kubectl_parses_rendered_files_as_written(kubectl: Kubectl, file: Path, tmp_path: Path) -> None:
    """Return the objects as Go parses the YAML."""
    documents = file.read_text(encoding="utf-8").split("\n---\n")
    known = [text for text in documents if yaml.safe_load(text)["kind"] not in UNKNOWN_HERE]
    (tmp_path / "here.yaml").write_text("\n---\n".join(known), encoding="utf-8")
    found = read(kubectl("create", "--dry-run=client", "-o", "json", "-f", str(tmp_path / "here.yaml")))
    expected = [body for body in written(file) if body["kind"] not in UNKNOWN_HERE]
    assert [without_namespace(body) for body in found] == expected


def test_embedded_server_accepts_rendered_files(kubectl: Kubectl, tmp_path: Path) -> None:
    """All at once: a dry run stores nothing, so the objects cannot conflict."""
    bodies = [body for file in FILES for body in written(file) if body["kind"] not in UNKNOWN_HERE]
    kubectl("create", "--dry-run=server", "-f", file_of(tmp_path, bodies))


def test_real_server_accepts_rendered_files(kubectl_there: Kubectl, tmp_path: Path) -> None:
    bodies = [body for file in FILES for body in written(file) if is_known(kubectl_there.server, body)]
    kubectl_there("create", "--dry-run=server", "-f", file_of(tmp_path, bodies))
