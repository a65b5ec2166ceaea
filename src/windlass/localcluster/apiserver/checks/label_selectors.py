"""The selectors that stand in specs (`matchLabels`, `matchExpressions`): are they right, do they match."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.checks import basics

Selector = Mapping[str, Any]
_NEEDS_VALUES = ("In", "NotIn")
_TAKES_NO_VALUES = ("Exists", "DoesNotExist")


def errors(selector: Selector, path: str) -> Iterator[FieldError]:
    yield from metadata.label_errors(selector.get("matchLabels"), f"{path}.matchLabels")
    for requirement, at in basics.indexed(selector.get("matchExpressions"), f"{path}.matchExpressions"):
        yield from requirement_errors(requirement, at)


def requirement_errors(requirement: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values")
    if operator in _NEEDS_VALUES and not values:
        yield api_errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in _TAKES_NO_VALUES and values:
        problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield api_errors.forbidden_field(f"{path}.values", problem)
    if operator not in (*_NEEDS_VALUES, *_TAKES_NO_VALUES):
        yield api_errors.invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    key = requirement.get("key", "")
    yield from basics.invalid_values(f"{path}.key", key, formats.qualified_name(key))


def is_empty(selector: Selector) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """An empty selector matches everything."""
    has_labels = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return has_labels and all(_holds(item, labels) for item in selector.get("matchExpressions") or ())


def mismatch(selector: Selector | None, labels: Mapping[str, str] | None, field: str) -> Iterator[FieldError]:
    """Does a selector miss the labels of the template beside it? No selector at all does."""
    if selector is None or not matches(selector, labels or {}):
        yield api_errors.invalid_value(field, labels, "`selector` does not match template `labels`")


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.get("key", "")), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def written(selector: Selector) -> str:
    """Return the selector as a query writes it, sorted by key: `app=x,tier in (a,b)`."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [(item["key"], _written_term(item)) for item in selector.get("matchExpressions") or ()]
    return ",".join(term for _, term in sorted(terms, key=lambda pair: pair[0]))


def _written_term(requirement: Mapping[str, Any]) -> str:
    key, values = requirement["key"], ",".join(sorted(requirement.get("values") or ()))
    match requirement["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"
