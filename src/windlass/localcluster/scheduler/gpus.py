"""Assign the machine's GPUs to nodes and pods; each GPU belongs to one pod at a time.

An annotation of a node lists its GPUs, because several logical nodes share one machine. The same annotation of a pod
lists the GPUs assigned to the pod. The number of a GPU is its position in `kubelet.machine.gpu_ids`.
"""

from collections.abc import Iterable, Mapping

from windlass.model.base import Json

RESOURCE = "nvidia.com/gpu"
ANNOTATION = "windlass.dev/gpus"


def of_node(node: Json, count: int) -> tuple[int, ...]:
    """Return the numbers of a node's `count` GPUs. Without a valid annotation, these are the numbers from 0."""
    return annotated(node, count) or tuple(range(count))


def choose(count: int, owned: Iterable[int], taken: Iterable[int]) -> tuple[int, ...] | None:
    """Return the `count` free GPUs with the lowest numbers; None if there are too few."""
    free = sorted({*owned} - {*taken})
    return tuple(free[:count]) if len(free) >= count else None


def format_gpus(gpus: Iterable[int]) -> str:
    return ",".join(map(str, gpus))


def annotated(obj: Json, count: int) -> tuple[int, ...]:
    """Return the GPUs listed in the annotation of a node or pod; empty if it does not list exactly `count`."""
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    numbers = [number.strip() for number in annotations.get(ANNOTATION, "").split(",")]
    listed = {int(number) for number in numbers if number.isdecimal() and number.isascii()}
    return tuple(sorted(listed)) if len(listed) == len(numbers) == count else ()
