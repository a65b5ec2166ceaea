"""Which GPUs a container sees: its share of those that the scheduler gave to the pod. Pure."""

from collections.abc import Mapping, Sequence

from windlass.k8s import quantities
from windlass.localcluster.kubelet import machine
from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.scheduler import gpus, node_resources
from windlass.model.base import Json

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


def environment(pod: Json, container: Json, own: Mapping[str, str], gpu_ids: Sequence[str]) -> dict[str, str]:
    """`own` is what the container says itself: it may choose among its GPUs, and counts them from 0."""
    count = _count(container)
    if not count:
        return {VISIBLE: ""} if gpu_ids else {}
    given = node_resources.requests_of(pod).gpus
    start = _before(pod, container["name"])
    share = given[start : start + count]
    if len(share) < count:
        message = (
            f'container "{container["name"]}" asks for {count} {gpus.RESOURCE}, but the pod was given no GPUs: the'
            f" scheduler writes them into the annotation {gpus.ANNOTATION}, so let it choose the node"
        )
        raise SetupError(message, errors.CREATE_ERROR)
    visible = _chosen(own[VISIBLE], share) if VISIBLE in own else share
    # In one order for all, or a number would mean one GPU here and another there.
    return {VISIBLE: machine.visible_devices(gpu_ids, visible), _ORDER: "PCI_BUS_ID"}


def _before(pod: Json, name: str) -> int:
    """How many GPUs the containers hold that run beside this one and come before it."""
    sidecars = specs.sidecar_names(pod)
    held = 0
    for container in (*specs.init_containers(pod), *specs.containers(pod)):
        if container["name"] == name:
            break
        is_gone_by_then = (
            specs.is_init_container(pod, container["name"]) and container["name"] not in sidecars
        )
        held += 0 if is_gone_by_then else _count(container)
    return held


def _count(container: Json) -> int:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(quantities.parse(asked.get(gpus.RESOURCE, "0")))


def _chosen(written: str, share: Sequence[int]) -> list[int]:
    """As CUDA reads it: up to the first that is none of them."""
    found: list[int] = []
    for number in (one.strip() for one in written.split(",")):
        is_one_of_them = number.isascii() and number.isdecimal() and int(number) < len(share)
        if not is_one_of_them:
            break
        found.append(share[int(number)])
    return found
