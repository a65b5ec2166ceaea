"""Validation of label selectors in specs (`matchLabels`, `matchExpressions`)."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats, label_selectors
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
    yield from basics.format_errors(requirement, path, "key", formats.qualified_name)


def is_empty(selector: Selector) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def mismatch(selector: Selector | None, labels: Mapping[str, str] | None, field: str) -> Iterator[FieldError]:
    """Yield an error if the selector is absent or does not match the labels of the template."""
    if selector is None or not label_selectors.from_object(selector).matches(labels or {}):
        yield api_errors.invalid_value(field, labels, "`selector` does not match template `labels`")
