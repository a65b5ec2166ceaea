"""Clashes of host ports between roles."""

from typing import Any

import pytest

from windlass.model.base import Json
from windlass.render import bundle


def template(*ports: int, is_on_the_node: bool = True, **fields: Any) -> Json:
    declared = [{"containerPort": port, **fields} for port in ports]
    return {"spec": {"hostNetwork": is_on_the_node, "containers": [{"name": "main", "ports": declared}]}}


CASES: dict[str, tuple[dict[str, Json], int]] = {
    "one port for two": ({"ps": template(2222), "worker": template(2222)}, 1),
    "one port for three": ({"ps": template(1), "worker": template(1), "chief": template(1)}, 2),
    "two ports for two": ({"ps": template(1, 2), "worker": template(2, 1)}, 2),
    "a port for each": ({"ps": template(2222), "worker": template(2223)}, 0),
    "one role alone": ({"worker": template(2222)}, 0),
    "one of them has a network of its own": (
        {"ps": template(2222), "worker": template(2222, is_on_the_node=False)},
        0,
    ),
    "other protocols": ({"ps": template(53), "worker": template(53, protocol="UDP")}, 0),
    "TCP is the default": ({"ps": template(53), "worker": template(53, protocol="TCP")}, 1),
    "no ports": ({"ps": {"spec": {"hostNetwork": True, "containers": [{}]}}, "worker": template()}, 0),
    "no spec": ({"ps": {}}, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_number_of_host_port_clashes(case: str) -> None:
    templates, number = CASES[case]
    assert len(list(bundle.port_conflicts(templates))) == number


def test_diagnostics_of_job() -> None:
    (message,) = bundle.port_conflicts({"ps": template(2222), "worker": template(2222)})
    assert message == (
        "the roles ps and worker both use port 2222 of their node (hostNetwork), which only one pod "
        "can use. Set another port for one of them"
    )
