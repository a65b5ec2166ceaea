"""Roles whose pods use the network of their node: there, each port can be had once."""

from collections.abc import Iterator
from typing import Any

from windlass.discovery import ports
from windlass.model.base import Json

Port = tuple[Any, str]


def clashes(templates: dict[str, Json]) -> Iterator[str]:
    """Of pod templates by role, those with tasks: each two roles that want the same port of a node."""
    owners: dict[Port, str] = {}
    for role, template in templates.items():
        for port in _on_the_node(template):
            owner = owners.setdefault(port, role)
            if owner != role:
                yield (
                    f"the roles {owner} and {role} both want the port {port[0]} of their node (hostNetwork): on one "
                    "node, only one of them can have it. Give one of them another port"
                )


def _on_the_node(template: Json) -> dict[Port, None]:
    if (template.get("spec") or {}).get("hostNetwork") is not True:
        return {}
    return {
        (port.get("containerPort"), port.get("protocol") or "TCP"): None
        for container in ports.containers(template)
        for port in container.get("ports") or ()
    }
