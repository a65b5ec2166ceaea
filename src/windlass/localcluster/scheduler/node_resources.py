"""Node capacity and pod requests (CPU, memory, GPUs and host ports), without I/O.

CPU is counted in millicores and everything else in whole units, rounded up, as in kube-scheduler.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from windlass.k8s import pod_resources
from windlass.k8s.pod_resources import Amounts
from windlass.localcluster.scheduler import gpus, node_constraints
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.model.base import Json

PODS = "pods"
# Requests assumed for a container without requests. They are used only to compare nodes, so that pods without requests
# are spread too.
_NONZERO_DEFAULTS = {"cpu": "100m", "memory": "200Mi"}
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 — compared with, not listened on


class HostPort(msgspec.Struct, frozen=True):
    address: str
    protocol: str
    number: int

    def conflicts_with(self, other: "HostPort") -> bool:
        is_same_port = (self.protocol, self.number) == (other.protocol, other.number)
        addresses = {self.address, other.address}
        return is_same_port and (len(addresses) == 1 or _ANY_ADDRESS in addresses)


class PodRequests(msgspec.Struct, frozen=True):
    """The resources that a pod takes from a node."""

    amounts: Amounts
    # CPU and memory with assumed requests: used to compare nodes, never to reject one.
    nonzero: Amounts
    ports: tuple[HostPort, ...]
    priority: int
    gpus: tuple[Gpu, ...]
    """The assigned GPUs."""
    tasks_per_gpu: int = 1


class PodInfo(msgspec.Struct, frozen=True):
    """A pod to schedule: its spec and its requests."""

    spec: Json
    requests: PodRequests


class NodeInfo(msgspec.Struct, frozen=True):
    """A node, its allocatable resources and the requests of its pods."""

    node: Json
    allocatable: Amounts
    requested: Amounts
    nonzero: Amounts
    pods: Mapping[str, PodRequests]

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def free_pod_slots(self) -> int:
        return self.allocatable.get(PODS, 0) - len(self.pods)

    def total(self, resource: str) -> int:
        """Return the amount that one pod could have if there were no other pods."""
        return self.allocatable.get(gpus.base(resource) if gpus.is_shared(resource) else resource, 0)

    def free(self, resource: str, tasks_per_gpu: int = 1) -> int:
        if gpus.is_shared(resource):
            return self._free_shared(resource, tasks_per_gpu)
        is_shared = {gpu for gpu, limits in self._gpu_holders(resource).items() if limits[0] > 1}
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0) - len(is_shared)

    def _free_shared(self, resource: str, tasks_per_gpu: int) -> int:
        own = gpus.base(resource)
        holders = self._gpu_holders(own).values()
        return max(self.free(own), 0) + sum(gpus.has_room(limits, tasks_per_gpu) for limits in holders)

    def _gpu_holders(self, resource: str = "") -> dict[str, list[int]]:
        """Return the limits of the pods that use a GPU, by its ID; only GPUs of one resource if it is given."""
        holders: dict[str, list[int]] = {}
        for requests in self.pods.values():
            for gpu in requests.gpus:
                if resource in ("", gpus.base(gpu.resource)):
                    limit = requests.tasks_per_gpu if gpus.is_shared(gpu.resource) else 1
                    holders.setdefault(gpu.id, []).append(limit)
        return holders

    def with_pod(self, key: str, requests: PodRequests) -> "NodeInfo":
        return msgspec.structs.replace(
            self,
            requested=pod_resources.added(self.requested, requests.amounts),
            nonzero=pod_resources.added(self.nonzero, requests.nonzero),
            pods={**self.pods, key: requests},
        )

    def without_pod(self, key: str) -> "NodeInfo":
        requests = self.pods[key]
        return msgspec.structs.replace(
            self,
            requested=pod_resources.added(self.requested, _negative(requests.amounts)),
            nonzero=pod_resources.added(self.nonzero, _negative(requests.nonzero)),
            pods={other: theirs for other, theirs in self.pods.items() if other != key},
        )

    def choose_gpus(self, requests: PodRequests) -> tuple[Gpu, ...] | None:
        owned = gpus.of_node(self.node, self.allocatable)
        available = {gpu.resource for gpu in owned}
        requested = {
            name: amount for name, amount in requests.amounts.items() if gpus.base(name) in available
        }
        in_use = gpus.in_use(self.node)
        return gpus.choose(requested, requests.tasks_per_gpu, owned, self._gpu_holders(), in_use)


def node_info_of(node: Json) -> NodeInfo:
    """Return the node without any pods."""
    allocatable = pod_resources.amounts_of((node.get("status") or {}).get("allocatable") or {})
    return NodeInfo(node, allocatable, {}, {}, {})


def requests_of(pod: Json) -> PodRequests:
    spec = pod["spec"]
    amounts = pod_resources.total(spec, {})
    return PodRequests(
        amounts={name: amount for name, amount in amounts.items() if amount > 0},
        nonzero={
            name: amount
            for name, amount in pod_resources.total(spec, _NONZERO_DEFAULTS).items()
            if name in _NONZERO_DEFAULTS
        },
        ports=tuple(_host_ports(spec)),
        priority=spec.get("priority") or 0,
        gpus=gpus.annotated(pod, amounts),
        tasks_per_gpu=gpus.tasks_per_gpu(pod) if any(map(gpus.is_shared, amounts)) else 1,
    )


def pod_info_of(pod: Json) -> PodInfo:
    return PodInfo(pod["spec"], requests_of(pod))


def is_finished(pod: Json) -> bool:
    """Return whether a pod has ended and so holds no resources."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _host_ports(spec: Json) -> Iterator[HostPort]:
    sidecars = filter(pod_resources.is_sidecar, spec.get("initContainers") or ())
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = port.get("hostIP") or _ANY_ADDRESS
                yield HostPort(address, port.get("protocol") or "TCP", port["hostPort"])


