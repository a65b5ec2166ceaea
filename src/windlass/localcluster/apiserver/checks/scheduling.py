"""Validation of tolerations, affinity and topology spread constraints."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, label_selectors

Item = Mapping[str, Any]
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def toleration_errors(tolerations: list[Item] | None, path: str) -> Iterator[FieldError]:
    for toleration, at in basics.indexed(tolerations, path):
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        yield from basics.optional_name(toleration, at, "key", formats.qualified_name)
        if not key and operator != "Exists":
            problem = (
                'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            )
            yield api_errors.invalid_value(f"{at}.operator", operator, problem)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            problem = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield api_errors.invalid_value(f"{at}.effect", effect, problem)
        if operator in ("", "Equal"):
            yield from label_value_errors(f"{at}.operator", value)
        elif operator == "Exists":
            if value:
                problem = "value must be empty when `operator` is 'Exists'"
                yield api_errors.invalid_value(f"{at}.operator", toleration, problem)
        else:
            yield api_errors.not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect:
            yield from basics.choice(toleration, at, "effect", EFFECTS)


def label_value_errors(field: str, value: str) -> Iterator[FieldError]:
    """Check the value of a taint or toleration: Kubernetes reports all problems in one error."""
    problems = formats.label_value(value)
    yield from basics.invalid_values(field, value, [";".join(problems)] if problems else [])


def affinity_errors(affinity: Item, path: str) -> Iterator[FieldError]:
    node = affinity.get("nodeAffinity") or {}
    if node.get(_REQUIRED) is not None:
        yield from _node_selector_errors(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for term, at in basics.indexed(node.get(_PREFERRED), f"{path}.nodeAffinity.{_PREFERRED}"):
        yield from _weight_errors(term, at)
        yield from _node_term_errors(term.get("preference") or {}, f"{at}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for term, at in basics.indexed(pods.get(_REQUIRED), f"{path}.{kind}.{_REQUIRED}"):
            yield from _pod_term_errors(term, at)
        for term, at in basics.indexed(pods.get(_PREFERRED), f"{path}.{kind}.{_PREFERRED}"):
            yield from _weight_errors(term, at)
            yield from _pod_term_errors(term.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def spread_errors(constraints: list[Item] | None, path: str) -> Iterator[FieldError]:
    pairs = [(item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")) for item in constraints or ()]
    last_index = {pair: index for index, pair in enumerate(pairs)}
    for index, (constraint, at) in enumerate(basics.indexed(constraints, path)):
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            yield api_errors.invalid_value(f"{at}.maxSkew", skew, "must be greater than zero")
        if not constraint.get("topologyKey"):
            yield api_errors.required(f"{at}.topologyKey", "can not be empty")
        yield from basics.choice(constraint, at, "whenUnsatisfiable", _WHEN_UNSATISFIABLE)
        if index < last_index[pairs[index]]:
            shown = f"{{{', '.join(pairs[index])}}}"
            yield api_errors.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", shown)


def _weight_errors(term: Item, path: str) -> Iterator[FieldError]:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        yield api_errors.invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def _node_selector_errors(selector: Item, path: str) -> Iterator[FieldError]:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        yield api_errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for term, at in basics.indexed(terms, f"{path}.nodeSelectorTerms"):
        yield from _node_term_errors(term, at)


def _node_term_errors(term: Item, path: str) -> Iterator[FieldError]:
    for requirement, at in basics.indexed(term.get("matchExpressions"), f"{path}.matchExpressions"):
        if requirement.get("operator") not in ("Gt", "Lt"):
            yield from label_selectors.requirement_errors(requirement, at)
            continue
        if len(requirement.get("values") or ()) != 1:
            problem = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield api_errors.required(f"{at}.values", problem)
        yield from basics.format_errors(requirement, at, "key", formats.qualified_name)
    for requirement, at in basics.indexed(term.get("matchFields"), f"{path}.matchFields"):
        yield from _node_field_errors(requirement, at)


def _node_field_errors(requirement: Item, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield api_errors.invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        problem = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield api_errors.required(f"{path}.values", problem)
    if requirement.get("key") != "metadata.name":
        yield api_errors.invalid_value(
            f"{path}.key", requirement.get("key", ""), "not a valid field selector key"
        )
        return
    for value, at in basics.indexed(values, f"{path}.values"):
        yield from basics.invalid_values(at, value, formats.dns_subdomain(value))


def _pod_term_errors(term: Item, path: str) -> Iterator[FieldError]:
    yield from label_selectors.errors(term.get("labelSelector") or {}, f"{path}.labelSelector")
    for name in term.get("namespaces") or ():
        yield from basics.invalid_values(f"{path}.namespace", name, formats.dns_label(name))
    if not term.get("topologyKey"):
        yield api_errors.required(f"{path}.topologyKey", "can not be empty")
    yield from basics.format_errors(term, path, "topologyKey", formats.qualified_name)
