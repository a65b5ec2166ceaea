"""Services: allocation of addresses and ports, and changes of the type."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver.kinds import services

Object = dict[str, Any]


def service(name: str = "s", **spec: Any) -> Object:
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{"port": 80}]} | spec,
    }


def setting(**fields: Any) -> Callable[[Object], object]:
    return lambda obj: obj["spec"].update(fields)


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        pytest.param(
            service(),
            {
                "type": "ClusterIP",
                "clusterIP": "10.96.0.2",
                "clusterIPs": ["10.96.0.2"],
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
                "sessionAffinity": "None",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            },
            id="plain",
        ),
        pytest.param(
            service(clusterIP="None", selector={"a": "b"}, ports=[]),
            {
                "type": "ClusterIP",
                "clusterIP": "None",
                "clusterIPs": ["None"],
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
                "sessionAffinity": "None",
                "selector": {"a": "b"},
            },
            id="headless",
        ),
        pytest.param(
            service(type="NodePort", ports=[{"port": 80, "targetPort": "web"}]),
            {
                "type": "NodePort",
                "clusterIP": "10.96.0.2",
                "clusterIPs": ["10.96.0.2"],
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
                "externalTrafficPolicy": "Cluster",
                "sessionAffinity": "None",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": "web", "nodePort": 30000}],
            },
            id="node port",
        ),
        pytest.param(
            service(type="ExternalName", externalName="a.b", ports=[]),
            {"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"},
            id="external name",
        ),
    ],
)
def test_service_defaults(cluster: Any, given: Object, spec: Object) -> None:
    created = cluster.create(given)
    assert created["spec"] == spec
    assert created["status"] == {"loadBalancer": {}}


def test_addresses_and_ports_are_allocated_once(cluster: Any) -> None:
    first, second = (cluster.create(service(name, type="NodePort")) for name in ("a", "b"))
    wanted = cluster.create(service("c", clusterIP="10.96.7.7"))
    assert [one["spec"]["clusterIP"] for one in (first, second, wanted)] == [
        "10.96.0.2",
        "10.96.0.3",
        "10.96.7.7",
    ]
    assert [one["spec"]["ports"][0]["nodePort"] for one in (first, second)] == [30000, 30001]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            service(clusterIP="10.96.0.2"),
            (
                'spec.clusterIPs: Invalid value: ["10.96.0.2"]: failed to allocate IP 10.96.0.2: provided IP is already'
                " allocated"
            ),
        ),
        (
            service(clusterIP="1.2.3.4"),
            (
                'spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the provided network does'
                " not match the current range"
            ),
        ),
        (
            service(type="NodePort", ports=[{"port": 1, "nodePort": 30000}]),
            "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated",
        ),
        (
            service(type="NodePort", ports=[{"port": 1, "nodePort": 5}]),
            (
                "spec.ports[0].nodePort: Invalid value: 5: provided port is not in the valid range. The range of valid"
                " ports is 30000-32767"
            ),
        ),
        (
            service(ipFamilyPolicy="RequireDualStack"),
            (
                'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack'
                " services"
            ),
        ),
        (
            service(externalTrafficPolicy="Local"),
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
        ),
        (
            service(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
            'spec.ports[1]: Duplicate value: {"protocol":"TCP","port":80}',
        ),
    ],
)
def test_unavailable_addresses_and_ports_are_rejected(cluster: Any, given: Object, error: str) -> None:
    cluster.create(service("taken", type="NodePort"))
    assert cluster.create_errors(given) == [error]


@pytest.mark.parametrize("address", ["10.96.9.9", "None"])
def test_cluster_ip_is_immutable(cluster: Any, address: str) -> None:
    created = cluster.create(service())
    assert cluster.update_errors(created, setting(clusterIP=address)) == [
        f'spec.clusterIPs[0]: Invalid value: ["{address}"]: may not change once set'
    ]


def test_update_keeps_omitted_allocations(cluster: Any) -> None:
    created = cluster.create(service(type="NodePort"))
    updated = cluster.update(created, lambda obj: obj.update(spec=service(type="NodePort")["spec"]))
    assert updated["spec"] == created["spec"]


def test_type_changes_to_external_name_and_back(cluster: Any) -> None:
    created = cluster.create(service())
    named = cluster.update(created, setting(type="ExternalName", externalName="a.b"))
    assert {"clusterIP", "clusterIPs", "ipFamilies"} & named["spec"].keys() == set()
    back = cluster.update(named, lambda obj: obj.update(spec=service()["spec"]))
    assert back["spec"] == created["spec"]


def test_type_change_releases_node_port(cluster: Any) -> None:
    created = cluster.create(service(type="NodePort"))
    updated = cluster.update(created, setting(type="ClusterIP"))
    assert updated["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert "externalTrafficPolicy" not in updated["spec"]


class CountedPorts:
    """A range of node ports that counts how many of them are looked at."""

    def __init__(self, ports: range) -> None:
        self._ports = ports
        self.count = 0

    def __iter__(self) -> Iterator[int]:
        for port in self._ports:
            self.count += 1
            yield port


def test_search_for_node_ports_looks_at_each_port_once(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedPorts(range(30_000, 30_100))
    monkeypatch.setattr(services, "_NODE_PORTS", counted)
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 201)]
    created = cluster.create(service(type="NodePort", ports=ports[:100]))
    assert [port["nodePort"] for port in created["spec"]["ports"]] == [*range(30_000, 30_100)]
    with pytest.raises(ApiError) as raised:
        cluster.create(service("b", type="NodePort", ports=ports))
    assert raised.value.message.endswith("is invalid: spec.ports: Forbidden: all node ports are taken")
    assert counted.count == 200
