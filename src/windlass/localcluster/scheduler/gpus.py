"""Assign GPUs to nodes and pods.

An annotation of a node lists its GPUs, because several logical nodes share one machine. The same annotation of a pod
lists the GPUs assigned to the pod. An entry is an ID as in `kubelet.gpus`, with the prefix `RESOURCE:` unless the
resource is nvidia.com/gpu. IDs are UUIDs, so that an assignment stays valid when the daemon restarts.

A GPU belongs to one pod at a time, unless pods request the resource with the suffix `.shared`. Pods share a GPU only if
all of them have the same value of TASKS_PER_GPU, and at most that many.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.model.base import Json
from windlass.model.resources import (
    GPU_RESOURCE_PATTERN,
    NVIDIA_GPU,
    SHARED_SUFFIX,
    TASKS_PER_GPU_ANNOTATION,
)

RESOURCE = NVIDIA_GPU
ANNOTATION = "windlass.dev/gpus"
"""On a node of the embedded cluster: its GPUs. On a pod: the GPUs that the scheduler has assigned to it."""
IN_USE_ANNOTATION = "windlass.dev/gpus-in-use"
"""On a node of the embedded cluster: the GPUs that processes outside its pods use, and their PIDs, e.g.
`GPU-a=12 34,GPU-b=56`."""
_DEFAULT_TASKS_PER_GPU = 2

_is_gpu = re.compile(GPU_RESOURCE_PATTERN).fullmatch


class Gpu(msgspec.Struct, frozen=True):
    id: str
    resource: str = RESOURCE
    """Resource of the node or, in an assignment, the one that the pod requests, which may end in `.shared`."""


def is_shared(resource: str) -> bool:
    return resource.endswith(SHARED_SUFFIX) and is_gpu(resource)


def is_gpu(resource: str) -> bool:
    return _is_gpu(base(resource)) is not None


def base(resource: str) -> str:
    """Return the resource of a node that a pod with this request uses."""
    return resource.removesuffix(SHARED_SUFFIX)


def of_node(node: Json, allocatable: Mapping[str, int]) -> tuple[Gpu, ...]:
    """Return a node's GPUs. Without a valid annotation, their IDs are the numbers from 0."""
    count = allocatable.get(RESOURCE, 0)
    return annotated(node, allocatable) or tuple(Gpu(str(number)) for number in range(count))


def tasks_per_gpu(pod: Json) -> int:
    """Return how many pods may use each GPU that this pod shares."""
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    number = annotations.get(TASKS_PER_GPU_ANNOTATION, "")
    is_number = number.isascii() and number.isdecimal() and len(number) < 4
    return int(number) if is_number and int(number) else _DEFAULT_TASKS_PER_GPU


def has_room(holders: Sequence[int], limit: int) -> bool:
    """Return whether a pod may use a GPU. `holders` has the limit of each pod that uses it; 1 excludes others."""
    return len(holders) < limit and all(holder == limit for holder in holders)


def choose(
    requested: Mapping[str, int],
    limit: int,
    owned: Sequence[Gpu],
    holders: Mapping[str, Sequence[int]],
    in_use: Iterable[str] = (),
) -> tuple[Gpu, ...] | None:
    """Return the GPUs for a pod; None if there are too few.

    GPUs that are already shared come first, those in use by other processes last. `limit` applies to shared GPUs,
    `holders` has the limits of the pods that use a GPU, by its ID.
    """
    avoided = frozenset(in_use)
    chosen: list[Gpu] = []
    for resource, count in requested.items():
        own_limit = limit if is_shared(resource) else 1
        taken = {gpu.id for gpu in chosen}
        candidates = [
            gpu.id
            for gpu in owned
            if gpu.resource == base(resource)
            and gpu.id not in taken
            and has_room(holders.get(gpu.id, ()), own_limit)
        ]
        candidates.sort(key=lambda gpu: (-len(holders.get(gpu, ())), gpu in avoided))
        if len(candidates) < count:
            return None
        chosen += [Gpu(gpu, resource) for gpu in candidates[:count]]
    return tuple(chosen)


def format_gpus(gpus: Iterable[Gpu]) -> str:
    return ",".join(gpu.id if gpu.resource == RESOURCE else f"{gpu.resource}:{gpu.id}" for gpu in gpus)


def annotated(obj: Json, amounts: Mapping[str, int]) -> tuple[Gpu, ...]:
    """Return the GPUs listed in the annotation of a node or pod; empty if it does not list exactly these amounts."""
    found = listed(obj)
    expected = {name: amount for name, amount in amounts.items() if amount and is_gpu(name)}
    return found if Counter(gpu.resource for gpu in found) == expected else ()


def listed(obj: Json) -> tuple[Gpu, ...]:
    """Return the GPUs listed in the annotation of a node or pod."""
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    entries = annotations.get(ANNOTATION, "").split(",")
    return tuple(dict.fromkeys(_parse(entry) for entry in entries if entry))


def format_in_use(processes: Mapping[str, Iterable[int]]) -> str:
    return ",".join(f"{gpu}={' '.join(map(str, pids))}" for gpu, pids in processes.items())


def in_use(node: Json) -> frozenset[str]:
    """Return the GPUs of a node that other processes use."""
    annotations: Mapping[str, str] = node["metadata"].get("annotations") or {}
    entries = annotations.get(IN_USE_ANNOTATION, "").split(",")
    return frozenset(entry.partition("=")[0] for entry in entries if entry)


def _parse(entry: str) -> Gpu:
    resource, _, id_ = entry.strip().rpartition(":")
    return Gpu(id_, resource or RESOURCE)
