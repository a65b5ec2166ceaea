"""What keeps pods away from a node unless they tolerate it. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.model.base import Json

Item = Mapping[str, Any]

UNSCHEDULABLE: Item = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_TROUBLES = {"True": "", "Unknown": "node.kubernetes.io/unreachable"}
_NOT_READY = "node.kubernetes.io/not-ready"


def of_node(node: Json) -> Iterator[Item]:
    """Its own taints, and the one that a node which is not ready has on every cluster."""
    yield from (node.get("spec") or {}).get("taints") or ()
    if trouble := _trouble(node):
        yield {"key": trouble, "effect": "NoSchedule"}


def first_untolerated(spec: Json, node: Json) -> Item | None:
    """The first taint that keeps this pod away."""
    keeping_away = (taint for taint in of_node(node) if taint.get("effect") in ("NoSchedule", "NoExecute"))
    return next((taint for taint in keeping_away if not tolerates(spec, taint)), None)


def count_of_discouraging(spec: Json, node: Json) -> int:
    """How many taints would rather have this pod elsewhere."""
    discouraging = (taint for taint in of_node(node) if taint.get("effect") == "PreferNoSchedule")
    return sum(not tolerates(spec, taint) for taint in discouraging)


def tolerates(spec: Json, taint: Item) -> bool:
    return any(_covers(toleration, taint) for toleration in spec.get("tolerations") or ())


def _covers(toleration: Item, taint: Item) -> bool:
    is_of_effect = toleration.get("effect", "") in ("", taint.get("effect"))
    is_of_key = toleration.get("key", "") in ("", taint.get("key"))
    is_of_value = toleration.get("operator") == "Exists" or (
        toleration.get("operator", "Equal") in ("", "Equal")
        and toleration.get("value", "") == taint.get("value", "")
    )
    return is_of_effect and is_of_key and is_of_value


def _trouble(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status", "") for one in conditions if one.get("type") == "Ready"), "")
    return _TROUBLES.get(ready, _NOT_READY)
