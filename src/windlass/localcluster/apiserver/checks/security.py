"""Validation of security contexts: IDs in range, no contradicting settings."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics

Context = Mapping[str, Any]
_MAX_ID = 2**31 - 1
_CHANGE_POLICIES = ("Always", "OnRootMismatch")


def container_errors(context: Context, path: str) -> Iterator[FieldError]:
    yield from _id_errors(context, path, "runAsUser", "runAsGroup")
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        problem = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield api_errors.invalid_value(path, context, problem)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        problem = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        yield api_errors.invalid_value(path, context, problem)


def pod_errors(spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Check the security context of a pod. `path` is that of the spec."""
    context, at = spec.get("securityContext") or {}, f"{path}.securityContext"
    if spec.get("hostNetwork"):
        yield from _host_network_port_errors(spec.get("containers") or [], f"{path}.containers")
    yield from _id_errors(context, at, "fsGroup", "runAsUser", "runAsGroup")
    for group, field in basics.indexed(context.get("supplementalGroups"), f"{at}.supplementalGroups"):
        yield from basics.invalid_values(field, group, formats.between(group, 0, _MAX_ID))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        problem = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield api_errors.invalid_value(f"{path}.shareProcessNamespace", True, problem)
    policy = context.get("fsGroupChangePolicy")
    yield from basics.optional_choice(f"{at}.fsGroupChangePolicy", policy, _CHANGE_POLICIES)


def _id_errors(context: Context, path: str, *keys: str) -> Iterator[FieldError]:
    for key in keys:
        value = context.get(key)
        if value is not None:
            yield from basics.invalid_values(f"{path}.{key}", value, formats.between(value, 0, _MAX_ID))


def _host_network_port_errors(containers: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    for container, at in basics.indexed(containers, path):
        for port, port_at in basics.indexed(container.get("ports"), f"{at}.ports"):
            if port.get("hostPort", 0) != port.get("containerPort", 0):
                problem = "must match `containerPort` when `hostNetwork` is true"
                yield api_errors.invalid_value(f"{port_at}.hostPort", port.get("hostPort", 0), problem)
