"""Where the tasks of a role listen, and how many processes fit into one: read from the pod template.

A template may have any shape: what is not as Kubernetes has it is passed over, and the API server says what is wrong.
"""

from collections.abc import Iterator
from typing import Any

from windlass.model.base import Json

DEFAULT_PORT = 2222
"""What the first examples of distributed TensorFlow used, and everybody since."""
GPUS = ("nvidia.com/gpu", "amd.com/gpu")


def port_of(template: Json) -> int:
    """The first port that a container declares."""
    for container in containers(template):
        for port in _listed(container.get("ports")):
            number = port.get("containerPort")
            if isinstance(number, int) and 0 < number < 65536:
                return number
    return DEFAULT_PORT


def slots_of(template: Json) -> int:
    """As many processes as the task has GPUs, one where it has none."""
    found = 0
    for container in containers(template):
        resources = container.get("resources")
        limits = resources.get("limits") if isinstance(resources, dict) else None
        if isinstance(limits, dict):
            numbers = (str(limits.get(name, "")) for name in GPUS)
            found += sum(int(number) for number in numbers if number.isdecimal())
    return max(1, found)


def containers(template: Json) -> Iterator[Json]:
    spec = template.get("spec")
    return _listed(spec.get("containers") if isinstance(spec, dict) else None)


def _listed(value: Any) -> Iterator[Json]:
    return (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))
