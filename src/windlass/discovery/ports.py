"""Where the tasks of a role listen, and how many processes fit into one: read from the pod template.

A template may have any shape: what is not as Kubernetes has it is passed over, and the API server says what is wrong.
"""

import re
from collections.abc import Iterator
from typing import Any

from windlass.model import names
from windlass.model.base import Json

_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(m?)")
GPUS = ("nvidia.com/gpu", "amd.com/gpu")


def port_of(template: Json) -> int:
    """The first port that a container declares."""
    for container in containers(template):
        for port in _listed(container.get("ports")):
            number = port.get("containerPort")
            if type(number) is int and 0 < number < 65536:  # true is a number to Python
                return number
    return names.DEFAULT_PORT


def slots_of(template: Json) -> int:
    """As many processes as the task has GPUs; without any, as it has whole CPUs; at least one."""
    limits = [found for container in containers(template) if (found := _limits(container))]
    gpus = sum(_whole(found.get(name)) for found in limits for name in GPUS)
    return gpus or max(1, sum(_whole(found.get("cpu")) for found in limits))


def _limits(container: Json) -> Json:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    return limits if isinstance(limits, dict) else {}


def _whole(amount: Any) -> int:
    """Of what Kubernetes writes as 2, "2", "2.5" or "2500m"."""
    found = _AMOUNT.fullmatch(str(amount))
    return 0 if found is None else int(float(found[1])) // (1000 if found[2] else 1)


def containers(template: Json) -> Iterator[Json]:
    spec = template.get("spec")
    return _listed(spec.get("containers") if isinstance(spec, dict) else None)


def _listed(value: Any) -> Iterator[Json]:
    return (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))
