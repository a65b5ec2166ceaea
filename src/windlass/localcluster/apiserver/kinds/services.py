"""The strategy of Service: fields that depend on its type, validation, and the allocation of addresses and ports.

If the type of a service has a cluster IP or node ports, the service gets the requested ones or the lowest free ones.
Only IPv4 addresses are allocated.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

Spec = Mapping[str, Any]
HEADLESS = "None"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DEFAULT_AFFINITY_SECONDS = 10800
_MAX_AFFINITY_SECONDS = 86400
_EXTERNAL_TYPES = ("NodePort", "LoadBalancer")
_CLUSTER_IP_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
_EXTERNAL_TRAFFIC_FIELDS = ("externalTrafficPolicy", "healthCheckNodePort")
_CLUSTER_IPS = ipaddress.IPv4Network("10.96.0.0/16")
# In Kubernetes, the address of the service `kubernetes`. Here a service gets it only on request.
_RESERVED_IP = "10.96.0.1"
_NODE_PORTS = range(30000, 32768)
_FOR_LOAD_BALANCERS = "may only be used when `type` is 'LoadBalancer'"


class ServiceStrategy(Strategy):
    allows_create_on_update = True
    returns_deleted_object = True

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        spec = new.setdefault("spec", {})
        _set_defaults(spec)
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        new["status"] = {"loadBalancer": {}}
        _allocate(new, cluster)

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        spec, former = new.setdefault("spec", {}), old["spec"]
        _drop_fields_of_former_type(spec, former)
        _set_defaults(spec)
        _keep_allocations(spec, former)
        _allocate(new, cluster)

    def prepare_status(self, new: Object, old: Object) -> None:
        if old["spec"].get("type") != "LoadBalancer":
            return
        for ingress in _ingress(new):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        if _ingress(new) and old["spec"].get("type") != "LoadBalancer":
            problem = "may only be used when `spec.type` is 'LoadBalancer'"
            yield api_errors.forbidden_field("status.loadBalancer.ingress", problem)

    def validate(self, new: Object) -> Iterator[FieldError]:
        return _spec_errors(new.get("spec") or {})

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        spec, former = new["spec"], old["spec"]
        if "ExternalName" in (spec["type"], former["type"]):
            return
        addresses, before = spec.get("clusterIPs") or [], former.get("clusterIPs") or []
        if before and addresses[:1] != before[:1]:
            yield api_errors.invalid_value("spec.clusterIPs[0]", addresses, "may not change once set")
        families, before = spec.get("ipFamilies") or [], former.get("ipFamilies") or []
        if before and families[:1] != before[:1] and former.get("clusterIP") != HEADLESS:
            yield api_errors.invalid_value("spec.ipFamilies[0]", families, "may not change once set")


def _ingress(service: Object) -> list[dict[str, Any]]:
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def _set_defaults(spec: Object) -> None:
    service_type = spec.get("type")
    if spec.get("sessionAffinity") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec.get("sessionAffinity") == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _DEFAULT_AFFINITY_SECONDS}}
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if service_type in _EXTERNAL_TYPES:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if service_type == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if service_type != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _allocate(new: Object, cluster: ClusterView) -> None:
    spec, meta = new["spec"], new["metadata"]
    if spec.get("type") == "ExternalName":
        return
    # Nothing is allocated for an invalid spec: `validate` reports its errors later.
    if next(_spec_errors(spec), None) is not None:
        return
    others = [
        service["spec"]
        for service in cluster.objects("", "services")
        if service["metadata"]["uid"] != meta["uid"]
    ]
    errors = [*_set_ip_families(spec), *_allocate_cluster_ip(spec, others)]
    if spec["type"] in _EXTERNAL_TYPES and spec.get("allocateLoadBalancerNodePorts", True):
        errors += _allocate_node_ports(spec, others)
    if errors:
        raise api_errors.invalid("", "Service", meta.get("name", ""), errors)


def _drop_fields_of_former_type(spec: Object, former: Object) -> None:
    """Drop server-set fields that the new type of a service does not have and that the client sent unchanged."""
    if former["type"] != "ExternalName" and spec.get("type") == "ExternalName":
        _drop_unchanged(spec, former, _CLUSTER_IP_FIELDS)
    if former["type"] in _EXTERNAL_TYPES and spec.get("type") not in _EXTERNAL_TYPES:
        _drop_unchanged(spec, former, _EXTERNAL_TRAFFIC_FIELDS)
        allocated = {port.get("nodePort") for port in former.get("ports") or ()}
        for port in spec.get("ports") or ():
            if port.get("nodePort") in allocated:
                del port["nodePort"]
    if former["type"] == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_unchanged(spec, former, ("allocateLoadBalancerNodePorts",))


def _drop_unchanged(spec: Object, former: Object, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key in spec and spec[key] == former.get(key):
            del spec[key]


def _keep_allocations(spec: Object, former: Object) -> None:
    """Keep allocated addresses, IP families and node ports that the client omitted.

    If the client sent or changed only clusterIP, clusterIPs is derived from it.
    """
    if "ExternalName" in (spec.get("type"), former["type"]):
        return
    if not spec.get("clusterIP"):
        for key in ("clusterIP", "clusterIPs"):
            if key in former:
                spec[key] = former[key]
    elif not spec.get("clusterIPs") or (
        spec["clusterIP"] != former.get("clusterIP") and spec["clusterIPs"] == former.get("clusterIPs")
    ):
        spec["clusterIPs"] = [spec["clusterIP"]]
    for key in ("ipFamilies", "ipFamilyPolicy"):
        if key in former:
            spec.setdefault(key, former[key])
    if spec.get("type") in _EXTERNAL_TYPES:
        _keep_node_ports(spec.get("ports") or [], former.get("ports") or [])


def _keep_node_ports(ports: list[dict[str, Any]], former: list[dict[str, Any]]) -> None:
    allocated = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in former}
    for port in ports:
        number = allocated.get((port.get("protocol"), port.get("port")))
        if number and not port.get("nodePort"):
            port["nodePort"] = number


# Validation


def _spec_errors(spec: Spec) -> Iterator[FieldError]:
    service_type = spec.get("type", "")
    is_headless = spec.get("clusterIPs") == [HEADLESS]
    if not spec.get("ports") and not is_headless and service_type != "ExternalName":
        yield api_errors.required("spec.ports")
    if is_headless and service_type in _EXTERNAL_TYPES:
        problem = f"may not be set to 'None' for {service_type} services"
        yield api_errors.invalid_value("spec.clusterIPs[0]", HEADLESS, problem)
    if service_type == "ExternalName":
        yield from _external_name_errors(spec)
    yield from _port_errors(spec.get("ports") or [], service_type)
    yield from metadata.label_errors(spec.get("selector"), "spec.selector")
    yield from basics.required_choice(spec, "spec", "sessionAffinity", _AFFINITIES)
    yield from _affinity_errors(spec)
    if service_type != "ExternalName":
        yield from _address_errors(spec)
    for address, at in basics.indexed(spec.get("externalIPs"), "spec.externalIPs"):
        problems = formats.ip_address(address)
        yield from basics.invalid_values(at, address, problems)
        if not problems:
            yield from basics.non_special_ip(at, address)
    yield from basics.required_choice(spec, "spec", "type", _TYPES)
    yield from _traffic_errors(spec, service_type)


def _external_name_errors(spec: Spec) -> Iterator[FieldError]:
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            yield api_errors.forbidden_field(f"spec.{key}", "may not be set for ExternalName services")
    name = {"externalName": spec.get("externalName", "").removesuffix(".")}
    yield from basics.required_name(name, "spec", "externalName", formats.dns_subdomain)


def _port_errors(ports: list[Spec], service_type: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for port, at in basics.indexed(ports, "spec.ports"):
        name = port.get("name", "")
        check_name = basics.required_name if len(ports) > 1 else basics.optional_name
        yield from check_name(port, at, "name", formats.dns_label)
        if name:
            yield from basics.unique(f"{at}.name", name, names)
        yield from basics.port_errors(port, at, "port")
        yield from basics.required_choice(port, at, "protocol", basics.PROTOCOLS)
        yield from basics.port_errors(port, at, "targetPort")
        if service_type == "ClusterIP" and port.get("nodePort"):
            yield api_errors.forbidden_field(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
    yield from _duplicate_port_errors(ports, "nodePort")
    yield from _duplicate_port_errors(ports, "port")


def _duplicate_port_errors(ports: list[Spec], key: str) -> Iterator[FieldError]:
    taken: set[tuple[str, int]] = set()
    for port, at in basics.indexed(ports, "spec.ports"):
        if not port.get(key):
            continue
        protocol, number = port.get("protocol", ""), port[key]
        if (protocol, number) in taken:
            yield (
                api_errors.duplicate(at, {"protocol": protocol, "port": number})
                if key == "port"
                else api_errors.duplicate(f"{at}.{key}", number)
            )
        taken.add((protocol, number))


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
        if family not in _FAMILIES:
            yield api_errors.not_supported(at, family, _FAMILIES)
    yield from basics.optional_choice(spec, "spec", "ipFamilyPolicy", _FAMILY_POLICIES)
    if HEADLESS in addresses[:1] and len(addresses) > 1:
        yield api_errors.invalid_value(
            "spec.clusterIPs", addresses, "'None' must be the first and only value"
        )
    for one, at in basics.indexed(addresses, "spec.clusterIPs"):
        if one != HEADLESS or at != "spec.clusterIPs[0]":
            yield from basics.invalid_values(at, one, formats.ip_address(one))
    if len(addresses) > 2:
        yield api_errors.invalid_value("spec.clusterIPs", addresses, "may only hold up to 2 values")


def _traffic_errors(spec: Spec, service_type: str) -> Iterator[FieldError]:
    external_policy = spec.get("externalTrafficPolicy")
    if external_policy is not None and service_type not in _EXTERNAL_TYPES:
        problem = "may only be set for externally-accessible services"
        yield api_errors.invalid_value("spec.externalTrafficPolicy", external_policy, problem)
    else:
        yield from basics.optional_choice(spec, "spec", "externalTrafficPolicy", _TRAFFIC_POLICIES)
    yield from basics.optional_choice(spec, "spec", "internalTrafficPolicy", _TRAFFIC_POLICIES)
    if service_type == "LoadBalancer":
        return
    if spec.get("allocateLoadBalancerNodePorts") is not None:
        yield api_errors.forbidden_field("spec.allocateLoadBalancerNodePorts", _FOR_LOAD_BALANCERS)
    if spec.get("loadBalancerSourceRanges"):
        yield api_errors.forbidden_field("spec.LoadBalancerSourceRanges", _FOR_LOAD_BALANCERS)


# Allocation


def _set_ip_families(spec: Object) -> Iterator[FieldError]:
    """Set the IP families and their policy if absent, and yield errors for those that the cluster does not support.

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


