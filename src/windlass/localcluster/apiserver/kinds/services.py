"""The strategy of Service: fields that depend on its type. `service_addresses` allocates addresses and ports."""

from collections.abc import Iterator
from typing import Any

from windlass.k8s import api_errors
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import services
from windlass.localcluster.apiserver.kinds import service_addresses
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_AFFINITY_SECONDS = 10800
_EXTERNAL_TYPES = ("NodePort", "LoadBalancer")
_CLUSTER_IP_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
_EXTERNAL_TRAFFIC_FIELDS = ("externalTrafficPolicy", "healthCheckNodePort")


class ServiceStrategy(Strategy):
    allows_create_on_update = True
    returns_deleted_object = True

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        spec = new.setdefault("spec", {})
        _fill(spec)
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        new["status"] = {"loadBalancer": {}}
        _allocate(new, cluster)

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        spec, former = new.setdefault("spec", {}), old["spec"]
        _drop_fields_of_former_type(spec, former)
        _fill(spec)
        _carry_over(spec, former)
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
        return services.errors(new.get("spec") or {})

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        spec, former = new["spec"], old["spec"]
        if "ExternalName" in (spec["type"], former["type"]):
            return
        addresses, before = spec.get("clusterIPs") or [], former.get("clusterIPs") or []
        if before and addresses[:1] != before[:1]:
            yield api_errors.invalid_value("spec.clusterIPs[0]", addresses, "may not change once set")
        families, before = spec.get("ipFamilies") or [], former.get("ipFamilies") or []
        if before and families[:1] != before[:1] and former.get("clusterIP") != services.HEADLESS:
            yield api_errors.invalid_value("spec.ipFamilies[0]", families, "may not change once set")


def _ingress(service: Object) -> list[dict[str, Any]]:
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def _fill(spec: Object) -> None:
    kind = spec.get("type")
    if spec.get("sessionAffinity") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec.get("sessionAffinity") == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind in _EXTERNAL_TYPES:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _allocate(new: Object, cluster: ClusterView) -> None:
    spec, meta = new["spec"], new["metadata"]
    if spec.get("type") == "ExternalName":
        return
    # Validation errors are reported before anything is allocated.
    if [*services.errors(spec)]:
        return
    others = [
        service["spec"]
        for service in cluster.objects("", "services")
        if service["metadata"]["uid"] != meta["uid"]
    ]
    errors = [*service_addresses.set_ip_families(spec), *service_addresses.allocate_cluster_ip(spec, others)]
    if spec["type"] in _EXTERNAL_TYPES and spec.get("allocateLoadBalancerNodePorts", True):
        errors += service_addresses.allocate_node_ports(spec, others)
    if errors:
        raise api_errors.invalid("", "Service", meta.get("name", ""), errors)


def _drop_fields_of_former_type(spec: Object, former: Object) -> None:
    """Drop server-set fields that the new type of a service does not have and the client sent unchanged."""
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


def _carry_over(spec: Object, former: Object) -> None:
    """Keep allocated addresses and ports that the client omitted."""
    if "ExternalName" in (spec.get("type"), former["type"]):
        return
    if not spec.get("clusterIP"):
        for key in ("clusterIP", "clusterIPs"):
            if key in former:
                spec[key] = former[key]
    elif (
        spec["clusterIP"] != former.get("clusterIP")
        and spec.get("clusterIPs")
        in (
            None,
            former.get("clusterIPs"),
        )
    ) or not spec.get("clusterIPs"):
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
