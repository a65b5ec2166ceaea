"""Find roles on the host network that need the same port."""

from collections.abc import Iterator
from typing import Any

from windlass.discovery import ports
from windlass.model.base import Json

Port = tuple[Any, str]


def clashes(templates: dict[str, Json]) -> Iterator[str]:
    """Yield a message for each two roles that need the same port. `templates` are those of roles with tasks."""
    owners: dict[Port, str] = {}
    for role, template in templates.items():
        for port in _on_the_node(template):
            owner = owners.setdefault(port, role)
            if owner != role:
                yield (
                    f"the roles {owner} and {role} both use port {port[0]} of their node (hostNetwork), which only one "
                    "pod can use. Set another port for one of them"
                )


def _on_the_node(template: Json) -> dict[Port, None]:
    if (template.get("spec") or {}).get("hostNetwork") is not True:
        return {}
    return {
        (port.get("containerPort"), port.get("protocol") or "TCP"): None
        for container in ports.containers(template)
        for port in container.get("ports") or ()
    }