def _negative(amounts: Amounts) -> Amounts:
    return {name: -amount for name, amount in amounts.items()}


class SchedulerCache:
    """The resources of all nodes, updated with each change so that a decision does not add up all pods again."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        # The node and the requests of each pod: a pod may be added before its node.
        self._pods: dict[str, tuple[str, PodRequests]] = {}
        # Incremented with every change that a decision could depend on.
        self.version = 0

    @property
    def node_infos(self) -> Sequence[NodeInfo]:
        return tuple(self._nodes.values())

    def node_info(self, node: str) -> NodeInfo:
        return self._nodes[node]

    def capacity(self, pod_info: PodInfo) -> int:
        """Return how many pods with these requests all nodes together could run if they had no other pods."""
        amounts = {**pod_info.requests.amounts, PODS: 1}
        pods_per_unit = dict.fromkeys(filter(gpus.is_shared, amounts), pod_info.requests.tasks_per_gpu)
        return sum(
            min(
                node_info.total(name) * pods_per_unit.get(name, 1) // amount
                for name, amount in amounts.items()
            )
            for node_info in self._nodes.values()
        )

    def update_node(self, node: Json) -> bool:
        """Add or update a node, and return whether scheduling could be affected."""
        name = node["metadata"]["name"]
        current = self._nodes.get(name)
        if current is not None and _scheduling_fields(current.node) == _scheduling_fields(node):
            return False
        node_info = node_info_of(node)
        for key, (node_name, requests) in self._pods.items():
            if node_name == name:
                node_info = node_info.with_pod(key, requests)
        self._nodes[name] = node_info
        self.version += 1
        return True

    def remove_node(self, name: str) -> bool:
        self.version += 1
        return self._nodes.pop(name, None) is not None

    def update_pod(self, key: str, pod: Json) -> bool:
        """Add or update a pod, and return whether it released resources."""
        node = pod["spec"].get("nodeName")
        if not node or is_finished(pod):
            return self.remove_pod(key)
        requests = requests_of(pod)
        if self._pods.get(key) == (node, requests):
            return False
        has_released = self.remove_pod(key)
        self._pods[key] = (node, requests)
        if node in self._nodes:
            self._nodes[node] = self._nodes[node].with_pod(key, requests)
        self.version += 1
        return has_released

    def remove_pod(self, key: str) -> bool:
        node, _ = self._pods.pop(key, ("", None))
        if not node:
            return False
        if node in self._nodes:
            self._nodes[node] = self._nodes[node].without_pod(key)
        self.version += 1
        return True


def _scheduling_fields(node: Json) -> Any:
    """Return the fields of a node that affect scheduling, without its heartbeats."""
    meta, spec = node["metadata"], node.get("spec") or {}
    return (
        meta.get("labels"),
        meta.get("annotations"),
        spec.get("unschedulable", False),
        [*node_constraints.taints_of(node)],
        (node.get("status") or {}).get("allocatable"),
    )
