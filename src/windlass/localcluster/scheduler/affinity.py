"""Match a pod's nodeSelector and node affinity against a node. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.model.base import Json

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBERS = range(-(2**63), 2**63)
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
    return all(_is_met(one, labels) for one in expressions) and all(
        _is_met(one, {"metadata.name": node["metadata"]["name"]}) for one in fields
    )


def _node_affinity(spec: Json) -> Item:
    affinity: Item = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity


def _fields(term: Item) -> Iterator[Item]:
    yield from term.get("matchFields") or ()


def _is_met(requirement: Item, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.get("key", "")), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _is_less(_numbers(values), _numbers((value,)))
        case "Lt":
            return _is_less(_numbers((value,)), _numbers(values))
        case _:
            return False


def _is_less(lower: list[int], upper: list[int]) -> bool:
    """Return whether both lists hold one number and the first number is less."""
    return len(lower) == len(upper) == 1 and lower[0] < upper[0]


def _numbers(values: Any) -> list[int]:
    """Return the values that are 64-bit integers. Other values are not compared."""
    return [int(value) for value in values if value and _NUMBER.fullmatch(value) and int(value) in _NUMBERS]
