"""The strategy of Node."""

import ipaddress
from collections.abc import Iterator
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, resources, scheduling
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_INFO_FIELDS = (
    *("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"),
    *("kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"),
)
_SET_ONCE = ("podCIDR", "podCIDRs", "providerID")
_IMMUTABLE = "node updates may only change labels, taints, or capacity"


class NodeStrategy(Strategy):
    keeps_status_on_create = True

    def default(self, new: Object) -> None:
        """Set both podCIDR and podCIDRs if a client sets one of them. podCIDR is the first item of podCIDRs."""
        spec = new.setdefault("spec", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs"):
            spec["podCIDR"] = spec["podCIDRs"][0]

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        endpoints = {"kubeletEndpoint": {"Port": 0}}
        info = dict.fromkeys(_INFO_FIELDS, "")
        new["status"] = {"daemonEndpoints": endpoints, "nodeInfo": info, **new.get("status", {})}
        _default_allocatable(new["status"])

    def prepare_status(self, new: Object, old: Object) -> None:
        _default_allocatable(new.setdefault("status", {}))

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        yield from _taint_errors(spec.get("taints"))
        yield from _cidr_errors(spec.get("podCIDRs") or [])

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        spec, former = new.get("spec") or {}, old.get("spec") or {}
        for key, name in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if former.get(key) and spec.get(key) != former[key]:
                problem = f'node updates may not change {name} except from "" to valid'
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
        yield from basics.format_errors(taint, at, "key", formats.qualified_name)
        yield from scheduling.label_value_errors(f"{at}.value", taint.get("value", ""))
        yield from basics.required_choice(taint, at, "effect", scheduling.EFFECTS)
        pair = (taint.get("key", ""), taint.get("effect", ""))
        if pair in seen:
            error = api_errors.duplicate(at, taint)
            problem = "taints must be unique by key and effect pair"
            yield FieldError(error.field, error.reason, f"{error.message}: {problem}")
        seen.add(pair)


def _cidr_errors(ranges: list[str]) -> Iterator[FieldError]:
    for cidr, at in basics.indexed(ranges, "spec.podCIDRs"):
        if not _is_cidr(cidr):
            yield api_errors.invalid_value(at, ranges, "must be valid CIDR")
    families = [":" in cidr for cidr in ranges]
    if len(families) != len(set(families)):
        problem = "may specify no more than one CIDR for each IP family"
        yield api_errors.invalid_value("spec.podCIDRs", ranges, problem)


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _default_allocatable(status: Object) -> None:
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
