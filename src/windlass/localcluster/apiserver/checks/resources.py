"""Validation of resource requests and limits."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats, quantities
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics

_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_COUNTED_RESOURCES = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
_OTHER_STANDARD_RESOURCES = (
    "storage",
    *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER_RESOURCES),
)
_HUGE_PAGES = "hugepages-"


def errors(resources: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Check the limits and requests of a container. The overhead of a pod is checked as limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _name_errors(name, f"{path}.limits[{name}]")
        yield from amount_errors(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        yield from _name_errors(name, f"{path}.requests[{name}]")
        yield from amount_errors(name, amount, f"{path}.requests[{name}]")
        yield from _limit_errors(name, amount, limits.get(name), path)
    names = {*limits, *requests}
    if any(map(_is_huge_page, names)) and not names & {"cpu", "memory"}:
        yield api_errors.forbidden_field(path, "HugePages require cpu or memory")


def amount_errors(name: str, amount: str, field: str) -> Iterator[FieldError]:
    """Check that an amount is not negative, and an integer where only integers are valid."""
    value = quantities.parse(amount)
    if value < 0:
        yield api_errors.invalid_value(field, quantities.canonical(amount), basics.NOT_NEGATIVE)
    if (name in _COUNTED_RESOURCES or _is_extended(name)) and value % 1:
        yield api_errors.invalid_value(field, quantities.canonical(amount), "must be an integer")


def _limit_errors(name: str, amount: str, limit: str | None, path: str) -> Iterator[FieldError]:
    """Compare a request with the limit of the same resource."""
    may_overcommit = _is_native(name) and not _is_huge_page(name)
    if limit is None:
        if not may_overcommit:
            problem = "Limit must be set for non overcommitable resources"
            yield api_errors.required(f"{path}.limits", problem)
        return
    excess = quantities.parse(amount) - quantities.parse(limit)
    if excess > 0 or (excess and not may_overcommit):
        relation = "less than or equal to" if may_overcommit else "equal to"
        problem = f"must be {relation} {name} limit of {quantities.canonical(limit)}"
        yield api_errors.invalid_value(f"{path}.requests", quantities.canonical(amount), problem)


def _name_errors(name: str, field: str) -> Iterator[FieldError]:
    problems = formats.qualified_name(name)
    yield from basics.invalid_values(field, name, problems)
    if "/" not in name:
        if name in _CONTAINER_RESOURCES or _is_huge_page(name):
            return
        if not problems and name not in (*_COUNTED_RESOURCES, *_OTHER_STANDARD_RESOURCES):
            problem = "must be a standard resource type or fully qualified"
            yield api_errors.invalid_value(field, name, problem)
        yield api_errors.invalid_value(field, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        yield api_errors.invalid_value(field, name, "doesn't follow extended resource name standard")


def _is_huge_page(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Return whether this is an extended resource, e.g. `nvidia.com/gpu`."""
    return not (
        _is_native(name) or name.startswith("requests.") or formats.qualified_name(f"requests.{name}")
    )