def _allocate_cluster_ip(spec: Object, others: Iterable[Spec]) -> Iterator[FieldError]:
    requested = spec.get("clusterIP")
    if requested == HEADLESS:
        return
    taken = {other.get("clusterIP") for other in others}
    if not requested:
        unavailable = {*taken, _RESERVED_IP}
        free = next((str(one) for one in _CLUSTER_IPS.hosts() if str(one) not in unavailable), None)
        if free is None:
            yield api_errors.forbidden_field("spec.clusterIP", "all addresses are taken")
        else:
            spec |= {"clusterIP": free, "clusterIPs": [free]}
        return
    if ipaddress.ip_address(requested) not in _CLUSTER_IPS:
        problem = "the provided network does not match the current range"
    elif requested in taken:
        problem = "provided IP is already allocated"
    else:
        return
    field, value = "spec.clusterIPs", spec.get("clusterIPs")
    yield api_errors.invalid_value(field, value, f"failed to allocate IP {requested}: {problem}")


def _allocate_node_ports(spec: Object, others: Iterable[Spec]) -> Iterator[FieldError]:
    taken = {pair for other in others for pair in _node_ports(other.get("ports"))}
    taken |= {("TCP", other["healthCheckNodePort"]) for other in others if other.get("healthCheckNodePort")}
    for port, at in basics.indexed(spec.get("ports"), "spec.ports"):
        if port.get("nodePort"):
            yield from _node_port_errors(port, taken, f"{at}.nodePort")
            taken |= _node_ports([port])
    # Each search for a free port continues where the last one ended.
    free = {protocol: _free_node_ports(protocol, taken) for protocol in basics.PROTOCOLS}
    for port in spec.get("ports") or ():
        if not port.get("nodePort"):
            errors = [*_allocate_port(port, "nodePort", free[port["protocol"]], "spec.ports")]
            yield from errors
            if errors:
                break
    needs_health_check = spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if needs_health_check and not spec.get("healthCheckNodePort"):
        yield from _allocate_port(spec, "healthCheckNodePort", free["TCP"], "spec.healthCheckNodePort")


def _free_node_ports(protocol: str, taken: set[tuple[str, int]]) -> Iterator[int]:
    return (number for number in _NODE_PORTS if (protocol, number) not in taken)


def _allocate_port(holder: Object, key: str, free: Iterator[int], field: str) -> Iterator[FieldError]:
    number = next(free, None)
    if number is None:
        yield api_errors.forbidden_field(field, "all node ports are taken")
    else:
        holder[key] = number


def _node_port_errors(port: Spec, taken: set[tuple[str, int]], field: str) -> Iterator[FieldError]:
    number = port["nodePort"]
    if number not in _NODE_PORTS:
        valid = f"{_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
        problem = f"provided port is not in the valid range. The range of valid ports is {valid}"
        yield api_errors.invalid_value(field, number, problem)
    elif (port.get("protocol", ""), number) in taken:
        yield api_errors.invalid_value(field, number, "provided port is already allocated")


def _node_ports(ports: Iterable[Spec] | None) -> set[tuple[str, int]]:
    """Return the allocated node ports, with their protocols."""
    return {(port.get("protocol", ""), port["nodePort"]) for port in ports or () if port.get("nodePort")}
