"""Services with their addresses, and Endpoints, Secrets, ServiceAccounts and PersistentVolumeClaims."""

import base64
from typing import Any

import pytest

from conformance.client import Json
from conformance.objects import Namespace, free_address, secret, service
from conformance.transcript import RecordingClient

SERVICES: dict[str, Json] = {
    "plain": {},
    "headless": {"clusterIP": "None", "selector": {"app": "a"}},
    "headless-without-ports": {"clusterIP": "None", "ports": None},
    "unready": {"clusterIP": "None", "publishNotReadyAddresses": True},
    "ports": {
        "ports": [
            {"name": "http", "port": 80, "targetPort": "web"},
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
        ]
    },
    "node-port": {"type": "NodePort"},
    "load-balancer": {"type": "LoadBalancer"},
    "affinity": {"sessionAffinity": "ClientIP"},
    "external": {"type": "ExternalName", "externalName": "example.com", "ports": None},
}


@pytest.mark.parametrize("spec", SERVICES.values(), ids=SERVICES)
def test_service_defaults(api: RecordingClient, namespace: Namespace, spec: Json) -> None:
    services = namespace.path("services")
    body = service("a", **spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    created = api.post(services, body).expect(201)
    api.delete(f"{services}/a").expect(200)
    address = created.body["spec"].get("clusterIP")
    has_address = "clusterIP" not in spec and spec.get("type") != "ExternalName"
    assert (address not in (None, "", "None")) is has_address


def test_cluster_ips_are_unique(api: RecordingClient, namespace: Namespace) -> None:
    services = namespace.path("services")
    addresses = [
        api.post(services, service(name)).expect(201).body["spec"]["clusterIP"] for name in ("a", "b", "c")
    ]
    assert len(set(addresses)) == 3
    taken = api.unrecorded.post(services, service("d", clusterIP=addresses[0])).expect(422)
    assert "provided IP is already allocated" in taken.message
    api.delete(f"{services}/a").expect(200)
    api.post(services, service("d", clusterIP=addresses[0])).expect(201)
    for name in ("b", "c", "d"):
        api.unrecorded.delete(f"{services}/{name}").expect(200)


def test_cluster_ip_is_immutable(api: RecordingClient, namespace: Namespace) -> None:
    services = namespace.path("services")
    created = api.post(services, service("a")).expect(201).body
    other = free_address(api.unrecorded, namespace)
    api.patch(f"{services}/a", {"spec": {"clusterIP": other, "clusterIPs": [other]}}).expect(422)
    api.patch(f"{services}/a", {"spec": {"clusterIP": "None"}}).expect(422)
    kept = api.put(f"{services}/a", {**created, "spec": {**created["spec"], "ports": [{"port": 81}]}}).expect(
        200
    )
    assert kept.body["spec"]["clusterIP"] == created["spec"]["clusterIP"]
    api.patch(f"{services}/a", {"spec": {"selector": {"app": "b"}}}).expect(200)
    api.delete(f"{services}/a").expect(200)


def test_headless_service_stays_headless(api: RecordingClient, namespace: Namespace) -> None:
    services = namespace.path("services")
    api.post(services, service("a", clusterIP="None")).expect(201)
    address = free_address(api.unrecorded, namespace)
    api.patch(f"{services}/a", {"spec": {"clusterIP": address, "clusterIPs": [address]}}).expect(422)
    api.patch(f"{services}/a", {"spec": {"ports": [{"port": 81}]}}).expect(200)


def test_load_balancer_status(api: RecordingClient, namespace: Namespace) -> None:
    services = namespace.path("services")
    api.unrecorded.post(services, service("a", type="LoadBalancer")).expect(201)
    status = {"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}, {"hostname": "example.com"}]}}
    api.patch(f"{services}/a/status", {"status": status}).expect(200)


def test_endpoints_validation(api: RecordingClient, namespace: Namespace) -> None:
    endpoints = namespace.path("endpoints")
    body = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "a"},
        "subsets": [{"addresses": [{"ip": "10.1.1.2"}, {"ip": "10.1.1.1"}], "ports": [{"port": 80}]}],
    }
    created = api.post(endpoints, body).expect(201)
    assert created.body["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    wrong = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "b"},
             "subsets": [{"addresses": [{"ip": "nowhere"}], "ports": [{"port": 0}]}]}  # fmt: skip
    api.post(endpoints, wrong).expect(422)
    api.put(f"{endpoints}/c", {**body, "metadata": {"name": "c"}}).expect(201)


SECRETS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "text": ({"stringData": {"k": "1"}}, {"k": "1"}),
    "data": ({"data": {"k": base64.b64encode(b"1").decode()}}, {"k": "1"}),
    "both": ({"stringData": {"k": "text"}, "data": {"k": "MQ==", "l": "Mg=="}}, {"k": "text", "l": "2"}),
    "nothing": ({}, {}),
    "typed": ({"type": "example.com/own", "stringData": {"a": "b"}}, {"a": "b"}),
    "empty-value": ({"stringData": {"k": ""}}, {"k": ""}),
}


@pytest.mark.parametrize(("fields", "expected"), SECRETS.values(), ids=SECRETS)
def test_secret_string_data_becomes_data(
    api: RecordingClient, namespace: Namespace, fields: Any, expected: dict[str, str]
) -> None:
    created = api.post(namespace.path("secrets"), secret("a", **fields)).expect(201).body
    assert {k: base64.b64decode(v).decode() for k, v in created.get("data", {}).items()} == expected
    assert "stringData" not in created
    assert created["type"] == fields.get("type", "Opaque")


def test_secret_string_data_updates_data(api: RecordingClient, namespace: Namespace) -> None:
    secrets = namespace.path("secrets")
    api.post(secrets, secret("a", stringData={"k": "1"})).expect(201)
    assert api.patch(f"{secrets}/a", {"stringData": {"l": "2"}}).expect(200).body["data"] == {
        "k": "MQ==",
        "l": "Mg==",
    }
    assert api.put(f"{secrets}/a", secret("a", stringData={"m": "3"})).expect(200).body["data"] == {
        "m": "Mw=="
    }
    api.patch(f"{secrets}/a", {"type": "example.com/other"}).expect(422)


def test_service_account_is_created_and_patched(api: RecordingClient, namespace: Namespace) -> None:
    accounts = namespace.path("serviceaccounts")
    api.post(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}).expect(
        201
    )
    api.patch(
        f"{accounts}/robot", {"imagePullSecrets": [{"name": "a"}], "automountServiceAccountToken": False}
    ).expect(200)
    api.patch(f"{accounts}/robot", {"imagePullSecrets": [{"name": "b"}]}, "strategic").expect(200)


def test_persistent_volume_claim_defaults(api: RecordingClient, namespace: Namespace) -> None:
    claims = namespace.path("persistentvolumeclaims")
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    }
    created = api.post(claims, body, dryRun="All").expect(201).body
    assert created["spec"]["volumeMode"] == "Filesystem"
    assert created["status"] == {"phase": "Pending"}
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    wrong = {**body, "spec": {"accessModes": ["ReadSometimes"], "resources": {"requests": {"storage": "-1"}}}}
    api.post(claims, wrong, dryRun="All").expect(422)
