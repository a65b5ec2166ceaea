"""The resources of all nodes, updated with each change so that a decision does not add up all pods again."""

from collections.abc import Sequence
from typing import Any

from windlass.localcluster.scheduler import node_resources, taints
from windlass.localcluster.scheduler.node_resources import NodeInfo, PodRequests
from windlass.model.base import Json


class SchedulerCache:
    def __init__(self) -> None:
        self._accounts: dict[str, NodeInfo] = {}
        # The node and the requests of each pod: a pod may be seen before its node.
        self._pods: dict[str, tuple[str, PodRequests]] = {}
        # Incremented with every change that a decision could depend on.
        self.version = 0

    @property
    def node_infos(self) -> Sequence[NodeInfo]:
        return tuple(self._accounts.values())

    def node_info(self, node: str) -> NodeInfo:
        return self._accounts[node]

    def update_node(self, node: Json) -> bool:
        """Update a node and return whether scheduling could be affected."""
        name = node["metadata"]["name"]
        known = self._accounts.get(name)
        if known is not None and _scheduling_fields(known.node) == _scheduling_fields(node):
            return False
        node_info = node_resources.node_info_of(node)
        for key, (where, requests) in self._pods.items():
            if where == name:
                node_info = node_info.with_pod(key, requests)
        self._accounts[name] = node_info
        self.version += 1
        return True

    def remove_node(self, name: str) -> bool:
        self.version += 1
        return self._accounts.pop(name, None) is not None

    def update_pod(self, key: str, pod: Json) -> bool:
        """Update a pod and return whether it released resources."""
        node = pod["spec"].get("nodeName")
        if not node or node_resources.is_finished(pod):
            return self.remove_pod(key)
        now = (node, node_resources.requests_of(pod))
        if self._pods.get(key) == now:
            return False
        held_something = self.remove_pod(key)
        self._pods[key] = now
        if node in self._accounts:
            self._accounts[node] = self._accounts[node].with_pod(key, now[1])
        self.version += 1
        return held_something

    def remove_pod(self, key: str) -> bool:
        held = self._pods.pop(key, None)
        if held is None:
            return False
        node, _ = held
        if node in self._accounts:
            self._accounts[node] = self._accounts[node].without_pod(key)
        self.version += 1
        return True


def _scheduling_fields(node: Json) -> Any:
    """Return the fields of a node that affect scheduling: its heartbeats do not."""
    meta, spec = node["metadata"], node.get("spec") or {}
    return (
        meta.get("labels"),
        meta.get("annotations"),
        spec.get("unschedulable", False),
        [*taints.of_node(node)],
        (node.get("status") or {}).get("allocatable"),
    )
