"""Rendered files match the schemas of a current Kubernetes, and violations are found."""

from pathlib import Path
from typing import Any

import kubernetes_schemas
import pytest
import yaml

from windlass.k8s.removed_versions import removal_of

RENDERED = Path(__file__).parents[1] / "data" / "rendered"
FILES = [*RENDERED.glob("*.framework.yaml"), *RENDERED.glob("*.plain.yaml")]
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"clusterIP": "None"}}


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda file: file.name)
def test_rendered_files_match_kubernetes_schemas(file: Path) -> None:
    bodies = list(yaml.safe_load_all(file.read_bytes()))
    assert bodies
    # A current Kubernetes has no schemas for removed API versions, which templates of configs may contain.
    for body in (each for each in bodies if removal_of(each["apiVersion"], each["kind"]) is None):
        assert list(kubernetes_schemas.faults(body)) == [], (body["kind"], body["metadata"]["name"])


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda file: file.name)
def test_rendered_objects_are_unique(file: Path) -> None:
    bodies = list(yaml.safe_load_all(file.read_bytes()))
    keys = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in bodies]
    assert len(set(keys)) == len(keys)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"clusterIp": "None"}, "spec.clusterIp"),
    "a name of Python's": ({"cluster_ip": "None"}, "spec.cluster_ip"),
    "another type": ({"ports": [{"port": "80"}]}, "spec.ports.0.port"),
    "a number for a text": ({"selector": {"index": 0}}, "spec.selector.index"),
    "something missing": ({"ports": [{}]}, "spec.ports.0.port"),
}


@pytest.mark.parametrize("case", WRONG)
def test_schema_violation_is_found(case: str) -> None:
    fields, where = WRONG[case]
    assert list(kubernetes_schemas.faults(SERVICE)) == []
    (diagnostic,) = kubernetes_schemas.faults({**SERVICE, "spec": fields})
    assert diagnostic.startswith(f"{where}: ")


def test_unknown_kind_is_reported() -> None:
    assert list(kubernetes_schemas.faults({**SERVICE, "kind": "ReplicationController"})) == [
        "there is no ReplicationController in v1"
    ]
