"""The strategy of Node."""

import copy
import ipaddress
from collections.abc import Iterator
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, resources, scheduling
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_EMPTY_STATUS: Object = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(
        (
            "architecture",
            "bootID",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "kubeletVersion",
            "machineID",
            "operatingSystem",
            "osImage",
            "systemUUID",
        ),
        "",
    ),
}
_SET_ONCE = ("podCIDR", "podCIDRs", "providerID")
_IMMUTABLE = "node updates may only change labels, taints, or capacity"


class NodeStrategy(Strategy):
    keeps_status_on_create = True

    def default(self, new: Object) -> None:
        """Set both podCIDR and podCIDRs, of which podCIDR is the first, when a client sets one of them."""
        spec = new.setdefault("spec", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs"):
            spec["podCIDR"] = spec["podCIDRs"][0]

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        new["status"] = {**copy.deepcopy(_EMPTY_STATUS), **new.get("status", {})}
        _default_allocatable(new["status"])

    def prepare_status(self, new: Object, old: Object) -> None:
        _default_allocatable(new.setdefault("status", {}))

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        yield from _taint_errors(spec.get("taints"))
        yield from _cidr_errors(spec.get("podCIDRs") or [])

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        spec, former = new.get("spec") or {}, old.get("spec") or {}
        for key, word in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if former.get(key) and spec.get(key) != former[key]:
                problem = f'node updates may not change {word} except from "" to valid'
                yield api_errors.forbidden_field(f"spec.{key}", problem)
        may_change = {"taints", "unschedulable", "configSource"}
        may_change |= {key for key in _SET_ONCE if not former.get(key)}
        if any(spec.get(key) != former.get(key) for key in {*spec, *former} - may_change):
            yield api_errors.forbidden_field("[]", _IMMUTABLE)

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        status = new.get("status") or {}
        for key in ("capacity", "allocatable"):
            for name, amount in (status.get(key) or {}).items():
                yield from resources.amount_errors(name, amount, f"status.{key}.{name}")
        seen: list[Any] = []
        for address, at in basics.indexed(status.get("addresses"), "status.addresses"):
            if address in seen:
                yield api_errors.duplicate(at, address)
            seen.append(address)


def _taint_errors(taints: list[dict[str, Any]] | None) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for taint, at in basics.indexed(taints, "metadata.taints"):
        key, value, effect = (taint.get(field, "") for field in ("key", "value", "effect"))
        yield from basics.invalid_values(f"{at}.key", key, formats.qualified_name(key))
        problems = formats.label_value(value)
        yield from basics.invalid_values(f"{at}.value", value, [";".join(problems)] if problems else [])
        yield from basics.required_choice(f"{at}.effect", effect, scheduling.EFFECTS)
        if (key, effect) in seen:
            error = api_errors.duplicate(at, taint)
            problem = "taints must be unique by key and effect pair"
            yield FieldError(error.field, error.reason, f"{error.message}: {problem}")
        seen.add((key, effect))


def _cidr_errors(ranges: list[str]) -> Iterator[FieldError]:
    for written, at in basics.indexed(ranges, "spec.podCIDRs"):
        if not _is_cidr(written):
            yield api_errors.invalid_value(at, ranges, "must be valid CIDR")
    families = [":" in written for written in ranges]
    if len(families) != len(set(families)):
        problem = "may specify no more than one CIDR for each IP family"
        yield api_errors.invalid_value("spec.podCIDRs", ranges, problem)


def _is_cidr(written: str) -> bool:
    try:
        ipaddress.ip_network(written, strict=False)
    except ValueError:
        return False
    return "/" in written


def _default_allocatable(status: Object) -> None:
    """Default allocatable to capacity."""
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
