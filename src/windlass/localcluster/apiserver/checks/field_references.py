"""Validation of `fieldRef` and `resourceFieldRef`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats, quantities
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics

_IDENTITY = ("metadata.name", "metadata.namespace", "metadata.uid")
_SUBSCRIPTABLE = ("metadata.annotations", "metadata.labels")
ENVIRONMENT_FIELDS = (
    *_IDENTITY,
    *("spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
VOLUME_FIELDS = (*_SUBSCRIPTABLE, *_IDENTITY)
_SUPPORTED = {*ENVIRONMENT_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]")

_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_CPU_DIVISORS = ("1m", "1")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {
    "cpu": (_CPU_DIVISORS, "values 1m and 1 are supported with the cpu resource"),
    "memory": (_BYTE_DIVISORS, f"values {', '.join(_BYTE_DIVISORS)} are supported with the memory resource"),
    "ephemeral-storage": (
        _BYTE_DIVISORS,
        f"values {', '.join(_BYTE_DIVISORS)} are supported with the local ephemeral storage resource",
    ),
}


def field_ref_errors(source: Mapping[str, Any], path: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    """Check the `fieldRef` of an environment variable or a file."""
    reference, path = source["fieldRef"], f"{path}.fieldRef"
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version or not field:
        yield api_errors.required(f"{path}.apiVersion" if not version else f"{path}.fieldPath")
        return
    subscript = _SUBSCRIPT.fullmatch(field)
    problem = _conversion_error(version, field, subscript)
    if problem:
        yield api_errors.invalid_value(f"{path}.fieldPath", field, f"error converting fieldPath: {problem}")
    elif subscript:
        key = subscript[2]
        lowered = key.lower() if subscript[1] == "metadata.annotations" else key
        yield from basics.invalid_values(path, key, formats.qualified_name(lowered))
    elif field not in allowed:
        yield api_errors.not_supported(f"{path}.fieldPath", field, allowed)


def resource_field_ref_errors(
    source: Mapping[str, Any], path: str, *, in_volume: bool = False
) -> Iterator[FieldError]:
    reference, path = source["resourceFieldRef"], f"{path}.resourceFieldRef"
    resource = reference.get("resource", "")
    if in_volume and not reference.get("containerName"):
        yield api_errors.required(f"{path}.containerName")
    elif not resource:
        yield api_errors.required(f"{path}.resource")
    elif resource not in _RESOURCES:
        yield api_errors.not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = quantities.canonical(reference.get("divisor") or "0")
    supported, detail = _DIVISORS.get(resource.partition(".")[2], ((), ""))
    if detail and divisor != "0" and divisor not in supported:
        yield api_errors.invalid_value(f"{path}.divisor", resource, f"only divisor's {detail}")


def _conversion_error(version: str, field: str, subscript: re.Match[str] | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscript:
        return "" if subscript[1] in _SUBSCRIPTABLE else f"field label does not support subscript: {field}"
    return "" if field in _SUPPORTED else f"field label not supported: {field}"
