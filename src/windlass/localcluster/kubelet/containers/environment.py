"""The environment of a container: whole ConfigMaps and Secrets, then its own variables in order, then the services."""

import base64
from collections.abc import Iterator, Mapping

from windlass.localcluster.kubelet.containers import downward, errors, expansion, service_variables
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Facts, Lookup
from windlass.model.base import Json

_CONFIG_MAP = "ConfigMap"
_SECRET = "Secret"  # noqa: S105
_WHOLE = {"configMapRef": _CONFIG_MAP, "secretRef": _SECRET}
_KEYS = {"configMapKeyRef": _CONFIG_MAP, "secretKeyRef": _SECRET}


def environment(pod: Json, container: Json, lookup: Lookup, facts: Facts) -> dict[str, str]:
    """Bytes of a Secret that are no text come as surrogates, so that the process gets them as they are."""
    services = service_variables.of(pod, facts.services)
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found |= dict(_whole(source, lookup))
    for variable in container.get("env") or ():
        if variable.get("value"):
            found[variable["name"]] = expansion.expand(variable["value"], found, services)
            continue
        value = _value(variable, pod, container, lookup, facts)
        if value is not None:
            found[variable["name"]] = value
    complete = {**services, **found}
    for name, value in complete.items():
        if "\0" in value:
            message = f'environment variable "{name}" holds a NUL byte, which no process can be given'
            raise SetupError(message, errors.CREATE_ERROR)
    return complete


def _whole(source: Json, lookup: Lookup) -> Iterator[tuple[str, str]]:
    kind, reference = _referenced(source, _WHOLE)
    prefix = source.get("prefix", "")
    for key, value in _texts(kind, reference, lookup).items():
        yield f"{prefix}{key}", value


def _value(variable: Json, pod: Json, container: Json, lookup: Lookup, facts: Facts) -> str | None:
    """None when there is no such thing and the variable may do without."""
    source = variable.get("valueFrom")
    if source is None:
        return ""
    if "fieldRef" in source:
        return downward.field(pod, source["fieldRef"]["fieldPath"], facts)
    if "resourceFieldRef" in source:
        return downward.resource(pod, container, source["resourceFieldRef"], facts)
    if not any(key in source for key in _KEYS):
        message = f'variable "{variable["name"]}": values from {", ".join(source)} cannot be had here'
        raise SetupError(message)
    kind, reference = _referenced(source, _KEYS)
    value = _texts(kind, reference, lookup).get(reference["key"])
    if value is None and not reference.get("optional"):
        where = f"{pod['metadata']['namespace']}/{reference['name']}"
        raise SetupError(f"couldn't find key {reference['key']} in {kind} {where}")
    return value


def _referenced(source: Json, kinds: Mapping[str, str]) -> tuple[str, Json]:
    key = next(key for key in kinds if key in source)
    return kinds[key], source[key]


def _texts(kind: str, reference: Json, lookup: Lookup) -> dict[str, str]:
    """A ConfigMap's binary data never reaches the environment."""
    found = lookup(kind, reference["name"])
    if found is None and not reference.get("optional"):
        raise errors.not_found(kind, reference["name"])
    data: dict[str, str] = (found or {}).get("data") or {}
    if kind == _CONFIG_MAP:
        return data
    return {key: base64.b64decode(value).decode("utf-8", "surrogateescape") for key, value in data.items()}
