"""Allocation of cluster IPs and node ports: the requested or the lowest free one. IPv4 only."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.checks.services import HEADLESS
from windlass.localcluster.apiserver.strategy import Object

_CLUSTER_IPS = ipaddress.IPv4Network("10.96.0.0/16")
# The address of the API server.
_RESERVED = "10.96.0.1"
_NODE_PORTS = range(30000, 32768)

Spec = Mapping[str, Any]


def set_ip_families(spec: Object) -> Iterator[FieldError]:
    """Set the IP families and their policy.

    A headless service without a selector gets no addresses from the cluster and can therefore have both families.
    """
    has_no_addresses = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if has_no_addresses else "SingleStack")
    families = spec.setdefault("ipFamilies", ["IPv4"])
    if has_no_addresses:
        if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            spec["ipFamilies"] = [*families, "IPv6" if families == ["IPv4"] else "IPv4"]
        return
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        problem = "this cluster is not configured for dual-stack services"
        yield api_errors.invalid_value("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], problem)
    for family, at in basics.indexed(spec["ipFamilies"], "spec.ipFamilies"):
        if family != "IPv4":
            yield api_errors.invalid_value(at, family, "not configured on this cluster")


def allocate_cluster_ip(spec: Object, others: Iterable[Spec]) -> Iterator[FieldError]:
    requested = spec.get("clusterIP")
    if requested == HEADLESS:
        return
    taken = {other.get("clusterIP") for other in others}
    if not requested:
        unavailable = {*taken, _RESERVED}
        free = next((str(one) for one in _CLUSTER_IPS.hosts() if str(one) not in unavailable), None)
        if free is None:
            yield api_errors.forbidden_field("spec.clusterIP", "all addresses are taken")
            return
        spec["clusterIP"] = free
        spec["clusterIPs"] = [free]
        return
    if ipaddress.ip_address(requested) not in _CLUSTER_IPS:
        problem = "the provided network does not match the current range"
    elif requested in taken:
        problem = "provided IP is already allocated"
    else:
        return
    field, value = "spec.clusterIPs", spec.get("clusterIPs")
    yield api_errors.invalid_value(field, value, f"failed to allocate IP {requested}: {problem}")


def allocate_node_ports(spec: Object, others: Iterable[Spec]) -> Iterator[FieldError]:
    taken = {
        _protocol_and_port(port)
        for other in others
        for port in other.get("ports") or ()
        if port.get("nodePort")
    }
    taken |= {("TCP", other["healthCheckNodePort"]) for other in others if other.get("healthCheckNodePort")}
    for port, at in basics.indexed(spec.get("ports"), "spec.ports"):
        if port.get("nodePort"):
            yield from _node_port_errors(port, taken, f"{at}.nodePort")
            taken.add(_protocol_and_port(port))
    for port in spec.get("ports") or ():
        if not port.get("nodePort"):
            number = _free_port(port.get("protocol", ""), taken)
            if number is None:
                yield api_errors.forbidden_field("spec.ports", "all node ports are taken")
                return
            port["nodePort"] = number
            taken.add(_protocol_and_port(port))
    needs_health_check = spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if needs_health_check and not spec.get("healthCheckNodePort"):
        number = _free_port("TCP", taken)
        if number is None:
            yield api_errors.forbidden_field("spec.healthCheckNodePort", "all node ports are taken")
            return
        spec["healthCheckNodePort"] = number


def _free_port(protocol: str, taken: set[tuple[str, int]]) -> int | None:
    return next((number for number in _NODE_PORTS if (protocol, number) not in taken), None)


def _node_port_errors(port: Spec, taken: set[tuple[str, int]], field: str) -> Iterator[FieldError]:
    number = port["nodePort"]
    if number not in _NODE_PORTS:
        valid = f"{_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
        problem = f"provided port is not in the valid range. The range of valid ports is {valid}"
        yield api_errors.invalid_value(field, number, problem)
    elif _protocol_and_port(port) in taken:
        yield api_errors.invalid_value(field, number, "provided port is already allocated")


def _protocol_and_port(port: Spec) -> tuple[str, int]:
    return port.get("protocol", ""), port["nodePort"]
