"""Match node taints against a pod's tolerations. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.model.base import Json

Item = Mapping[str, Any]

UNSCHEDULABLE: Item = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_CONDITION_TAINTS = {"True": "", "Unknown": "node.kubernetes.io/unreachable"}
_NOT_READY = "node.kubernetes.io/not-ready"


def of_node(node: Json) -> Iterator[Item]:
    """Yield the taints of a node, including the one for a node that is not ready."""
    yield from (node.get("spec") or {}).get("taints") or ()
    if trouble := _node_condition_taint(node):
        yield {"key": trouble, "effect": "NoSchedule"}


def first_untolerated(spec: Json, node: Json) -> Item | None:
    """Return the first NoSchedule or NoExecute taint that the pod does not tolerate."""
    keeping_away = (taint for taint in of_node(node) if taint.get("effect") in ("NoSchedule", "NoExecute"))
    return next((taint for taint in keeping_away if not tolerates(spec, taint)), None)


def count_soft_untolerated(spec: Json, node: Json) -> int:
    """Return the number of PreferNoSchedule taints that the pod does not tolerate."""
    soft_taints = (taint for taint in of_node(node) if taint.get("effect") == "PreferNoSchedule")
    return sum(not tolerates(spec, taint) for taint in soft_taints)


def tolerates(spec: Json, taint: Item) -> bool:
    return any(_matches_taint(toleration, taint) for toleration in spec.get("tolerations") or ())


def _matches_taint(toleration: Item, taint: Item) -> bool:
    is_of_effect = toleration.get("effect", "") in ("", taint.get("effect"))
    is_of_key = toleration.get("key", "") in ("", taint.get("key"))
    is_of_value = toleration.get("operator") == "Exists" or (
        toleration.get("operator", "Equal") in ("", "Equal")
        and toleration.get("value", "") == taint.get("value", "")
    )
    return is_of_effect and is_of_key and is_of_value


def _node_condition_taint(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status", "") for one in conditions if one.get("type") == "Ready"), "")
    return _CONDITION_TAINTS.get(ready, _NOT_READY)
