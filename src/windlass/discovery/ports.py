"""The port of a role, and the number of processes per task, from the pod template.

A template may be malformed: invalid parts are skipped, and the API server reports them.
"""

import re
from collections.abc import Iterator
from typing import Any

from windlass.model import names
from windlass.model.base import Json
from windlass.model.resources import GPU_RESOURCE_PATTERN, SHARED_SUFFIX

_QUANTITY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(m?)")
_SLOTS = re.compile(r"[1-9][0-9]{0,4}")
_is_gpu = re.compile(GPU_RESOURCE_PATTERN).fullmatch


def port_of(template: Json) -> int:
    """Return the first port that a container declares, or DEFAULT_PORT."""
    for container in containers(template):
        for port in mappings(container.get("ports")):
            number = port.get("containerPort")
            if type(number) is int and 0 < number < 65536:  # bool is a subclass of int
                return number
    return names.DEFAULT_PORT


def slots_of(template: Json) -> int:
    """Return the number of MPI slots of a task: the annotation of the template, otherwise the GPU limit, otherwise the
    CPU limit in whole CPUs; at least 1."""
    metadata = template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    slots = annotations.get(names.SLOTS_ANNOTATION) if isinstance(annotations, dict) else None
    if isinstance(slots, str) and _SLOTS.fullmatch(slots):
        return int(slots)
    limits = [_limits(container) for container in containers(template)]
    gpus = gpus_of(template)
    return gpus or max(1, sum(_whole_number(quantities.get("cpu")) for quantities in limits))


def gpus_of(template: Json) -> int:
    """Return the GPU limit of the task, MIG instances included."""
    limits = [_limits(container) for container in containers(template)]
    return sum(
        _whole_number(amount)
        for quantities in limits
        for name, amount in quantities.items()
        if _is_gpu(name.removesuffix(SHARED_SUFFIX))
    )


def _limits(container: Json) -> Json:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    return limits if isinstance(limits, dict) else {}


def _whole_number(quantity: Any) -> int:
    """Return the whole part of a quantity such as 2, "2", "2.5" or "2500m"."""
    match = _QUANTITY.fullmatch(str(quantity))
    return 0 if match is None else int(float(match[1])) // (1000 if match[2] else 1)


def containers(template: Json) -> Iterator[Json]:
    spec = template.get("spec")
    return mappings(spec.get("containers") if isinstance(spec, dict) else None)


def mappings(value: Any) -> Iterator[Json]:
    return (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))
