"""Match a pod's nodeSelector and node affinity against a node. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s.label_selectors import requirement_of
from windlass.model.base import Json

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Item = Mapping[str, Any]


def selects(spec: Json, node: Json) -> bool:
    """Return whether a pod may run on a node: all labels of its selector and any of its required terms match."""
    labels = node["metadata"].get("labels") or {}
    has_labels = all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
    terms = required_terms(spec)
    return has_labels and (terms is None or any(matches(term, node) for term in terms))


def required_terms(spec: Json) -> list[Item] | None:
    """Return the required terms, of which one must match; None if the pod has none."""
    required = _node_affinity(spec).get(_REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or []


def names(spec: Json) -> frozenset[str] | None:
    """Return the nodes that the required terms name; None if a term names none, so that any node may match."""
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


def preference(spec: Json, node: Json) -> int:
    """Return the sum of the weights of all matching preferred terms."""
    terms = _node_affinity(spec).get(_PREFERRED) or ()
    return sum(term.get("weight", 0) for term in terms if matches(term.get("preference") or {}, node))


def matches(term: Item, node: Json) -> bool:
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
