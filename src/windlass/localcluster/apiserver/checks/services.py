"""Validation of Service specs."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.checks import basics

Spec = Mapping[str, Any]

HEADLESS = "None"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_MAX_AFFINITY_SECONDS = 86400


def errors(spec: Spec) -> Iterator[FieldError]:
    kind = spec.get("type", "")
    is_headless = spec.get("clusterIPs") == [HEADLESS]
    if not spec.get("ports") and not is_headless and kind != "ExternalName":
        yield api_errors.required("spec.ports")
    if is_headless and kind in ("LoadBalancer", "NodePort"):
        problem = f"may not be set to 'None' for {kind} services"
        yield api_errors.invalid_value("spec.clusterIPs[0]", HEADLESS, problem)
    if kind == "ExternalName":
        yield from _external_name_errors(spec)
    yield from _port_errors(spec.get("ports") or [], kind)
    yield from metadata.label_errors(spec.get("selector"), "spec.selector")
    yield from basics.required_choice("spec.sessionAffinity", spec.get("sessionAffinity"), _AFFINITIES)
    yield from _affinity_errors(spec)
    if kind != "ExternalName":
        yield from _address_errors(spec)
    for address, at in basics.indexed(spec.get("externalIPs"), "spec.externalIPs"):
        problems = formats.ip_address(address)
        yield from basics.invalid_values(at, address, problems)
        if not problems:
            yield from basics.non_special_ip(at, address)
    yield from basics.required_choice("spec.type", kind, _TYPES)
    yield from _traffic_errors(spec, kind)


def _external_name_errors(spec: Spec) -> Iterator[FieldError]:
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            yield api_errors.forbidden_field(f"spec.{key}", "may not be set for ExternalName services")
    name = spec.get("externalName", "").removesuffix(".")
    yield from basics.required_name("spec.externalName", name, formats.dns_subdomain)


def _port_errors(ports: list[Spec], kind: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for port, at in basics.indexed(ports, "spec.ports"):
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield api_errors.required(f"{at}.name")
        yield from basics.optional_name(f"{at}.name", name, formats.dns_label)
        if name and name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        names.add(name)
        number = port.get("port", 0)
        yield from basics.invalid_values(f"{at}.port", number, formats.port_number(number))
        yield from basics.required_choice(f"{at}.protocol", port.get("protocol"), basics.PROTOCOLS)
        yield from basics.port_errors(f"{at}.targetPort", port.get("targetPort", 0))
        if kind == "ClusterIP" and port.get("nodePort"):
            yield api_errors.forbidden_field(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
    yield from _duplicate_port_errors(ports, "nodePort")
    yield from _duplicate_port_errors(ports, "port")


def _duplicate_port_errors(ports: list[Spec], key: str) -> Iterator[FieldError]:
    taken: set[tuple[str, int]] = set()
    for port, at in basics.indexed(ports, "spec.ports"):
        if not port.get(key):
            continue
        place = (port.get("protocol", ""), port[key])
        if place in taken and key == "port":
            yield api_errors.duplicate(at, {"protocol": place[0], "port": place[1]})
        elif place in taken:
            yield api_errors.duplicate(f"{at}.{key}", place[1])
        taken.add(place)


def _affinity_errors(spec: Spec) -> Iterator[FieldError]:
    if spec.get("sessionAffinity") != "ClientIP":
        return
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        problem = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        yield api_errors.invalid_value(field, seconds, problem)


def _address_errors(spec: Spec) -> Iterator[FieldError]:
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if address and addresses[:1] != [address]:
        yield api_errors.invalid_value("spec.clusterIPs", addresses, "element [0] must match clusterIP")
    if not address and addresses:
        yield api_errors.invalid_value("spec.clusterIPs", addresses, "must be empty when clusterIP is empty")
    for family, at in basics.indexed(spec.get("ipFamilies"), "spec.ipFamilies"):
        yield from basics.optional_choice(at, family, _FAMILIES)
    yield from basics.optional_choice("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)
    if HEADLESS in addresses[:1] and len(addresses) > 1:
        yield api_errors.invalid_value(
            "spec.clusterIPs", addresses, "'None' must be the first and only value"
        )
    for one, at in basics.indexed(addresses, "spec.clusterIPs"):
        if one != HEADLESS or at != "spec.clusterIPs[0]":
            yield from basics.invalid_values(at, one, formats.ip_address(one))
    if len(addresses) > 2:
        yield api_errors.invalid_value("spec.clusterIPs", addresses, "may only hold up to 2 values")


def _traffic_errors(spec: Spec, kind: str) -> Iterator[FieldError]:
    outside, inside = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if outside is not None and kind not in ("LoadBalancer", "NodePort"):
        problem = "may only be set for externally-accessible services"
        yield api_errors.invalid_value("spec.externalTrafficPolicy", outside, problem)
    else:
        yield from basics.optional_choice("spec.externalTrafficPolicy", outside, _TRAFFIC_POLICIES)
    yield from basics.optional_choice("spec.internalTrafficPolicy", inside, _TRAFFIC_POLICIES)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        problem = "may only be used when `type` is 'LoadBalancer'"
        yield api_errors.forbidden_field("spec.allocateLoadBalancerNodePorts", problem)
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        problem = "may only be used when `type` is 'LoadBalancer'"
        yield api_errors.forbidden_field("spec.LoadBalancerSourceRanges", problem)
