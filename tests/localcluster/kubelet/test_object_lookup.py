"""Lookup of the objects that a pod depends on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.kubelet import object_lookup
from windlass.localcluster.kubelet.containers.network_files import Entry
from windlass.localcluster.kubelet.object_lookup import ObjectLookup
from windlass.localcluster.server import ApiServer
from windlass.model.base import Json

POD: Json = {"metadata": {"name": "me", "namespace": "default"}, "spec": {"nodeName": "n0"}}
API = (
    "10.88.0.1",
    ("kubernetes.default.svc.cluster.local", "kubernetes.default.svc", "kubernetes.default", "kubernetes"),
)


class Cluster:
    def __init__(self, data: Path) -> None:
        self.server = ApiServer(data)
        self.lifecycle = self.server.lifecycle
        self.address: tuple[str, int] | None = ("10.88.0.1", 6443)
        self.surroundings = ObjectLookup(self.lifecycle, lambda _: self.address, lambda: "CERTIFICATE")

    def create(self, resource: str, name: str, **obj: Any) -> None:
        namespace = "" if resource == "nodes" else "default"
        body = {"metadata": {"name": name, **obj.pop("metadata", {})}, **obj}
        self.lifecycle.create(self._kind(resource), namespace, body, WriteOptions())
        self.server.store.commit()

    def add_pod(
        self, name: str, address: str = "", ready: bool = False, phase: str = "Running", **spec: Any
    ) -> None:
        containers = [{"name": "c", "image": "i"}]
        self.create(
            "pods", name, metadata={"labels": {"app": "digits"}}, spec={"containers": containers, **spec}
        )
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = (
            {"phase": phase, "podIP": address, "conditions": conditions} if address else {"phase": "Pending"}
        )
        self.lifecycle.amend(self._kind("pods"), "default", name, lambda pod: {**pod, "status": status})
        self.server.store.commit()

    def add_service(self, name: str, **spec: Any) -> None:
        self.create("services", name, spec={"ports": [{"port": 80}], "selector": {"app": "digits"}, **spec})

    def delete(self, resource: str, name: str) -> None:
        self.lifecycle.delete(self._kind(resource), "default", name, DeleteOptions(grace_seconds=0))
        self.server.store.commit()

    def entries(self) -> list[Entry]:
        first, *others = self.surroundings.host_entries(POD)
        assert first == API
        return others

    def _kind(self, resource: str) -> Any:
        return self.server.registry.find_by_resource(resource)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    one = Cluster(tmp_path)
    yield one
    one.server.store.close()


def _names(name: str) -> tuple[str, ...]:
    return f"{name}.default.svc.cluster.local", f"{name}.default.svc", f"{name}.default", name


def test_lookup_of_config_maps_and_secrets(cluster: Cluster) -> None:
    cluster.create("configmaps", "settings", data={"level": "debug"})
    lookup = cluster.surroundings.lookup("default")
    assert (lookup("ConfigMap", "settings") or {})["data"] == {"level": "debug"}
    assert lookup("Secret", "settings") is None
    assert cluster.surroundings.lookup("elsewhere")("ConfigMap", "settings") is None
    assert lookup("ConfigMap", "kube-root-ca.crt") == {"data": {"ca.crt": "CERTIFICATE"}}
    cluster.create("configmaps", "kube-root-ca.crt", data={"ca.crt": "another"})
    assert (lookup("ConfigMap", "kube-root-ca.crt") or {})["data"] == {"ca.crt": "another"}


def test_lookup_of_claims(cluster: Cluster) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.create("persistentvolumeclaims", "data", spec=spec)
    claim = cluster.surroundings.claim_lookup("default")
    assert (claim("data") or {})["metadata"]["name"] == "data"
    assert claim("absent") is None


def test_facts_contain_addresses_allocatable_and_services(cluster: Cluster) -> None:
    cluster.create("nodes", "n0", status={"allocatable": {"cpu": "4"}})
    cluster.add_service("web")
    cluster.add_service("kubernetes")
    facts = cluster.surroundings.facts(POD, ("10.88.0.7",), ("192.0.2.1",))
    assert (facts.pod_ips, facts.host_ips, facts.allocatable) == (
        ("10.88.0.7",),
        ("192.0.2.1",),
        {"cpu": "4"},
    )
    assert [service["metadata"]["name"] for service in facts.services] == ["web", "kubernetes"]
    api_server = facts.services[-1]["spec"]
    assert (api_server["clusterIP"], api_server["ports"][0]["port"]) == ("10.88.0.1", 6443)


def test_api_server_without_address_is_omitted(cluster: Cluster) -> None:
    cluster.address = None
    assert cluster.surroundings.services(POD) == ()
    assert cluster.surroundings.host_entries(POD) == ()
    assert cluster.surroundings.facts(POD, (), ()).allocatable == {}


def test_api_server_short_name_exists_only_in_default_namespace(cluster: Cluster) -> None:
    pod = {"metadata": {"namespace": "train"}, "spec": {}}
    assert cluster.surroundings.host_entries(pod) == ((API[0], API[1][:-1]),)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (None, []),
        (
            {"clusterIP": "None"},
            [("10.88.0.2", "w-0.digits"), ("10.88.0.3", "w-1.digits"), ("10.88.0.3", "digits")],
        ),
        (
            {"clusterIP": "None", "publishNotReadyAddresses": True},
            [
                ("10.88.0.2", "w-0.digits"),
                ("10.88.0.3", "w-1.digits"),
                ("10.88.0.2", "digits"),
                ("10.88.0.3", "digits"),
                ("10.88.0.4", "digits"),
            ],
        ),
        ({"clusterIP": "None", "selector": None}, [("10.88.0.2", "w-0.digits"), ("10.88.0.3", "w-1.digits")]),
        ({}, [("10.88.0.3", "digits")]),
        ({"selector": {"app": "digits", "role": "ps"}}, []),
        ({"type": "ExternalName", "externalName": "example.com"}, []),
    ],
)
def test_host_entries_for_pods_and_services(
    cluster: Cluster, service: Json | None, expected: list[tuple[str, str]]
) -> None:
    cluster.add_pod("a", "10.88.0.2", hostname="w-0", subdomain="digits")
    cluster.add_pod("b", "10.88.0.3", ready=True, hostname="w-1", subdomain="digits")
    cluster.add_pod("c", "10.88.0.4", hostname="w-2", subdomain="letters")
    cluster.add_pod("d", hostname="w-3", subdomain="digits")
    cluster.add_pod("e", "10.88.0.6", phase="Succeeded", hostname="w-4", subdomain="digits")
    if service is not None:
        cluster.add_service("digits", **service)
    assert cluster.entries() == [(address, _names(name)) for address, name in expected]


def test_host_entries_follow_changes(cluster: Cluster) -> None:
    cluster.add_service("digits", clusterIP="None")
    assert cluster.entries() == []
    cluster.add_pod("a", "10.88.0.2", hostname="w-0", subdomain="digits")
    assert cluster.entries() == [("10.88.0.2", _names("w-0.digits"))]
    cluster.add_pod("b", "10.88.0.3", ready=True)
    assert cluster.entries() == [("10.88.0.2", _names("w-0.digits")), ("10.88.0.3", _names("digits"))]
    cluster.delete("pods", "a")
    assert cluster.entries() == [("10.88.0.3", _names("digits"))]
    cluster.delete("services", "digits")
    assert cluster.entries() == []


def test_unrelated_changes_keep_cached_entries(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.add_service("digits")
    cluster.add_pod("a", "10.88.0.2", ready=True)
    expected = cluster.entries()
    monkeypatch.setattr(
        object_lookup, "_namespace_entries", lambda *_: pytest.fail("looked through all pods")
    )
    cluster.add_pod("b")
    cluster.create("configmaps", "settings")
    assert cluster.entries() == expected


def test_pod_that_gets_an_address_does_not_read_all_pods(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_service("digits", clusterIP="None")
    for number in range(50):
        cluster.add_pod(f"waiting-{number}")
    assert cluster.entries() == []
    decoded: list[bytes] = []
    decode = object_lookup._decode_pod

    def count(body: bytes) -> Any:
        decoded.append(body)
        return decode(body)

    monkeypatch.setattr(object_lookup, "_decode_pod", count)

    cluster.add_pod("b", "10.88.0.3", ready=True)
    cluster.add_pod("a", "10.88.0.2", ready=True)
    assert cluster.entries() == [("10.88.0.2", _names("digits")), ("10.88.0.3", _names("digits"))]
    cluster.delete("pods", "b")
    assert cluster.entries() == [("10.88.0.2", _names("digits"))]
    # Each pod before and after each of its changes.
    assert len(decoded) == 7
