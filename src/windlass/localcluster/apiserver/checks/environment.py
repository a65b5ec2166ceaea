"""The environment of a container: names, and values from one place each."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics, field_references

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_MORE_THAN_ONE = "may not have more than one field specified at a time"


def faults(variables: list[dict[str, Any]] | None, path: str) -> Iterator[Fault]:
    for variable, at in basics.indexed(variables, path):
        yield from basics.named(f"{at}.name", variable.get("name"), formats.environment_name)
        if variable.get("valueFrom") is not None:
            yield from _value_faults(variable, variable["valueFrom"], f"{at}.valueFrom")


def source_faults(sources: list[dict[str, Any]] | None, path: str) -> Iterator[Fault]:
    """`envFrom`: whole ConfigMaps and Secrets."""
    for source, at in basics.indexed(sources, path):
        yield from basics.optionally_named(f"{at}.prefix", source.get("prefix"), formats.environment_name)
        given = [key for key in ("configMapRef", "secretRef") if key in source]
        for key in given:
            yield from basics.named(f"{at}.{key}.name", source[key].get("name"), formats.dns_subdomain)
        if not given:
            yield api_errors.invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield api_errors.invalid_value(path, "", _MORE_THAN_ONE)


def _value_faults(variable: Mapping[str, Any], source: Mapping[str, Any], path: str) -> Iterator[Fault]:
    given = [key for key in _SOURCES if key in source]
    if "fieldRef" in given:
        allowed = field_references.IN_ENVIRONMENT
        yield from field_references.of_a_field(source["fieldRef"], f"{path}.fieldRef", allowed)
    if "resourceFieldRef" in given:
        yield from field_references.of_a_resource(source["resourceFieldRef"], f"{path}.resourceFieldRef")
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in given:
            yield from _key_faults(source[key], f"{path}.{key}")
    if not given:
        *others, last = (f"`{source}`" for source in _SOURCES)
        problem = f"must specify one of: {', '.join(others)} or {last}"
        yield api_errors.invalid_value(path, "", problem)
    elif variable.get("value"):
        yield api_errors.invalid_value(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield api_errors.invalid_value(path, "", _MORE_THAN_ONE)


def _key_faults(reference: Mapping[str, Any], path: str) -> Iterator[Fault]:
    name = reference.get("name", "")
    yield from basics.each(f"{path}.name", name, formats.dns_subdomain(name))
    yield from basics.named(f"{path}.key", reference.get("key"), formats.data_key)
