"""The constant defaults name existing fields and have values of their types."""

from typing import Any

import pytest

from windlass.k8s import types as k8s_types
from windlass.localcluster.apiserver.schemas import typed
from windlass.localcluster.apiserver.schemas.defaults import DEFAULTS


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_have_the_type_of_their_field(name: str) -> None:
    fields = k8s_types.types()[name].fields
    assert DEFAULTS[name].keys() <= fields.keys()
    obj: dict[str, Any] = {}
    schema = typed.TypedSchema(name, DEFAULTS)
    schema.default(obj)
    schema.check_types(obj, name, "v1")
    assert DEFAULTS[name].keys() <= obj.keys()


def test_given_values_are_kept() -> None:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "ports": [{"protocol": "UDP"}]}]}}
    typed.TypedSchema("V1Pod", DEFAULTS).default(pod)
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["ports"] == [{"protocol": "UDP"}]  # type: ignore[index]


def test_empty_template_gets_all_defaults() -> None:
    deployment: dict[str, Any] = {}
    typed.TypedSchema("V1Deployment", DEFAULTS).default(deployment)
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["template"]["spec"]["restartPolicy"] == "Always"
