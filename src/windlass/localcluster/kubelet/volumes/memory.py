"""How large a volume in memory may grow, such as the emptyDir that many mount at /dev/shm."""

from windlass.k8s import quantities
from windlass.localcluster.kubelet.containers.facts import Facts
from windlass.model.base import Json


def is_in_memory(volume: Json) -> bool:
    return (volume.get("emptyDir") or {}).get("medium") == "Memory"


def size_in_bytes(volume: Json, pod: Json, facts: Facts) -> int | None:
    """The least of its sizeLimit, the pod's memory limit and the node's memory; None when there is none of them."""
    bounds = [
        _bytes((volume.get("emptyDir") or {}).get("sizeLimit")),
        _memory_limit(pod),
        _bytes(facts.allocatable.get("memory")),
    ]
    return min((bound for bound in bounds if bound), default=None)


def _memory_limit(pod: Json) -> int:
    """What all containers together may have, 0 when one of them has no limit."""
    limits = [_limit(container) for container in pod["spec"]["containers"]]
    initial = [_limit(container) for container in pod["spec"].get("initContainers") or ()]
    return max(sum(limits), *initial, 0) if all((*limits, *initial)) else 0


def _limit(container: Json) -> int:
    return _bytes(((container.get("resources") or {}).get("limits") or {}).get("memory"))


def _bytes(written: str | None) -> int:
    return int(quantities.parse(written or "0"))
