"""Which GPUs of the machine a pod has: each belongs to one pod at a time. Pure.

A node says in an annotation which of the machine's GPUs are its own, for several logical nodes share one machine. A pod
says in the same annotation which of them it was given: the numbers that CUDA_VISIBLE_DEVICES takes.
"""

from collections.abc import Iterable, Mapping

from windlass.model.base import Json

RESOURCE = "nvidia.com/gpu"
ANNOTATION = "windlass.dev/gpus"


def of_node(node: Json, count: int) -> tuple[int, ...]:
    """The GPUs of a node that has so many. One that does not say which has the first ones."""
    return _annotated(node, count) or tuple(range(count))


def of_pod(pod: Json, count: int) -> tuple[int, ...]:
    """The GPUs that were given to a pod that asks for so many; none, as long as it was given none."""
    return _annotated(pod, count)


def choose(count: int, owned: Iterable[int], taken: Iterable[int]) -> tuple[int, ...] | None:
    """The lowest GPUs that are free; None when there are too few."""
    free = sorted({*owned} - {*taken})
    return tuple(free[:count]) if len(free) >= count else None


def written(gpus: Iterable[int]) -> str:
    return ",".join(map(str, gpus))


def _annotated(obj: Json, count: int) -> tuple[int, ...]:
    """What an annotation lists. One that lists too few or too many is somebody else's and says nothing."""
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    numbers = [number.strip() for number in annotations.get(ANNOTATION, "").split(",")]
    listed = {int(number) for number in numbers if number.isdecimal() and number.isascii()}
    return tuple(sorted(listed)) if len(listed) == len(numbers) == count else ()
