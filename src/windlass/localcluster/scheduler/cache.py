"""The accounts of all nodes, kept change by change: no decision adds up all pods again. In memory alone."""

from collections.abc import Sequence
from typing import Any

from windlass.localcluster.scheduler import node_resources, taints
from windlass.localcluster.scheduler.node_resources import Account, Asked
from windlass.model.base import Json


class Ledger:
    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        # Where each pod is, and with what: a node may come after its pods.
        self._pods: dict[str, tuple[str, Asked]] = {}
        # Grows with every change that a decision could depend on.
        self.version = 0

    @property
    def accounts(self) -> Sequence[Account]:
        return tuple(self._accounts.values())

    def account(self, node: str) -> Account:
        return self._accounts[node]

    def note_node(self, node: Json) -> bool:
        """Write down a node as it is now. Does it make a difference?"""
        name = node["metadata"]["name"]
        known = self._accounts.get(name)
        if known is not None and _what_matters(known.node) == _what_matters(node):
            return False
        account = node_resources.account_of(node)
        for key, (where, asked) in self._pods.items():
            if where == name:
                account = account.with_pod(key, asked)
        self._accounts[name] = account
        self.version += 1
        return True

    def drop_node(self, name: str) -> bool:
        self.version += 1
        return self._accounts.pop(name, None) is not None

    def note_pod(self, key: str, pod: Json) -> bool:
        """Write down what a pod holds now. Is there anything that it held and does not hold as before?"""
        node = pod["spec"].get("nodeName")
        if not node or node_resources.has_ended(pod):
            return self.drop_pod(key)
        now = (node, node_resources.asked_by(pod))
        if self._pods.get(key) == now:
            return False
        held_something = self.drop_pod(key)
        self._pods[key] = now
        if node in self._accounts:
            self._accounts[node] = self._accounts[node].with_pod(key, now[1])
        self.version += 1
        return held_something

    def drop_pod(self, key: str) -> bool:
        held = self._pods.pop(key, None)
        if held is None:
            return False
        node, _ = held
        if node in self._accounts:
            self._accounts[node] = self._accounts[node].without_pod(key)
        self.version += 1
        return True


def _what_matters(node: Json) -> Any:
    """Nodes tell every few seconds that they are alive: that alone changes nothing for a pod."""
    meta, spec = node["metadata"], node.get("spec") or {}
    return (
        meta.get("labels"),
        meta.get("annotations"),
        spec.get("unschedulable", False),
        [*taints.of_node(node)],
        (node.get("status") or {}).get("allocatable"),
    )
