"""Validation of pod updates: a few spec fields and the status can change."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics

Spec = Mapping[str, Any]

_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MAX_INT32 = 2**31 - 1


def errors(new: Spec, old: Spec) -> Iterator[FieldError]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            problem = "pod updates may not add or remove containers"
            yield api_errors.forbidden_field(f"spec.{key}", problem)
            return
    yield from _deadline_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _toleration_errors(new.get("tolerations") or [], old.get("tolerations") or [])
    yield from _gate_errors(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if _with_old_mutable_fields(new, old) != old:
        yield api_errors.forbidden_field("spec", _IMMUTABLE)


def status_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    status, former = new.get("status") or {}, old.get("status") or {}
    policy = old["spec"].get("restartPolicy")
    for condition, at in basics.indexed(status.get("conditions"), "metadata.conditions"):
        kind = condition.get("type", "")
        yield from basics.invalid_values(f"{at}.Type", kind, formats.qualified_name(kind))
    nominated = status.get("nominatedNodeName", "")
    if nominated != former.get("nominatedNodeName", ""):
        yield from basics.optional_name("status.nominatedNodeName", nominated, formats.dns_subdomain)
    for key in ("containerStatuses", "initContainerStatuses"):
        yield from _restart_errors(status.get(key) or [], former.get(key) or [], policy, f"status.{key}")
    for address, at in basics.indexed(status.get("podIPs"), "status.podIPs"):
        yield from basics.invalid_values(at, address.get("ip", ""), formats.ip_address(address.get("ip", "")))


def _deadline_errors(new: int | None, old: int | None) -> Iterator[FieldError]:
    """Check that a deadline is added or shortened."""
    field = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield api_errors.invalid_value(
                field, "null", "must not update from a positive integer to nil value"
            )
        return
    problems = formats.between(new, 0, _MAX_INT32)
    yield from basics.invalid_values(field, new, problems)
    if not problems and old is not None and old < new:
        yield api_errors.invalid_value(field, new, "must be less than or equal to previous value")


def _toleration_errors(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> Iterator[FieldError]:
    kept = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in kept for toleration in old):
        problem = "existing toleration can not be modified except its tolerationSeconds"
        yield api_errors.forbidden_field("spec.tolerations", problem)


def _without_seconds(toleration: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _gate_errors(new: list[dict[str, Any]], old: list[dict[str, Any]]) -> Iterator[FieldError]:
    for gate in new:
        if gate not in old:
            problem = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield api_errors.forbidden_field("spec.schedulingGates", problem)


def _with_old_mutable_fields(new: Spec, old: Spec) -> dict[str, Any]:
    """Return the new spec with the values of the old one in all mutable fields."""
    spec = {**new}
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [
                {**container, "image": former.get("image")}
                for container, former in zip(spec[key], old.get(key) or (), strict=True)
            ]
    mutable = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        mutable.append("terminationGracePeriodSeconds")
    for key in mutable:
        spec.pop(key, None)
        if key in old:
            spec[key] = old[key]
    return spec


def _restart_errors(
    new: list[dict[str, Any]], old: list[dict[str, Any]], policy: str | None, path: str
) -> Iterator[FieldError]:
    """Reject a status in which a container that has terminated for good does not stay so."""
    if policy == "Always":
        return
    ended = {one.get("name") for one in new if "terminated" in (one.get("state") or {})}
    present = {one.get("name") for one in new}
    for status, at in basics.indexed(old, path):
        end = (status.get("state") or {}).get("terminated")
        may_restart = end is not None and policy == "OnFailure" and end.get("exitCode", 0) != 0
        if end is None or may_restart or status.get("name") not in present - ended:
            continue
        yield api_errors.forbidden_field(f"{at}.state", "may not be transitioned to non-terminated state")
