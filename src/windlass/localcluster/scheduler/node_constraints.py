"""Match a pod's nodeSelector, node affinity and tolerations against a node."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s.label_selectors import requirement_of
from windlass.model.base import Json

Item = Mapping[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
UNSCHEDULABLE_TAINT: Item = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
# The taint of a node by the status of its Ready condition.
_CONDITION_TAINTS = {"True": "", "Unknown": "node.kubernetes.io/unreachable"}
_NOT_READY = "node.kubernetes.io/not-ready"


def selects(spec: Json, node: Json) -> bool:
    """Return whether a node has the labels of a pod's nodeSelector and matches a required affinity term, if any."""
    labels = node["metadata"].get("labels") or {}
    has_labels = all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
    terms = required_terms(spec)
    return has_labels and (terms is None or any(matches_term(term, node) for term in terms))


def required_terms(spec: Json) -> list[Item] | None:
    """Return the required terms, of which one must match; None if the pod has no required node affinity."""
    required = _node_affinity(spec).get(_REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or []


def required_names(spec: Json) -> frozenset[str] | None:
    """Return the node names that the required terms allow; None if there are no terms or one of them lists no names."""
    terms = required_terms(spec)
    if not terms:
        return None
    named: set[str] = set()
    for term in terms:
        lists = [set(one.get("values") or ()) for one in _fields(term) if one.get("operator") == "In"]
        if not lists:
            return None
        named |= set.intersection(*lists)
    return frozenset(named)


def affinity_weight(spec: Json, node: Json) -> int:
    """Return the sum of the weights of all matching preferred terms."""
    terms = _node_affinity(spec).get(_PREFERRED) or ()
    return sum(term.get("weight", 0) for term in terms if matches_term(term.get("preference") or {}, node))


def matches_term(term: Item, node: Json) -> bool:
    """Return whether a node meets all requirements of a term. An empty term matches nothing."""
    labels = node["metadata"].get("labels") or {}
    expressions, fields = term.get("matchExpressions") or (), [*_fields(term)]
    if not expressions and not fields:
        return False
    name = {"metadata.name": node["metadata"]["name"]}
    return all(requirement_of(one).matches(labels) for one in expressions) and all(
        requirement_of(one).matches(name) for one in fields
    )


def _node_affinity(spec: Json) -> Item:
    affinity: Item = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity


def _fields(term: Item) -> Iterator[Item]:
    yield from term.get("matchFields") or ()


# Taints


def taints_of(node: Json) -> Iterator[Item]:
    """Yield the taints of a node, including the taint of a node that is not ready."""
    yield from (node.get("spec") or {}).get("taints") or ()
    if key := _condition_taint(node):
        yield {"key": key, "effect": "NoSchedule"}


def first_untolerated_taint(spec: Json, node: Json) -> Item | None:
    """Return the first NoSchedule or NoExecute taint that the pod does not tolerate, or None."""
    hard_taints = (taint for taint in taints_of(node) if taint.get("effect") in ("NoSchedule", "NoExecute"))
    return next((taint for taint in hard_taints if not tolerates(spec, taint)), None)


def count_untolerated_soft_taints(spec: Json, node: Json) -> int:
    """Return the number of PreferNoSchedule taints that the pod does not tolerate."""
    soft_taints = (taint for taint in taints_of(node) if taint.get("effect") == "PreferNoSchedule")
    return sum(not tolerates(spec, taint) for taint in soft_taints)


def tolerates(spec: Json, taint: Item) -> bool:
    return any(_matches_taint(toleration, taint) for toleration in spec.get("tolerations") or ())


def _matches_taint(toleration: Item, taint: Item) -> bool:
    has_effect = toleration.get("effect", "") in ("", taint.get("effect"))
    has_key = toleration.get("key", "") in ("", taint.get("key"))
    has_value = toleration.get("operator") == "Exists" or (
        toleration.get("operator", "Equal") in ("", "Equal")
        and toleration.get("value", "") == taint.get("value", "")
    )
    return has_effect and has_key and has_value


def _condition_taint(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status", "") for one in conditions if one.get("type") == "Ready"), "")
    return _CONDITION_TAINTS.get(ready, _NOT_READY)
